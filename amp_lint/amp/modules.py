"""Which modules an optimizer trains, and what was done to them on the way to it."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from amp_lint.amp.frameworks import Frameworks
from amp_lint.flow.branches import arms, contradict, guards
from amp_lint.flow.program import Program
from amp_lint.flow.reaching import Flow
from amp_lint.flow.values import Slot, Values, arguments, literal
from amp_lint.syntax.names import Binding, Names, dotted
from amp_lint.syntax.tree import Tree, descendants, last_statement, statements_of
from amp_lint.vocabulary.frameworks import KEEPING_MASTER_WEIGHTS
from amp_lint.vocabulary.meaning import Kind, Part, Role
from amp_lint.vocabulary.modules import (
    APPLY,
    CASTING,
    COPYING,
    HALVING,
    KEEPING,
    PARAMETER,
    PARAMETERS,
    PARTS,
    WIDENING,
    WRAPPERS,
)
from amp_lint.vocabulary.operations import MAKERS
from amp_lint.vocabulary.table import names as names_of
from amp_lint.vocabulary.table import place, words
from amp_lint.vocabulary.training import makes_optimizer

HALF = frozenset({"torch.float16", "torch.half", "torch.HalfTensor", "torch.cuda.HalfTensor"})
HALF_TEXT = frozenset({"float16", "torch.float16", "torch.HalfTensor", "torch.cuda.HalfTensor"})
_WIDER = frozenset({"torch.float32", "torch.float", "torch.float64", "torch.double",
                    "torch.bfloat16", "torch.FloatTensor", "torch.cuda.FloatTensor"})  # fmt: skip
_CLIPS, _BACKWARD, _STEP = (
    names_of(Kind.CLIP),
    words(Kind.BACKWARD),
    words(Kind.STEP),
)
_COPIES = frozenset({"clone", "detach", "double", "float"})
_MASTER_WEIGHTS = re.compile(KEEPING_MASTER_WEIGHTS, re.IGNORECASE)
_OWNERS = re.compile(r"deepspeed|fsdp|apex|zero|colossal|megatron", re.IGNORECASE)
_BETWEEN = re.compile(r"eval|valid|test|infer|predict", re.IGNORECASE)
"""In the names of functions that are called between the epochs of a training."""
_EVALUATION = re.compile(
    r"eval|infer|test|predict|sampl|export|deploy|valid|generat", re.IGNORECASE
)
_QUANTIZED = frozenset({"load_in_4bit", "load_in_8bit", "quantization_config"})
_DTYPES = frozenset({"dst_type", "dtype", "torch_dtype"})
_CASTS = frozenset({"to", "type"})
_FACTORIES = frozenset(f"torch.{name}" for name in MAKERS | {"full", "tensor"})
_EXITS = frozenset({"exit", "quit", "sys.exit"})
_MAX_STEPS = 12


@dataclass(frozen=True, slots=True)
class HalfTraining:
    """A trained module whose parameters were made float16."""

    cast: cst.Call
    """``model.half()``, or a ``from_pretrained(..., torch_dtype=torch.float16)``."""
    dtype: cst.Arg | None
    """The argument that says float16, if there is one."""
    trained: cst.Call
    """The optimizer's constructor, or the clip, that shows that it is trained."""

    @property
    def made(self) -> bool:
        """Whether the module is made in float16 rather than cast to it."""
        function = self.cast.func
        method = function.attr.value if isinstance(function, cst.Attribute) else ""
        return self.dtype is not None and method not in _CASTS


@dataclass(frozen=True, slots=True)
class _Release:
    """What freezes a module, or casts some of it back."""

    node: cst.CSTNode
    widens: bool
    """Whether it is the latter."""
    is_part: bool
    """Whether it is done to a part that is named."""


