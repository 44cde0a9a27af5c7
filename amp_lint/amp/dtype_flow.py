"""Which value of a file has which dtype where: each function run over abstract dtypes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace

import libcst as cst

from amp_lint.amp.dtype_calls import Calls
from amp_lint.amp.dtype_runs import Env, Runner
from amp_lint.amp.dtypes import (
    ANY,
    COMPLEX,
    OFF,
    UNKNOWN,
    WHATEVER,
    Ambient,
    Dims,
    Run,
    Value,
    join,
    number,
    tensor,
    told,
)
from amp_lint.amp.other_trainings import tries_out
from amp_lint.amp.reach import Chain, Reach
from amp_lint.amp.regions import Region, Regions
from amp_lint.flow.program import Program
from amp_lint.flow.reaching import Flow
from amp_lint.flow.values import literal
from amp_lint.syntax.memo import per_node
from amp_lint.syntax.names import callee, dotted
from amp_lint.syntax.tree import statements_of
from amp_lint.vocabulary.amp import DEFAULT_DTYPES, DEVICE_AUTOCAST, SCALE
from amp_lint.vocabulary.meaning import Kind
from amp_lint.vocabulary.operations import (
    DTYPES,
    MOVES,
    PLAIN_DECORATORS,
    PRECISION_WORDS,
    operations,
)
from amp_lint.vocabulary.table import words

_MAX_TARGETS = 8  # of one call: modules that settings choose from
_MAX_DEPTH = 4
"""Calls that are followed one below the other."""
_MAX_RUNS = 8
"""Of one function."""
_MAX_STATES = 4
_PYTHON = frozenset({"int", "float", "bool"})
_MODULE = "torch.nn.Module"
_INDEX = tensor("int32", "int64", dims=Dims.UNKNOWN)
_BACKWARD = words(Kind.BACKWARD)


class DtypeFlow:
    """Runs functions, and keeps what they were given and what came of it."""

    def __init__(
        self,
        program: Program,
        flow: Flow,
        regions: Regions,
        reach: Reach,
        assumed: Callable[[], Ambient | None],
        run: frozenset[str] = frozenset(),
    ) -> None:
        """``assumed``: the autocast state of those methods of modules that nobody calls here.

        And of the functions ``run``, which modules of other files call.
        """
        self.program = program
        self.tree = program.tree
        self.names = program.names
        self.values = program.values
        self.regions = regions
        self.reach = reach
        self._assume = assumed
        self._run_elsewhere = run
        self._calls = Calls(self.program, flow, self._follow)
        self._known: dict[tuple[object, ...], Run] = {}
        self._by_function: dict[int, list[Run]] = {}
        self._attributes: dict[tuple[int, str], Value] = {}
        self._active: list[tuple[object, ...]] = []

    # --- what others ask ----------------------------------------------------------------------

    def runs(self, node: cst.CSTNode) -> list[Run]:
        """The runs of the function that a node stands in."""
        self._everything  # noqa: B018
        function = self.tree.ancestor(node, cst.FunctionDef) or self.tree.module
        return self._by_function.get(id(function), [])

    def reaching(self, node: cst.CSTNode) -> Iterator[Run]:
        """The runs in which an operation is reached."""
        return (run for run in self.runs(node) if run.state(node) is not None)

    def operation(self, call: cst.Call, run: Run) -> tuple[str, cst.BaseExpression] | None:
        """The operation of torch that a call is in a run, and its first operand."""
        owner = call.func.value if isinstance(call.func, cst.Attribute) else None
        return self._calls.operation(call, run.of(owner))

    def lowers(self, node: cst.CSTNode, run: Run) -> bool:
        """Whether autocast casts in it, if it is on: in a product, or what runs a module."""
        if not isinstance(node, cst.Call):
            return isinstance(getattr(node, "operator", None), cst.MatrixMultiply)
        known, state = self.operation(node, run), run.state(node)
        if known is not None:
            policies = operations().policies.get(state.device if state is not None else "", {})
            return policies.get(known[0]) == "low"
        method = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
        return method not in MOVES and not self.names.qualified(node.func)

    @functools.cached_property
    def _everything(self) -> None:
        """Every function of the file, and those that call one, run as called and by themselves."""
        self._module  # noqa: B018
        own = [f for f in self.tree.nodes(cst.FunctionDef) if self.names.part(f) == 0]
        calls = (call for function in own for call in self.reach.callers(function))
        callers = (self.program.function_of(call) for call in calls)
        others = {id(f): f for f in callers if f is not None and self.names.part(f)}
        for function in sorted((*others.values(), *own), key=self._is_helper):
            if self._is_helper(function) and self._by_function.get(id(function)):
                continue  # it has run with what it is given
            for ambient in self._states(function):
                self._run(function, {}, ambient, ())

    @per_node
    def _is_helper(self, function: cst.FunctionDef) -> bool:
        """Whether it is a method that others of its class call, and nobody else in reach."""
        owner, calls = self.values.enclosing_class(function), self.reach.callers(function)
        return (
            bool(calls)
            and owner is not None
            and all(
                dotted(call.func) == f"self.{function.name.value}"
                and self.values.enclosing_class(call) is owner
                and self.program.function_of(call) is not function
                for call in calls
            )
        )

    @functools.cached_property
    def _module(self) -> Run:
        run = Run(self.tree.module, OFF)
        self._by_function[id(self.tree.module)] = [run]
        Runner(self, self._calls, run).suite(statements_of_module(self.tree.module), {})
        return run

    # --- functions ----------------------------------------------------------------------------

    def _states(self, function: cst.FunctionDef) -> list[Ambient]:
        """The autocast states in which a function may begin."""
        found: dict[Ambient, None] = {}
        chains = self.reach.chains(function.body)
        assumed = None if any(map(self._trains_plainly, chains)) else self._assumed
        for chain in chains:
            entered = [e for e in chain.entered if e.holder is not function]
            if entered:
                found[self.inside(entered[0].region, WHATEVER)] = None
            elif self._configures(function) or self._is_turned_off(function, chain):
                found[OFF] = None
            elif self.runs_with_modules(function) and assumed is not None:
                outside = self._is_seen_outside(function, chain, assumed)
                found[WHATEVER if outside else assumed] = None
            else:
                found[WHATEVER] = None
        return [*found][:_MAX_STATES]

    def _is_turned_off(self, function: cst.FunctionDef, chain: Chain) -> bool:
        """Whether a way begins where a decorator turns autocast off, or in a part of what has one.

        Such a part is a module that is made nowhere but in classes whose ``forward`` has it.
        """
        home = self.program.function_of(chain.calls[-1]) if chain.calls else function
        if home is None:
            return False
        if home is not function and self.regions.casts_inputs(home) is not None:
            return True
        owner = self.values.enclosing_class(home)
        made = self.reach.origins.constructions(owner) if owner is not None else []
        return bool(made) and all(map(self._is_part_of_cast, made))

    def _is_part_of_cast(self, made: cst.Call) -> bool:
        """Whether a call makes a part of a module whose inputs a decorator casts."""
        owner = self.values.enclosing_class(made)
        forward = self.values.method(owner, "forward") if owner is not None else None
        return forward is not None and self.regions.casts_inputs(forward) is not None

    def _is_seen_outside(self, function: cst.FunctionDef, chain: Chain, assumed: Ambient) -> bool:
        """Whether a way without a region is known as well as one that has one.

        As other methods of the class run in a region here, or as the file that is assumed to run
        it calls that method where there is none.
        """
        homes = (function, *map(self.program.function_of, chain.calls))
        if any(home is not None and home.name.value in assumed.outside for home in homes):
            return True
        owner = self.values.enclosing_class(function)
        return bool(chain.calls) and owner is not None and self._runs_in_region(owner)

    @per_node
    def _runs_in_region(self, owner: cst.ClassDef) -> bool:
        """Whether some method of a class is called in a region."""
        methods = (f for f in self.tree.below(owner, cst.FunctionDef))
        return any(
            entered.holder is not method
            for method in methods
            for chain in self.reach.chains(method.body)
            for entered in chain.entered
            if chain.calls
        )

    def _trains_plainly(self, chain: Chain) -> bool:
        """Whether a way has no region, and begins where a loss goes backward as it is."""
        if not chain.calls or chain.entered:
            return False
        home = self.program.function_of(chain.calls[-1])
        calls = self.tree.below(home or self.tree.module, cst.Call)
        found = (c for c in calls if _is_plain_backward(c) and self.program.function_of(c) is home)
        return any(not tries_out(self.tree, backward) for backward in found)

    def _configures(self, function: cst.FunctionDef, depth: int = _MAX_DEPTH) -> bool:
        """Whether it makes a module: its constructor, or what only that calls."""
        if function.name.value == "__init__":
            return True
        calls = self.reach.callers(function)
        around = [self.tree.ancestor(call, cst.FunctionDef) for call in calls]
        return bool(calls and depth) and all(
            each is not None and self._configures(each, depth - 1) for each in around
        )

    @functools.cached_property
    def _assumed(self) -> Ambient | None:
        return self._assume()

    def runs_with_modules(self, function: cst.FunctionDef) -> bool:
        """Whether it is a method of a module, or a function that modules of other files call."""
        name, around = function.name.value, self.tree.ancestor(function, cst.FunctionDef)
        is_run = name in self._run_elsewhere and around is None
        is_run = is_run and self.values.enclosing_class(function) is None
        return is_run or self.is_of_module(function)

    def is_of_module(self, function: cst.FunctionDef | cst.Module) -> bool:
        """Whether it is a method of a module that runs with it: not one that makes it."""
        if isinstance(function, cst.Module):
            return False
        owner = self.values.enclosing_class(function)
        if owner is None or function.name.value.startswith("__"):
            return False
        if function.name.value == "forward" and not function.decorators:
            return True
        if self.values.method(owner, "forward") is not None:
            return True  # whatever its base in another file may be
        bases = [base.value for each in self.values.lineage(owner) for base in each.bases]
        return any(
            self.names.is_any(base, {_MODULE}) or (dotted(base) or "").endswith("Module")
            for base in bases
        )

    def _run(
        self,
        function: cst.FunctionDef,
        given: dict[str, Value],
        ambient: Ambient,
        calls: tuple[cst.Call, ...],
    ) -> Run | None:
        """One run of a function; None if there were too many, or it is in the middle of one."""
        known = {name: value for name, value in given.items() if value != UNKNOWN}
        key = (id(function), ambient, *sorted(known.items(), key=lambda item: item[0]))
        if key in self._known:
            return None if key in self._active else self._known[key]
        runs = self._by_function.setdefault(id(function), [])
        if len(runs) >= _MAX_RUNS or len(self._active) > _MAX_DEPTH:
            return None
        run = Run(function, self._begun(function, ambient), calls=calls)
        self._known[key] = run
        runs.append(run)
        self._active.append(key)
        runner = Runner(self, self._calls, run)
        if self.regions.casts_inputs(function) is not None:
            given = {name: _cast(value) for name, value in given.items()}
        given = self._parameters(function, given)
        begun = {name: runner.begun(name, value) for name, value in given.items()}
        runner.suite(statements_of(function.body), begun)
        self._active.pop()
        return run

    def _begun(self, function: cst.FunctionDef, ambient: Ambient) -> Ambient:
        """The autocast state in which a body begins, for the decorators of its function."""
        decorating = self.regions.decorating(function)
        if decorating is not None:
            return self.inside(decorating, ambient)
        if self.regions.casts_inputs(function) is not None:
            return OFF
        return WHATEVER if ambient.supposed and not self._is_plain(function) else ambient

    def _is_plain(self, function: cst.FunctionDef) -> bool:
        """Whether no decorator may turn autocast off: they are known, or named for other things."""
        for each in function.decorators:
            node = callee(each.decorator)
            name = (dotted(node) or "").lower()
            is_known = name.rpartition(".")[2] in PLAIN_DECORATORS
            if not is_known and not (self.names.qualified(node) and _is_plain(name)):
                return False
        return True

    def _parameters(self, function: cst.FunctionDef, given: dict[str, Value]) -> Env:
        """The variables with which a function begins."""
        params = function.params
        configures = function.name.value == "__init__"
        env: Env = {}
        for param in (*params.posonly_params, *params.params, *params.kwonly_params):
            name = param.name.value
            value = given[name] if name in given else self._default(param)
            value = _INDEX if value == UNKNOWN and name in self._indices(function) else value
            is_any = value.is_tensor and value.dtypes == {ANY} and name not in ("self", "cls")
            env[name] = replace(value, follows=name) if is_any and not configures else value
        for star in (params.star_arg, params.star_kwarg):
            if isinstance(star, cst.Param):
                env[star.name.value] = UNKNOWN
        return env

    @per_node
    def _indices(self, function: cst.FunctionDef) -> frozenset[str]:
        """The parameters that an operation takes as an index, and nothing else is given to."""
        taken = {
            name.value
            for call in self.tree.below(function, cst.Call)
            if isinstance(name := self._calls.index(call), cst.Name)
            and [each.kind for each in self.names.bindings(name)] == ["parameter"]
            and self.tree.ancestor(self.names.bindings(name)[0].node, cst.FunctionDef) is function
        }
        return frozenset(taken)

    def _default(self, param: cst.Param) -> Value:
        """What a parameter is that nobody gives: a number by default, or by what is declared."""
        value = literal(param.default)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return number(float(value), isinstance(value, float))
        declared = dotted(param.annotation.annotation) if param.annotation is not None else ""
        if declared in _PYTHON or isinstance(value, int):
            return number(None, floating=declared != "int")
        return UNKNOWN

    def _follow(self, call: cst.Call, run: Run, ambient: Ambient) -> Value | None:
        """What a function in reach gives for the arguments of a call; any of those it may run."""
        targets = self.reach.targets(call)
        if not targets or any(map(self._runs_later, targets)):
            return None
        some = targets[:_MAX_TARGETS]
        results = [self._followed(target, call, run, ambient) for target in some]
        known = [result for result in results if result is not None]
        rest = [UNKNOWN] if len(known) < len(targets) else []
        return functools.reduce(join, [*known, *rest]) if known else None

    def _runs_later(self, function: cst.FunctionDef) -> bool:
        return function in self.reach.generators or function.asynchronous is not None

    def _followed(
        self, target: cst.FunctionDef, call: cst.Call, run: Run, ambient: Ambient
    ) -> Value | None:
        bound = self.program.bind(target, call)
        given = {name: run.of(value) for name, value in bound.items()}
        unnamed = {name: told(value, {}) for name, value in given.items()}
        found = self._run(target, unnamed, ambient, (call, *run.calls))
        if found is None or found.result is None:
            return None
        names = {name: value.follows for name, value in given.items()}
        return told(found.result, names, lowered=ambient.is_on and not ambient.supposed)

    # --- what a run asks ----------------------------------------------------------------------

    def ambient(self, context: cst.BaseExpression, outer: Ambient) -> Ambient | None:
        """The autocast state inside of a ``with``; None if it is no such context."""
        region = self.regions.of(context)
        return self.inside(region, outer) if region is not None else None

    def of_global(self, name: cst.Name) -> Value:
        """What a name of the module is, if nothing else may bind it."""
        bindings = self.names.bindings(name)
        if not bindings or any(binding.value is None for binding in bindings):
            return self._of_imported(name)
        if any(self.names.scope(binding.node) is not self.names.module for binding in bindings):
            return UNKNOWN
        if "_module" not in self.__dict__:
            return UNKNOWN
        values = [self._module.of(binding.value) for binding in bindings]
        return functools.reduce(join, values)

    def _of_imported(self, name: cst.Name) -> Value:
        """What a name is that stands for one number of another file."""
        if any(binding.kind != "import" for binding in self.names.bindings(name)):
            return UNKNOWN
        found = [*self.values.constants(name)]
        value = found[0] if len(found) == 1 else None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return UNKNOWN
        return number(value)

    def of_attribute(self, node: cst.Attribute) -> Value:
        """What the class of a method gives an attribute."""
        owner = self.values.enclosing_class(node)
        if owner is None:
            return UNKNOWN
        key = id(owner), node.attr.value
        if key not in self._attributes:
            self._attributes[key] = UNKNOWN  # what is asked for while it is worked out
            found = [self._assigned(value) for value in self._held(owner, node)]
            self._attributes[key] = functools.reduce(join, found) if found else UNKNOWN
        return self._attributes[key]

    def is_buffer(self, node: cst.Attribute) -> bool:
        """Whether the class of a method registers a buffer of this name."""
        owner = self.values.enclosing_class(node)
        classes = self.values.lineage(owner) if owner is not None else []
        buffers = (name for each in classes for name, _ in self._buffers.get(id(each), ()))
        return dotted(node.value) == "self" and node.attr.value in buffers

    @functools.cached_property
    def frequency_buffers(self) -> list[cst.BaseExpression]:
        """What is registered as a buffer, and is frequencies of positions, in float32."""
        return [v for v, what in self._kept if what.turns and what.may_be("float32")]

    @functools.cached_property
    def complex_buffers(self) -> list[cst.BaseExpression]:
        """What is registered as a buffer, and may be complex."""
        return [v for v, what in self._kept if what.is_tensor and what.dtypes & COMPLEX]

    @functools.cached_property
    def _kept(self) -> list[tuple[cst.BaseExpression, Value]]:
        """What is registered as a buffer, and what that is."""
        given = (value for each in self._buffers.values() for _, value in each)
        return [(value, self._assigned(value)) for value in given]

    def _held(self, owner: cst.ClassDef, node: cst.Attribute) -> Iterator[cst.BaseExpression]:
        """What a class assigns to an attribute, or registers as a buffer of that name."""
        yield from self.values.attribute_values(node)
        for each in self.values.lineage(owner):
            for name, value in self._buffers.get(id(each), ()):
                if name == node.attr.value:
                    yield value

    @functools.cached_property
    def _buffers(self) -> dict[int, list[tuple[str, cst.BaseExpression]]]:
        """Id of a class -> the buffers that it registers."""
        found: dict[int, list[tuple[str, cst.BaseExpression]]] = {}
        for call in self.tree.nodes(cst.Call):
            if dotted(call.func) == "self.register_buffer":
                owner = self.values.enclosing_class(call)
                name, value = (self.values.argument(call, 0, "name"),
                               self.values.argument(call, 1, "tensor"))  # fmt: skip
                text = literal(name)
                if owner is not None and isinstance(text, str) and value is not None:
                    found.setdefault(id(owner), []).append((text, value))
        return found

    def _assigned(self, value: cst.BaseExpression) -> Value:
        """What an expression is, in the function that it stands in."""
        function = self.tree.ancestor(value, cst.FunctionDef)
        if function is None:
            return number(float(v)) if isinstance(v := literal(value), float) else UNKNOWN
        (state, *_) = self._states(function)
        run = self._run(function, {}, state, ())
        return run.of(value) if run is not None else UNKNOWN

    # --- regions ------------------------------------------------------------------------------

    def inside(self, region: Region, outer: Ambient) -> Ambient:
        """The autocast state inside of a region."""
        if region.never_enabled:
            return OFF
        device = self._device(region)
        dtypes = self._dtypes(region, device)
        if device not in DEFAULT_DTYPES or (device == "cpu" and "float32" in dtypes):
            return WHATEVER
        sure = region.enabled is None or literal(region.enabled) is True
        certain = sure and not region.conditional and not region.starred and bool(region.function)
        return Ambient(device, dtypes, certain, region.node)

    def _device(self, region: Region) -> str:
        """The device type of a region; CUDA where it is not written."""
        if region.function in DEVICE_AUTOCAST:
            return DEVICE_AUTOCAST[region.function] or "cuda"
        device = literal(region.device)
        return device.split(":")[0] if isinstance(device, str) else "cuda"

    def _dtypes(self, region: Region, device: str) -> frozenset[str]:
        """What a region may cast to."""
        default = DEFAULT_DTYPES.get(device, ANY)
        if region.dtype is None:
            known = region.function and not region.starred
            return frozenset({default}) if known else frozenset({"float16", "bfloat16"})
        found: set[str] = set()
        for value in self.values.alternatives(region.dtype):
            named = {DTYPES.get(name, "") for name in self.names.qualified(value)}
            if named and "" not in named:
                found |= named
            elif literal(value) is None:
                found.add(default)
            else:
                found |= {"float16", "bfloat16"}
        return frozenset(found)


def _cast(value: Value) -> Value:
    """A value of which nobody says any more that it is low."""
    return replace(value, dtypes=frozenset({ANY}), why=None) if value.low else value


def _is_plain(name: str) -> bool:
    return not any(word in name for word in PRECISION_WORDS)


def statements_of_module(module: cst.Module) -> Iterator[cst.CSTNode]:
    """The statements of a file, each of those that share a line by itself."""
    for statement in module.body:
        if isinstance(statement, cst.SimpleStatementLine):
            yield from statement.body
        else:
            yield statement


def _is_plain_backward(call: cst.Call) -> bool:
    """``loss.backward()``; not ``scaler.scale(loss).backward()``, nor ``engine.backward(loss)``."""
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in _BACKWARD:
        return False
    made = call.func.value.func if isinstance(call.func.value, cst.Call) else None
    scaled = isinstance(made, cst.Attribute) and made.attr.value in SCALE.words
    return not scaled and all(arg.keyword is not None for arg in call.args)