class Modules:
    """Follows modules from where they are trained back to where they are made."""

    def __init__(
        self,
        program: Program,
        tree: Tree,
        names: Names,
        values: Values,
        flow: Flow,
        frameworks: Frameworks,
    ) -> None:
        self.program = program
        self.frameworks = frameworks
        self.tree = tree
        self.names = names
        self.values = values
        self.flow = flow

    @functools.cached_property
    def half_trainings(self) -> list[HalfTraining]:
        """Every cast to float16 of a module that is trained afterwards, in source order."""
        return self._half(self.trainings())

    @functools.cached_property
    def half_by_functions(self) -> list[HalfTraining]:
        """The same where a function makes parameters float16, one by one or of what it is given."""
        return self._half(self.trainings(), self.given_casts) if self.given_casts else []

    @functools.cached_property
    def half_in_trainers(self) -> list[HalfTraining]:
        """The same of modules that a Trainer trains."""
        return self._half(self._trainers())

    def _half(
        self,
        trainings: Iterable[tuple[cst.Call, cst.BaseExpression]],
        in_place: Sequence[tuple[cst.Call, cst.BaseExpression]] | None = None,
    ) -> list[HalfTraining]:
        """The casts, or only some that are done in place, of modules that are trained."""
        if not (self._casts or in_place) or self._owns_master_weights:
            return []
        found: dict[int, HalfTraining] = {}
        for call, module in trainings:
            trace = _Trace(self, call, self.in_place_casts if in_place is None else in_place)
            for cast in trace.casts(module) if in_place is None else trace.in_place(module):
                released = any(self._is_released(slot, cast, call) for slot in trace.slots)
                if self.tree.is_own(cast) and not released and self._counts(cast, call, module):
                    found.setdefault(id(cast), self._half_training(cast, call))
        return sorted(found.values(), key=lambda each: self.tree.order(each.cast))

    def _half_training(self, cast: cst.Call, trained: cst.Call) -> HalfTraining:
        return HalfTraining(cast, self._half_argument(cast), trained)

    def _counts(self, cast: cst.Call, trained: cst.Call, module: cst.BaseExpression) -> bool:
        """Whether the cast is made for training as far as the tests around it tell."""
        if any(contradict(self.tree, cast, place) for place in (trained, module)):
            return False
        if self._leaves_after(cast, trained):
            return False
        ways = (guard.normal() for guard in guards(self.tree, cast))
        tests = [self.tree.source(test) for test, holds in ways if holds]
        if any(map(_OWNERS.search, tests)):
            return False
        return self.trains_on(cast) or not any(map(_EVALUATION.search, tests))

    def trains_on(self, cast: cst.Call) -> bool:
        """Whether a cast is an evaluation between the epochs of a training, of what it trains.

        That is a call of a function which leaves what it is given in float16, in a loop that has
        the same module in each round, and trains it in another one.
        """
        function, loop = self.program.target(cast), self.program.loop(cast)
        module = next((given for call, given in self.given_casts if call is cast), None)
        if function is None or not isinstance(loop, cst.For) or not isinstance(module, cst.Name):
            return False
        if not _BETWEEN.search(function.name.value) or self._is_given_on(function):
            return False
        bound = self.names.bindings(module)
        if any(self.tree.contains(loop, each.node) for each in bound) or self._ends(loop, cast):
            return False
        if not all(self._is_periodic(test, loop) for test, _ in arms(self.tree, cast)):
            return False
        run = [(call, self.program.target(call)) for call in self.tree.below(loop.body, cst.Call)]
        if any(self._widens(each, call, module) for call, each in run if each is not None):
            return False
        return any(
            id(each) in self.training and not self.flow.exclusive(cast, call)
            for call, each in run
            if each is not None
        )

    def _ends(self, loop: cst.For, cast: cst.Call) -> bool:
        """Whether a block around a cast leaves a loop, or its round."""
        holders = (each for each in self.tree.ancestors(cast) if self.tree.contains(loop, each))
        return any(isinstance(each, cst.IndentedBlock) and _leaves(each) for each in holders)

    def _widens(self, function: cst.FunctionDef, call: cst.Call, module: cst.Name) -> bool:
        """Whether a function casts back what a call gives it, which is a certain module."""
        given = self.program.bind(function, call)
        names = {name for name, each in given.items() if dotted(each) == module.value}
        return any(
            self.is_widening(part) and dotted(self.origin(part)) in names
            for part in self.tree.below(function.body, cst.Call)
        )

    def _is_periodic(self, test: cst.BaseExpression, loop: cst.For) -> bool:
        """Whether a test around a place of a loop may hold in a round that is not the last."""
        targets = {part.value for part in descendants(loop.target) if isinstance(part, cst.Name)}
        if not self.tree.contains(loop, test):
            return True
        parts = [part for part in descendants(test) if isinstance(part, cst.BinaryOperation)]
        counted = [part for part in parts if isinstance(part.operator, cst.Modulo)]
        return all(
            any(self.tree.contains(each, part) for each in counted)
            for part in descendants(test)
            if isinstance(part, cst.Name) and part.value in targets
        )

    def _is_given_on(self, function: cst.FunctionDef) -> bool:
        """Whether a function hands a module that it casts to other code, or casts it again."""
        casts = (each for each in self.in_place_casts if self.tree.contains(function, each[0]))
        names = {module.value for _, module in casts if isinstance(module, cst.Name)}
        for call in self.tree.below(function.body, cst.Call):
            if self.is_half_cast(call):
                continue
            given = {arg.value.value for arg in call.args if isinstance(arg.value, cst.Name)}
            method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
            owner = dotted(call.func.value) if isinstance(call.func, cst.Attribute) else ""
            alone = isinstance(self.tree.parent(call), cst.Expr)
            if (alone and not names.isdisjoint(given)) or (method in _CASTS and owner in names):
                return True
        return False

    def _leaves_after(self, cast: cst.Call, trained: cst.Call) -> bool:
        """Whether the block of the cast leaves the function before anything is trained."""
        home = self.tree.ancestor(cast, cst.FunctionDef)
        if home is not self.tree.ancestor(trained, cst.FunctionDef):
            return False
        for holder in self.tree.ancestors(cast):
            if holder is home or self.tree.contains(holder, trained):
                return False
            if isinstance(holder, cst.IndentedBlock) and _leaves(holder):
                return True
        return False

    def is_pretrained(self, node: cst.CSTNode) -> bool:
        """Whether the class around a place is made to be loaded with published weights."""
        if self._loads_pretrained:
            return True
        owner = self.values.enclosing_class(node)
        bases = [dotted(base.value) or "" for base in owner.bases] if owner is not None else []
        return any("pretrained" in base.lower() for base in bases)

    @functools.cached_property
    def _loads_pretrained(self) -> bool:
        holders = map(self.tree.parent, self.tree.named("from_pretrained"))
        return any(
            isinstance(holder, cst.Attribute) and isinstance(self.tree.parent(holder), cst.Call)
            for holder in holders
        )

    # --- what is trained ----------------------------------------------------------------------

    def trainings(self) -> Iterator[tuple[cst.Call, cst.BaseExpression]]:
        """Each optimizer's constructor, or clip, with every module whose parameters it gets."""
        for call in self.tree.nodes(cst.Call):
            names = self.names.qualified(call.func)
            if any(map(makes_optimizer, names)):
                given = arguments(call).get(0, "params")
                if given is not None:
                    yield from ((call, module) for module in self._owners(given))
            elif names & _CLIPS and call.args and self._steps_after(call):
                for module in self._owners(call.args[0].value):
                    if self.values.slot(module) is not None:
                        yield call, module

    def _trainers(self) -> Iterator[tuple[cst.Call, cst.BaseExpression]]:
        for call in self.tree.nodes(cst.Call):
            for name in self.names.qualified(call.func) & names_of(Role.TRAINER):
                given = arguments(call).get(*place(name, Part.MODEL))
                if given is not None:
                    yield call, given

    @functools.cached_property
    def training(self) -> frozenset[int]:
        """Ids of the functions that go backward, themselves or in what they call."""
        return self.program.running(
            call
            for call in self.tree.nodes(cst.Call)
            if isinstance(call.func, cst.Attribute) and call.func.attr.value in _BACKWARD
        )

    def _steps_after(self, clip: cst.Call) -> bool:
        """Whether the function of a clip also goes backward and steps."""
        function = self.tree.ancestor(clip, cst.FunctionDef) or self.tree.module
        methods = {
            call.func.attr.value
            for call in self.tree.below(function, cst.Call)
            if isinstance(call.func, cst.Attribute)
        }
        return not (_BACKWARD.isdisjoint(methods) or _STEP.isdisjoint(methods))

    def _owners(self, given: cst.BaseExpression, steps: int = 4) -> Iterator[cst.BaseExpression]:
        """The modules whose own parameters, not copies of them, an expression lists."""
        if _copies(given):
            return
        for part in descendants(given):
            if isinstance(part, cst.Call):
                owner = _parameters_of(part)
                if owner is not None:
                    yield owner
                elif steps > 0:
                    yield from self._owners_by_helper(part)
            elif isinstance(part, cst.Name) and steps > 0:
                for source in self._sources(part):
                    yield from self._owners(source, steps - 1)

    def _sources(self, name: cst.Name) -> Iterator[cst.BaseExpression]:
        """What a variable is made of: what it is given, is filled with, or takes in a loop."""
        for binding in self.flow.reaching(name):
            if binding.kind == "assign" and binding.value is not None:
                yield binding.value
            elif binding.kind == "for" and isinstance(binding.node, cst.For):
                yield binding.node.iter
        yield from (put for put, _ in self.values.gathered(name))

    def _owners_by_helper(self, call: cst.Call) -> Iterator[cst.BaseExpression]:
        """``trainable(model)``, where that function of this file lists ``model.parameters()``."""
        function = self.values.function(call.func)
        if function is None or _copies(function.body):
            return
        given = self.program.bind(function, call)
        for part in descendants(function.body):
            owner = _parameters_of(part) if isinstance(part, cst.Call) else None
            if isinstance(owner, cst.Name) and owner.value in given:
                yield given[owner.value]

    # --- what speaks against ------------------------------------------------------------------

    @functools.cached_property
    def _owns_master_weights(self) -> bool:
        """Whether somebody keeps float32 copies of the parameters."""
        return any(
            _MASTER_WEIGHTS.search(name)
            for call in self.tree.nodes(cst.Call)
            for name in (dotted(call.func) or "", *self.names.qualified(call.func))
        )

    def _is_released(self, slot: Slot, cast: cst.Call, trained: cst.Call) -> bool:
        """Whether a module is frozen, or cast back in part, unless all that is trained is cast.

        It is where it was frozen and given to its optimizer before, one after the other.
        """
        order, home = self.tree.order, self.tree.ancestor(cast, cst.FunctionDef)
        late = home is self.tree.ancestor(trained, cst.FunctionDef) and order(trained) < order(cast)
        return any(
            each.widens or not late or order(each.node) > order(cast)
            for each in self._released.get(slot, ())
            if not contradict(self.tree, each.node, cast) and not self._is_optional(each, cast)
        )

    def _is_optional(self, release: _Release, cast: cst.Call) -> bool:
        """Whether a part is frozen that a setting may leave as it is, where the cast is done."""
        known = {(id(test), holds) for test, holds in arms(self.tree, cast)}
        own = {(id(test), holds) for test, holds in arms(self.tree, release.node)}
        return release.is_part and not release.widens and not own <= known

    @functools.cached_property
    def _released(self) -> dict[Slot, list[_Release]]:
        """What is frozen, or of which some part is cast back, anywhere in the file."""
        found: dict[Slot, list[_Release]] = defaultdict(list)
        for node, module, widens in self.releases():
            root = self._root(module)
            slot = self.values.slot(root)
            if slot is not None:
                found[slot].append(_Release(node, widens, self.origin(module) is not root))
        return found

    def releases(self) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression, bool]]:
        """What freezes a module or casts it back, with the module and whether it is the latter."""
        for call in self.tree.nodes(cst.Call):
            widens = self.is_widening(call) and not self.is_half_cast(call)
            if widens or _freezes(call):
                assert isinstance(call.func, cst.Attribute)
                yield call, call.func.value, widens
        narrow = {id(loop) for loop, _, _ in self._looped_casts}
        for loop in self.tree.nodes(cst.For):
            change = changes_parameters(loop.body) if id(loop) not in narrow else None
            for part in descendants(loop.iter) if change is not None else ():
                if isinstance(part, cst.Call) and isinstance(part.func, cst.Attribute):
                    yield loop, part.func.value, change is True

    # --- casts --------------------------------------------------------------------------------

    @functools.cached_property
    def _casts(self) -> list[cst.Call]:
        return [call for call in self.tree.nodes(cst.Call) if self.is_half_cast(call)]

    @functools.cached_property
    def in_place_casts(self) -> list[tuple[cst.Call, cst.BaseExpression]]:
        """``model.half()`` as a statement, with the expression that names the module.

        So is ``model = model.half()``: it is the same one.
        """
        found = ((call, self.origin(call)) for call in self._casts)
        return [(call, module) for call, module in found if self._is_in_place(call, module)]

    def _is_in_place(self, cast: cst.Call, module: cst.BaseExpression) -> bool:
        match self.tree.parent(cast):
            case cst.Expr():
                return True
            case cst.Assign(targets=[one]) if isinstance(one.target, cst.Name):
                return isinstance(module, cst.Name) and module.value == one.target.value
        return False

    @functools.cached_property
    def given_casts(self) -> list[tuple[cst.Call, cst.BaseExpression]]:
        """The calls of functions that cast a module's parameters, with that module.

        ``model.apply(f)``, where ``f`` casts ``layer.weight.data`` or ``layer``, a loop that does,
        and ``to_half(model)``.
        """
        found = [(cast, module) for _, cast, module in self._looped_casts]
        found += [(call, call.args[0].value) for call in self._calls_of_libraries]
        for call in self._applications:
            given = call.args[0].value
            function = given if isinstance(given, cst.Lambda) else self.values.function(given)
            if function is not None and self._casts_parts(function):
                assert isinstance(call.func, cst.Attribute)
                found.append((call, call.func.value))
        for call, module in (*found, *self.in_place_casts):
            slot = self.values.slot(module)
            if slot and any(each.widens for each in self._released.get(slot, ())):
                continue  # the function casts it back
            for binding in self.names.bindings(module) if isinstance(module, cst.Name) else ():
                function = self.tree.ancestor(binding.node, cst.FunctionDef)
                if binding.kind == "parameter" and function is self.program.function_of(call):
                    found += self._handed(binding)
        return found

    @property
    def _calls_of_libraries(self) -> Iterator[cst.Call]:
        """``clip.model.convert_weights(model)``."""
        calls = (call for call in self.tree.nodes(cst.Call) if len(call.args) == 1)
        return (call for call in calls if self.names.is_any(call.func, HALVING))

    @property
    def _applications(self) -> Iterator[cst.Call]:
        """``model.apply(f)``."""
        for call in self.tree.nodes(cst.Call):
            method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
            if method == APPLY and len(call.args) == 1:
                yield call

    @functools.cached_property
    def _looped_casts(self) -> list[tuple[cst.For, cst.Call, cst.BaseExpression]]:
        """``for layer in model.children(): layer.half()``, and the same of parameters' data."""
        found: list[tuple[cst.For, cst.Call, cst.BaseExpression]] = []
        for cast in self._casts:
            loop = self.program.loop(cast)
            parts = loop.iter if isinstance(loop, cst.For) else None
            if isinstance(parts, cst.Call) and isinstance(parts.func, cst.Attribute):
                assert isinstance(loop, cst.For)
                if parts.func.attr.value in PARTS and self._is_of_each(cast, loop):
                    found.append((loop, cast, parts.func.value))
        return found

    def _is_of_each(self, cast: cst.Call, loop: cst.For) -> bool:
        """Whether a statement casts all that a loop gives: a layer, or a parameter's data."""
        if not isinstance(cast.func, cst.Attribute):  # what makes a tensor
            return False
        each = loop.target.elements[-1].value if isinstance(loop.target, cst.Tuple) else loop.target
        statement = self.tree.parent(cast)
        of = dotted(cast.func.value) or ""
        if isinstance(statement, cst.Expr):
            casts = of == dotted(each)
        else:
            casts = self._casts_data(statement) and of.partition(".")[0] == dotted(each)
        is_direct = any(part is statement for part in statements_of(loop.body))
        return casts and is_direct and not [*self.tree.below(loop.body, cst.Continue)]

    def _casts_parts(self, function: cst.FunctionDef | cst.Lambda) -> bool:
        """Whether a function that each layer is given to makes it float16, or its parameters."""
        params = [param.name.value for param in function.params.params]
        if any(map(self._casts_data, descendants(function.body))):
            return True
        body = function.body
        return (
            isinstance(function, cst.Lambda)
            and isinstance(body, cst.Call)
            and isinstance(body.func, cst.Attribute)
            and self.is_half_cast(body)
            and [dotted(body.func.value)] == params
        )

    def _casts_data(self, node: cst.CSTNode | None) -> bool:
        """``layer.weight.data = layer.weight.data.half()``."""
        if not isinstance(node, cst.Assign) or not isinstance(node.value, cst.Call):
            return False
        targets = [target.target for target in node.targets]
        held = all(isinstance(t, cst.Attribute) and t.attr.value == "data" for t in targets)
        return held and self.is_half_cast(node.value)

    def casts_of_parts(self, owner: cst.ClassDef) -> Iterator[tuple[cst.Call, cst.Attribute]]:
        """The casts of what a class makes of torch's own modules, in its constructor.

        So are those of what becomes its parameters.
        """
        start = self.values.method(owner, "__init__")
        if start is None:
            return
        for cast, module in self.in_place_casts:
            made = self.values.alternatives(module)
            if (
                isinstance(module, cst.Attribute)
                and self.tree.contains(start, cast)
                and all(map(self._is_of_torch, made))
            ):
                yield cast, module
        for assign in self.tree.below(start, cst.Assign):
            target = assign.targets[0].target
            if isinstance(target, cst.Attribute) and len(assign.targets) == 1:
                yield from ((cast, target) for cast in self._casts_within(assign.value))

    def _casts_within(self, made: cst.BaseExpression) -> Iterator[cst.Call]:
        """``nn.Linear(3, 3).half()``, ``nn.Parameter(torch.zeros(3, dtype=torch.float16))``."""
        origin = self.origin(made)
        if not isinstance(origin, cst.Call) or not self._is_of_torch(origin):
            return
        node: cst.BaseExpression | None = made
        if self.names.is_any(origin.func, PARAMETER):
            given = arguments(origin)
            trained = literal(given.get(1, "requires_grad")) is not False
            node = given.get(0, "data") if made is origin and trained else None
        while isinstance(node, cst.Call) and not (self.is_widening(node) or _freezes(node)):
            if self.is_half_cast(node):
                yield node
                return
            node = self.same_module(node)

    def _is_of_torch(self, made: cst.BaseExpression) -> bool:
        names = self.names.qualified(made.func) if isinstance(made, cst.Call) else ()
        return bool(names) and all(name.startswith("torch.nn.") for name in names)

    def is_half_cast(self, call: cst.Call) -> bool:
        """Whether a call gives a float16 copy, or makes a module float16."""
        method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        if method == "half":
            return not call.args
        return self._half_argument(call) is not None

    def _half_argument(self, call: cst.Call) -> cst.Arg | None:
        method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        if any(arg.keyword is not None and arg.keyword.value in _QUANTIZED for arg in call.args):
            return None
        for arg in call.args:
            keyword = arg.keyword.value if arg.keyword is not None else None
            wanted = keyword in _DTYPES or (method in _CASTS and keyword is None)
            if wanted and self._takes_dtype(call, method) and self._may_be_half(arg.value):
                return arg
        return None

    def _takes_dtype(self, call: cst.Call, method: str) -> bool:
        """Whether a call gives what it makes, loads or casts the dtype that it is told."""
        if method in _CASTS or method == "from_pretrained":
            return True
        return self._is_of_torch(call) or self.names.is_any(call.func, _FACTORIES)

    def _may_be_half(self, dtype: cst.BaseExpression, steps: int = 4) -> bool:
        """Whether a setting, or nothing at all, makes this dtype float16, by what reaches it."""
        if self.names.is_only(dtype, HALF) or literal(dtype) in HALF_TEXT:
            return True
        if isinstance(dtype, cst.IfExp):
            return any(self._may_be_half(arm, steps) for arm in (dtype.body, dtype.orelse))
        if isinstance(dtype, (cst.Subscript, cst.Call)) and steps > 0:
            entries = (each for each in self.values.alternatives(dtype) if each is not dtype)
            return any(self._may_be_half(each, steps - 1) for each in entries)
        if not isinstance(dtype, cst.Name) or steps <= 0:
            return False
        reaching = (b.value for b in self.flow.reaching(dtype) if b.kind == "assign")
        return any(self._may_be_half(value, steps - 1) for value in reaching if value is not None)

    def is_widening(self, call: cst.Call) -> bool:
        """Whether a call casts to float32 or another type with its exponent range."""
        if not isinstance(call.func, cst.Attribute):
            return False
        method = call.func.attr.value
        if method in WIDENING:
            return not call.args
        return method in ("to", "type") and any(
            self.names.is_any(arg.value, _WIDER) for arg in call.args
        )

    def _root(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """The variable or ``self.x`` of which an expression names a part."""
        while True:
            node = self.origin(node)
            held = isinstance(node, cst.Attribute) and dotted(node.value) in ("self", "cls")
            if held or not isinstance(node, (cst.Attribute, cst.Subscript)):
                return node
            node = node.value

    # --- where modules are held ---------------------------------------------------------------

    def same_module(self, call: cst.Call) -> cst.BaseExpression | None:
        """``m`` of ``m.cuda()``, ``torch.compile(m)`` and other calls that give ``m`` back."""
        if call.args and self.names.is_any(call.func, WRAPPERS | COPYING):
            return call.args[0].value
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in KEEPING | CASTING:
            return call.func.value
        return None

    def origin(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """The module at the start of ``model.cuda().half()``."""
        while isinstance(node, cst.Call):
            inner = self.same_module(node)
            if inner is None:
                return node
            node = inner
        return node

    def arguments_of(self, parameter: Binding) -> Iterator[cst.BaseExpression]:
        """What the calls in this file pass for a parameter."""
        return (given for _, given in self._handed(parameter))

    def _handed(self, parameter: Binding) -> Iterator[tuple[cst.Call, cst.BaseExpression]]:
        """The calls that pass something for a parameter, with that."""
        function = self.tree.ancestor(parameter.node, cst.FunctionDef)
        if function is not None:
            for call in self._calls_of.get(id(function), []):
                given = self.program.bind(function, call).get(parameter.name)
                if given is not None:
                    yield call, given

    @functools.cached_property
    def _calls_of(self) -> dict[int, list[cst.Call]]:
        """``id`` of a function of this file -> its calls; of a constructor, those of its class."""
        found: dict[int, list[cst.Call]] = defaultdict(list)
        for call in self.tree.nodes(cst.Call):
            function = self.values.function(call.func)
            owner = self.names.definition(call.func)
            if isinstance(owner, cst.ClassDef):
                function = self.values.method(owner, "__init__")
            if function is not None:
                found[id(function)].append(call)
        return found


class _Trace:
    """The way of one module back from where it is trained."""

    def __init__(
        self,
        modules: Modules,
        trained: cst.Call,
        in_place: Sequence[tuple[cst.Call, cst.BaseExpression]],
    ) -> None:
        self.modules = modules
        self._in_place = in_place
        self.flow = modules.flow
        self.tree = modules.tree
        self.trained = trained
        self.home = self.tree.ancestor(trained, cst.FunctionDef)
        self.slots: set[Slot] = set()
        self._seen: set[int] = set()
        self._calls: dict[int, cst.Call] = {}
        """By the ids of functions that make the module, the calls that run them."""

    def in_place(self, node: cst.BaseExpression) -> Iterator[cst.Call]:
        """Those of the casts that are done to the module itself."""
        every = {id(cast) for cast, _ in self._in_place}
        return (cast for cast in self.casts(node) if id(cast) in every)

    def casts(self, node: cst.BaseExpression, steps: int = _MAX_STEPS) -> Iterator[cst.Call]:
        """The casts to float16 that the parameters of ``node`` went through."""
        if steps <= 0 or id(node) in self._seen:
            return
        self._seen.add(id(node))
        slot = self.modules.values.slot(node)
        known = slot in self.slots
        self.slots |= {slot} if slot is not None else set()
        if isinstance(node, cst.Name):
            yield from self._through_name(node, slot, steps)
        elif isinstance(node, cst.Attribute) and slot is not None and not known:
            yield from self._through_attribute(node, slot, steps)
        elif isinstance(node, cst.IfExp):
            for arm in (node.body, node.orelse):
                yield from self.casts(arm, steps - 1)
        elif isinstance(node, cst.Call):
            yield from self._through_call(node, steps)

    def _through_name(self, name: cst.Name, slot: Slot | None, steps: int) -> Iterator[cst.Call]:
        bindings = self.flow.reaching(name)
        for cast, receiver in self._in_place:
            if not isinstance(receiver, cst.Name) or self.modules.values.slot(receiver) != slot:
                continue
            one = self._is_one(receiver, bindings) and not self.flow.is_rebound(receiver, name)
            if one and self._before_training(cast, name):
                yield cast
        for binding in bindings:
            if binding.kind == "parameter":
                for given in self.modules.arguments_of(binding):
                    yield from self.casts(given, steps - 1)
            elif binding.kind == "assign" and binding.value is not None:
                yield from self.casts(binding.value, steps - 1)

    def _is_one(self, receiver: cst.Name, bindings: list[Binding]) -> bool:
        """Whether a module is the one that was bound, itself or as a framework prepared it."""
        prepared = (each.given for each in self.modules.frameworks.preparations(receiver))
        names = [receiver, *(given for given in prepared if isinstance(given, cst.Name))]
        return any(not set(self.flow.reaching(name)).isdisjoint(bindings) for name in names)

    def _before_training(self, cast: cst.Call, use: cst.Name) -> bool:
        """Whether the cast is followed by the use, or by a ``backward``, if in the next round."""
        if self.flow.exclusive(cast, use):
            return False
        if self.tree.order(cast) < self.tree.order(use) or self.modules.trains_on(cast):
            return True
        return any(
            self._goes_backward(call)
            and self.tree.order(call) > self.tree.order(cast)
            and self.modules.names.scope(call) is self.modules.names.scope(cast)
            for call in self.tree.nodes(cst.Call)
        )

    def _goes_backward(self, call: cst.Call) -> bool:
        """Whether a call is a ``backward``, or of a function that does one."""
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in _BACKWARD:
            return True
        return id(self.modules.program.target(call)) in self.modules.training

    def _through_attribute(self, node: cst.Attribute, slot: Slot, steps: int) -> Iterator[cst.Call]:
        values = self.modules.values.attribute_values(node)
        if any(self._makes_another(value, slot) for value in values):
            return
        for cast, receiver in self._in_place:
            if self.modules.values.slot(receiver) == slot and self._sets_up(cast):
                yield cast
        for value in values:
            if self._sets_up(value):
                yield from self.casts(value, steps - 1)

    def _makes_another(self, value: cst.BaseExpression, slot: Slot) -> bool:
        """Whether something unknown is made of the module and put in its place."""
        uses = [
            part
            for part in descendants(value)
            if isinstance(part, (cst.Name, cst.Attribute))
            and self.modules.values.slot(part) == slot
        ]
        return any(self.modules.origin(value) is not use for use in uses)

    def _sets_up(self, node: cst.CSTNode, steps: int = 2) -> bool:
        """Whether something happens in the constructor, or before the training in its function.

        Itself or in a method that is called there.
        """
        function = self.tree.ancestor(node, cst.FunctionDef)
        if function is self.home:
            return self.tree.order(node) < self.tree.order(self.trained)
        if function is None or function.name.value in ("__init__", "__post_init__"):
            return function is not None
        calls = self.modules.program.calls_of(function) if steps > 0 else ()
        return any(self._sets_up(call, steps - 1) for call in calls)

    def _through_call(self, call: cst.Call, steps: int) -> Iterator[cst.Call]:
        modules = self.modules
        if modules.is_half_cast(call):
            yield call
        elif (inner := modules.same_module(call)) is not None:
            if not modules.is_widening(call) and not _freezes(call):
                yield from self.casts(inner, steps - 1)
        elif isinstance(owner := modules.names.definition(call.func), cst.ClassDef):
            for cast, module in modules.casts_of_parts(owner):
                slot = modules.values.slot(module)
                self.slots |= {slot} if slot is not None else set()
                yield cast
        else:
            function = modules.values.function(call.func)
            if function is None:
                return
            self._calls[id(function)], seen = call, {*self._seen}
            for part in descendants(function.body):
                if isinstance(part, cst.Return) and part.value is not None:
                    for cast in self.casts(part.value, steps - 1):
                        if self._is_left_out(cast):
                            self._seen = seen  # another call may leave it in
                        else:
                            yield cast

    def _is_left_out(self, cast: cst.Call) -> bool:
        """Whether a test of a setting keeps a cast from those who call its function here."""
        tests = (guard.normal() for guard in guards(self.tree, cast))
        known = (
            (literal(self.modules.program.value_in(test, self._calls)), holds)
            for test, holds in tests
        )
        return any(value is not ... and bool(value) is not holds for value, holds in known)


def _parameters_of(call: cst.Call) -> cst.BaseExpression | None:
    """``model`` of ``model.parameters()``."""
    if isinstance(call.func, cst.Attribute) and call.func.attr.value in PARAMETERS:
        return call.func.value
    return None


def _copies(node: cst.CSTNode) -> bool:
    """Whether parameters are copied on the way, as for master weights."""
    return any(
        isinstance(part, cst.Call)
        and isinstance(part.func, cst.Attribute)
        and part.func.attr.value in _COPIES
        for part in descendants(node)
    )


def _freezes(call: cst.Call) -> bool:
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "requires_grad_":
        return False
    return literal(arguments(call).get(0, "requires_grad")) is False


def changes_parameters(body: cst.BaseSuite) -> bool | None:
    """Whether a loop over parameters replaces or casts some of them; False where it only freezes.

    None if neither. Not those of normalization layers alone: all others stay float16.
    """
    norms = {id(node) for part in descendants(body) for node in _of_norms(part)}
    changes: set[bool] = set()
    for part in descendants(body):
        if id(part) in norms:
            continue
        if isinstance(part, cst.AssignTarget) and isinstance(part.target, cst.Attribute):
            name = part.target.attr.value
            changes |= {name == "data"} if name in ("requires_grad", "data") else set()
        elif isinstance(part, cst.Call) and isinstance(part.func, cst.Attribute):
            casts = part.func.attr.value in WIDENING
            changes |= {casts} if casts or _freezes(part) else set()
    return max(changes, default=None)


def _of_norms(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """What is below ``if isinstance(layer, nn.BatchNorm2d):``."""
    test = node.test if isinstance(node, cst.If) else None
    if not isinstance(test, cst.Call) or dotted(test.func) != "isinstance" or len(test.args) != 2:
        return
    kinds = [n for n in descendants(test.args[1].value) if isinstance(n, (cst.Name, cst.Attribute))]
    kinds = [n for n in kinds if "Norm" in (dotted(n) or "").rpartition(".")[2]]
    if isinstance(node, cst.If) and kinds:
        yield from descendants(node.body)


def _leaves(block: cst.IndentedBlock) -> bool:
    small = last_statement(block)
    if isinstance(small, (cst.Return, cst.Raise, cst.Continue, cst.Break)):
        return True
    value = small.value if isinstance(small, cst.Expr) else None
    return isinstance(value, cst.Call) and dotted(value.func) in _EXITS
