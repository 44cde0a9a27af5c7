"""What a call gives, as dtypes: torch's functions and methods, modules, functions in reach."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import libcst as cst

from amp_lint.amp.dtypes import (
    ANY,
    OTHER,
    SOME_NUMBER,
    UNKNOWN,
    Ambient,
    Dims,
    Kind,
    Run,
    Series,
    Value,
    applied,
    held,
    join,
    number,
    progressed,
    record,
    tensor,
)
from amp_lint.flow.program import Program
from amp_lint.flow.reaching import Flow
from amp_lint.flow.values import Arguments, arguments, called_on, literal
from amp_lint.syntax.names import dotted
from amp_lint.vocabulary.modules import ENDING_IN, KEEPING, LOSSES, PARAMETER, PREPARE
from amp_lint.vocabulary.operations import (
    CASTS,
    DIMENSIONED,
    EINOPS_LAYERS,
    EINOPS_VIEWS,
    INDEXED,
    INTEGER_MAKERS,
    LIKE,
    LIKELIHOODS,
    MAKERS,
    MOVES,
    NEW,
    PICKS,
    REDUCTIONS,
    SIZE_METHODS,
    TYPED,
    VIEWS,
    operations,
)

_CONTAINERS = frozenset({"torch.nn.Sequential"})
_HOLDERS = PARAMETER | {"torch.nn.Buffer"}
_SAME = frozenset({"torch.nn.Identity", "torch.nn.Dropout", "torch.nn.Flatten"}) | EINOPS_LAYERS
_LOSS = ("_loss", "cross_entropy", "kl_div", "_with_logits")
_DEFAULTS = frozenset({"set_default_dtype", "set_default_tensor_type"})
_DEVICES = frozenset({"set_default_device", "set_default_tensor_type"})
_DEVICE = frozenset({"torch.device"})
_MADE = MAKERS | INTEGER_MAKERS | TYPED.keys() | {"arange", "full", "tensor"}
_LIMITS = frozenset({"torch.finfo", "numpy.finfo"})
_NUMBERS = frozenset(
    {"builtins.float", "builtins.int", "builtins.len", "builtins.round", "builtins.bool",
     "builtins.id", "builtins.ord", "builtins.hash", "builtins.isinstance", "builtins.hasattr"}
)  # fmt: skip
_PLACING = KEEPING - {"apply", "to", "type"}
"""What gives back a module whose parameters have the dtype that they had."""
_TAKING = frozenset({"get", "pop", "setdefault"})
_ONE_DTYPE = frozenset({"chunk", "split", "unbind", "tensor_split", "meshgrid", "var_mean",
                        "std_mean", "broadcast_tensors", "hsplit", "vsplit", "dsplit"})  # fmt: skip
_MAX_STEPS = 2  # calls that a module is handed through
_PICKING = ("gather", "index_select", "take", "take_along_dim")
_SOURCE_DIMS = frozenset({"squeeze", "select", "unbind", "diagonal", "view", "reshape", "getitem",
                          "take", "index_select", "narrow", "view_as", "reshape_as"})  # fmt: skip


class Calls:
    """Tells what calls give. ``follow`` runs a function of the file with known arguments."""

    def __init__(
        self,
        program: Program,
        flow: Flow,
        follow: Callable[[cst.Call, Run, Ambient], Value | None],
    ) -> None:
        self.names = program.names
        self.values = program.values
        self.program = program
        self.flow = flow
        self.follow = follow

    def result(self, call: cst.Call, receiver: Value, run: Run, ambient: Ambient) -> Value:
        """What a call gives, whose receiver and arguments are evaluated."""
        given = arguments(call)
        if (out := given.keywords.get("out")) is not None:
            return run.of(out)
        defined = self.names.definition(call.func)
        names = self.names.qualified(call.func) if defined is None else None
        if names:
            return self._function(call, names, given, run, ambient)
        if isinstance(call.func, cst.Attribute) and dotted(call.func.value) not in ("self", "cls"):
            found = self._method(call, receiver, given, run, ambient)
            if found is not None:
                return found
        module = self._module(call, given, run, ambient)
        if module is not None:
            return module
        if isinstance(defined, cst.ClassDef):
            self.follow(call, run, ambient)
            return self._record(given, run)
        followed = self.follow(call, run, ambient)
        return followed if followed is not None else UNKNOWN

    def operation(self, call: cst.Call, receiver: Value) -> tuple[str, cst.BaseExpression] | None:
        """The operation of torch that a call is, as the table names it, and its first operand.

        A function, a method of a tensor, or a module that the file makes.
        """
        given = arguments(call)
        names = self.names.qualified(call.func)
        operands = self._given(given)
        if len(names) == 1:
            short = operations().short(*names)
            return (short, operands[0]) if short is not None and operands else None
        if names or not isinstance(call.func, (cst.Attribute, cst.Call, cst.Name)):
            return None
        made = [*self._callees(call.func)]
        if all(isinstance(value, cst.Call) for value in made) and operands:
            classes = {n for v in made for n in self.names.qualified(v.func)}  # type: ignore[attr-defined]
            modules = operations().modules
            found = {modules.get(n.removeprefix("torch.nn.")) or LOSSES.get(n) for n in classes}
            known = found.pop() if len(found) == 1 else None
            return (known, operands[0]) if known is not None else None
        if not isinstance(call.func, cst.Attribute) or not receiver.is_tensor:
            return None
        name = call.func.attr.value
        return (name, call.func.value) if name in operations().methods else None

    def _callees(
        self, func: cst.BaseExpression, steps: int = _MAX_STEPS
    ) -> Iterator[cst.BaseExpression]:
        """What makes what is called; of a parameter, where all calls that are seen give it."""
        for end in self.values.alternatives(func):
            given = self.program.given_by_all(end) if isinstance(end, cst.Name) and steps else []
            last = self.flow.held(end) if steps and not given else None
            given += [last.value] if last is not None and last.value is not None else []
            for each in given:
                yield from self._callees(each, steps - 1)
            if not given:
                yield end

    def index(self, call: cst.Call) -> cst.BaseExpression | None:
        """What an operation of torch picks or writes by, whatever its tensor may be."""
        names = self.names.qualified(call.func)
        method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        known = {name.removeprefix("torch.") for name in names} if names else {method}
        if not known <= INDEXED:
            return None
        return arguments(call).get(2 if names else 1, "index")

    # --- functions ----------------------------------------------------------------------------

    def _function(
        self, call: cst.Call, names: frozenset[str], given: Arguments, run: Run, ambient: Ambient
    ) -> Value:
        if len(names) != 1:
            return UNKNOWN
        (name,) = names
        home, _, last = name.rpartition(".")
        if name in _LIMITS:
            of = given.get(0, "type")
            known = run.of(of)
            return known if known.kind is Kind.DTYPE else Value(Kind.DTYPE, frozenset({ANY}))
        if home in ("math", "builtins"):
            return self._builtin(last, name, given, run, ambient)
        if name in _HOLDERS:
            held = run.of(given.get(0, "data"))
            return replace(held, dims=Dims.SOME) if held.is_tensor else UNKNOWN
        if name in EINOPS_VIEWS:
            viewed = run.of(given.get(0, "tensor"))
            return replace(viewed, dims=Dims.SOME) if viewed.is_tensor else UNKNOWN
        if home == "torch":
            made = self._made(last, given, run)
            if made is not None:
                return made
        short = operations().short(name)
        if short is None and last[:1].isupper() and not name.startswith("torch."):
            return self._record(given, run)
        if short is None or given.starred:
            return OTHER if name == "torch.device" else UNKNOWN
        operands = [run.of(value) for value in self._given(given)]
        return self._operation(short, operands, given, call, ambient, run, len(given.positional))

    def _record(self, given: Arguments, run: Run) -> Value:
        """An object that is made of keywords alone: it has them as attributes, or as items."""
        if given.positional or given.starred or not given.keywords:
            return UNKNOWN
        return record({name: run.of(value) for name, value in given.keywords.items()})

    def _builtin(self, last: str, name: str, given: Arguments, run: Run, ambient: Ambient) -> Value:
        """``float(x)``, ``abs(x)``, ``max(x, y)``, and all of math."""
        values = [run.of(value) for value in given.positional]
        if last == "float" and len(given.positional) == 1:
            text = literal(given.positional[0])
            if isinstance(text, str):
                try:
                    return number(float(text))
                except ValueError:
                    return SOME_NUMBER
            return values[0] if values[0].kind is Kind.NUMBER else SOME_NUMBER
        if name in _NUMBERS or name.startswith("math."):
            return number(None, floating=name.startswith("math."))
        if last == "dict":
            return self._record(given, run)
        if last in ("abs", "max", "min", "sum") and values:
            if all(value.kind is Kind.NUMBER for value in values):
                return SOME_NUMBER
            if last in ("abs", "max", "min") and all(value.is_tensor for value in values):
                return values[0] if len(values) == 1 else UNKNOWN
        return UNKNOWN

    def _made(self, name: str, given: Arguments, run: Run) -> Value | None:
        """A tensor that is made of a shape or of numbers."""
        asked = self._dtype(given.keywords.get("dtype"), run)
        if name in _MADE:
            made = self._default(name, given, run)
            if name == "arange":
                made = replace(made, series=Series.WHOLE, most=_last(given, run))
            if asked is not None:
                wanted = given.keywords.get("dtype")
                made = replace(made, dtypes=asked, why=wanted, follows=run.of(wanted).follows)
            return replace(made, off_cuda=self._is_off_cuda(given, at_home=True))
        if name in LIKE:
            like = run.of(given.get(0, "input"))
            fresh = replace(_fresh(like), off_cuda=self._is_off_cuda(given, at_home=like.off_cuda))
            return fresh if asked is None else replace(fresh, dtypes=asked, follows="")
        return None

    def _is_off_cuda(self, given: Arguments, *, at_home: bool) -> bool:
        """Whether what is made or moved is not on CUDA; ``at_home``: where no device is told."""
        device = given.keywords.get("device")
        if device is None or literal(device) is None:
            return at_home and not given.starred and not self._has_other_device
        return literal(device) == "cpu"

    def _default(self, name: str, given: Arguments, run: Run) -> Value:
        """What a maker gives that is not told a dtype."""
        values = [run.of(value) for value in given.positional]
        if name in TYPED:
            return tensor(TYPED[name])
        if name in INTEGER_MAKERS:
            return tensor("int64")
        if name == "tensor":
            return _of_data(values[0]) if values else UNKNOWN
        default = ANY if self._has_other_default else "float32"
        if name == "arange":
            numbers = [value for value in values if value.kind is Kind.NUMBER]
            if any(value.floating and value.number is not None for value in numbers):
                return tensor(default)
            whole = len(numbers) == len(values) and not any(value.floating for value in numbers)
            return tensor("int64") if whole else tensor("int64", default)
        if name == "full":
            filled = run.of(given.get(1, "fill_value"))
            if filled.kind is not Kind.NUMBER:
                return tensor(ANY)
            known = filled.floating and filled.number is not None
            return tensor(default) if known else tensor("int64", "bool", default)
        return tensor(default)

    @functools.cached_property
    def converts_outputs(self) -> bool:
        """Whether a framework may wrap the file's models so that they give float32."""
        return bool(self.names.tree.named(PREPARE))

    @functools.cached_property
    def _has_other_default(self) -> bool:
        """Whether the file changes the dtype that tensors are made in."""
        return any(self.names.tree.named(name) for name in _DEFAULTS)

    @functools.cached_property
    def _has_other_device(self) -> bool:
        """Whether the file changes the device that tensors are made on."""
        items = (item.item for node in self.names.tree.nodes(cst.With) for item in node.items)
        entered = (each.func for each in items if isinstance(each, cst.Call))
        changed = any(self.names.tree.named(name) for name in _DEVICES)
        return changed or any(self.names.is_any(func, _DEVICE) for func in entered)

    def _dtype(self, node: cst.BaseExpression | None, run: Run) -> frozenset[str] | None:
        """The dtypes that an argument may name; None if it is not given."""
        if node is None:
            return None
        value = run.of(node)
        if value.kind is Kind.DTYPE:
            return value.dtypes
        return None if literal(node) is None else frozenset({ANY})

    def _given(self, given: Arguments) -> list[cst.BaseExpression]:
        """The operands, the input first."""
        named = {**given.keywords}
        first = [named.pop("input")] if "input" in named else []
        return [*first, *given.positional, *named.values()]

    def _operation(
        self,
        name: str,
        operands: Sequence[Value],
        given: Arguments,
        call: cst.Call,
        ambient: Ambient,
        run: Run,
        plain: int,
    ) -> Value:
        """An operation of the table, written as function or method.

        ``plain`` counts what is given by position, the input included.
        """
        flat = [item for value in operands for item in (value.items or (value,))]
        flat = _operands(name, flat, plain)
        asked = self._dtype(given.keywords.get("dtype"), run)
        if asked is not None:
            return Value(Kind.TENSOR, asked, Dims.UNKNOWN, why=call)
        if not any(value.is_tensor for value in flat):
            return UNKNOWN
        made = applied(name, flat, ambient, call)
        made = self._shaped(name, made, given, plain, [v for v in flat if v.is_tensor])
        return progressed(name, made, flat)

    def _shaped(
        self, name: str, made: Value, given: Arguments, plain: int, tensors: Sequence[Value]
    ) -> Value:
        """The result as far as its dimensions are told, and whether it is two tensors."""
        if name in PICKS and len(tensors) == 1 and (plain > 1 or "dim" in given.keywords):
            where = tensor("int64", dims=Dims.UNKNOWN)
            return Value(Kind.ITEMS, items=(replace(made, dims=Dims.UNKNOWN), where))
        if name in PICKS and name not in ("max", "min", "median", "nanmedian"):
            where = tensor("int64", dims=Dims.UNKNOWN)
            return Value(Kind.ITEMS, items=(replace(made, dims=Dims.UNKNOWN), where))
        if name in REDUCTIONS and len(tensors) == 1:
            told = plain > 1 or "dim" in given.keywords or "axis" in given.keywords
            kept = literal(given.keywords.get("keepdim")) is True
            if kept:
                return replace(made, dims=tensors[0].dims)
            return replace(made, dims=Dims.UNKNOWN if told else Dims.NONE)
        if name in REDUCTIONS and name in ("dot", "vdot", "dist"):
            return replace(made, dims=Dims.NONE)
        if name in ("view", "reshape") and plain > 1 and _is_size(given.positional[-1]):
            return replace(made, dims=Dims.SOME)
        if (
            name.endswith(_LOSS)
            or name in _SOURCE_DIMS
            or name in operations().fewer
            or name in _ONE_DTYPE
        ):
            return replace(made, dims=Dims.UNKNOWN)
        if name in DIMENSIONED:
            return replace(made, dims=Dims.SOME)
        return made

    # --- methods ------------------------------------------------------------------------------

    def _method(
        self, call: cst.Call, receiver: Value, given: Arguments, run: Run, ambient: Ambient
    ) -> Value | None:
        """A method of a tensor; None if it may be something else."""
        assert isinstance(call.func, cst.Attribute)
        name = call.func.attr.value
        if receiver.kind is Kind.NUMBER:
            return SOME_NUMBER
        if receiver.kind is Kind.RECORD and name in _TAKING and given.positional:
            key = literal(given.positional[0])
            return held(receiver, key) if isinstance(key, str) else UNKNOWN
        if not receiver.is_tensor:
            return None
        if name in CASTS and not given.positional:
            return self._as(receiver, Value(Kind.DTYPE, frozenset({CASTS[name]})), call)
        if name in ("to", "type", "type_as"):
            made = self._to(name, call, receiver, given, run)
            return replace(made, off_cuda=self._moved(name, receiver, given, run))
        if name in SIZE_METHODS:
            return number(None, floating=False) if name != "item" else SOME_NUMBER
        if name in NEW:
            asked = self._dtype(given.keywords.get("dtype"), run)
            home = receiver.off_cuda
            fresh = replace(_fresh(receiver), off_cuda=self._is_off_cuda(given, at_home=home))
            return fresh if asked is None else replace(fresh, dtypes=asked, follows="")
        if name in ("cpu", "cuda"):
            return replace(receiver, off_cuda=name == "cpu")
        if name in MOVES or (name.endswith("_") and not name.endswith("__")):
            return receiver
        if name not in operations().gives or (
            receiver.dtypes == {ANY} and name not in operations().methods
        ):
            return None
        if receiver.dtypes == {ANY} and self._is_module(call.func.value):
            return None
        operands = [receiver, *(run.of(value) for value in self._given(given))]
        return self._operation(name, operands, given, call, ambient, run, 1 + len(given.positional))

    def _is_module(self, node: cst.BaseExpression) -> bool:
        """Whether names say that an expression is a module of Python's."""
        return bool(self.names.qualified(node))

    def _to(self, name: str, call: cst.Call, receiver: Value, given: Arguments, run: Run) -> Value:
        """``x.to(...)``: a dtype, another tensor, or a device."""
        wanted = given.keywords.get("dtype") or given.keywords.get("other")
        candidates = [wanted] if wanted is not None else list(given.positional)
        for node in candidates:
            value = run.of(node)
            if value.kind is Kind.DTYPE:
                return self._as(receiver, value, call)
            if name == "type_as" or (value.is_tensor and value.dtypes != {ANY}):
                return self._as(receiver, value, call)
            if value.kind in (Kind.OTHER, Kind.NUMBER) or _is_device(node) or name == "type":
                continue
            return replace(receiver, dtypes=frozenset({ANY}), follows="")
        if name == "to":
            return receiver
        return replace(receiver, dtypes=frozenset({ANY}), follows="")

    def _moved(self, name: str, receiver: Value, given: Arguments, run: Run) -> bool:
        """Whether what ``to`` or ``type_as`` gives is known not to be on CUDA."""
        targets = [value for value in given.positional if run.of(value).kind is not Kind.DTYPE]
        targets += [given.keywords[key] for key in ("device", "other") if key in given.keywords]
        if name == "type" or not targets:
            return receiver.off_cuda and not given.starred
        (target, *_) = targets
        return literal(target) == "cpu" or run.of(target).off_cuda

    def _as(self, receiver: Value, like: Value, call: cst.Call) -> Value:
        """A tensor in the dtype of something else, or in one that is named."""
        return replace(
            receiver, dtypes=like.dtypes, why=call, number=None, items=(), follows=like.follows
        )

    # --- modules ------------------------------------------------------------------------------

    def _module(self, call: cst.Call, given: Arguments, run: Run, ambient: Ambient) -> Value | None:
        """A call of a module of torch that the file makes; None for anything else."""
        made = [called_on(value, _PLACING) for value in self._callees(call.func)]
        if not made or not all(isinstance(value, cst.Call) for value in made):
            return None
        operands = [run.of(value) for value in self._given(given)]
        results = [
            self._applied(value, operands, given, call, run, ambient)
            for value in made
            if isinstance(value, cst.Call)
        ]
        known = {result.dtypes for result in results if result is not None}
        first = results[0]
        return first if len(known) == 1 and None not in results else None

    def _layers(self, sequential: cst.Call) -> Iterator[tuple[cst.BaseExpression, bool]]:
        """What a container of modules is made of, in order, and whether each is certain."""
        for arg in sequential.args:
            if arg.star == "*":
                yield from self.values.gathered(arg.value) or ((arg.value, True),)
            elif arg.keyword is None:
                yield arg.value, True

    def _applied(
        self,
        constructor: cst.Call,
        operands: Sequence[Value],
        given: Arguments,
        call: cst.Call,
        run: Run,
        ambient: Ambient,
    ) -> Value | None:
        """What one module of torch makes of its input."""
        names = self.names.qualified(constructor.func)
        if len(names) != 1 or not operands:
            return None
        (name,) = names
        if name in _CONTAINERS:
            value = operands[0]
            for part, certain in self._layers(constructor):
                made = [*self.values.alternatives(part)]
                one = made[0] if len(made) == 1 and isinstance(made[0], cst.Call) else None
                applied = self._applied(one, [value], given, call, run, ambient) if one else None
                known = applied or UNKNOWN
                value = known if certain else join(value, known)
            return value
        if name in _SAME:
            return operands[0]
        home, _, last = name.rpartition(".")
        of_torch = operations().modules.get(last) if home == "torch.nn" else None
        operation = of_torch or ENDING_IN.get(name) or LOSSES.get(name)
        if operation is None:
            return None
        if operation in ("embedding", "embedding_bag"):
            return tensor(*(("float32",) if ambient.is_on else ("float32", ANY)))
        result = self._operation(
            operation, operands, Arguments((), {}, False), call, ambient, run, 1
        )
        own = ambient.is_on or (operation not in ("linear", "prelu") and "conv" not in operation)
        return result if own else replace(result, dtypes=result.dtypes | {ANY})


def _operands(name: str, given: list[Value], plain: int) -> list[Value]:
    """What of the arguments of an operation has a say in the dtype of its result."""
    if name == "where":
        return given[1:]
    if name in ("masked_fill", "index_fill", "pad", *_PICKING):
        return given[:1]
    if name == "embedding":
        return given[1:2]
    if name in LIKELIHOODS:  # the target is mostly one of integers
        return [*given[:1], *(value for value in given[1:] if value.dtypes != {ANY})]
    tensors = [value for value in given if value.is_tensor]
    if name in VIEWS | REDUCTIONS or name in ("softmax", "log_softmax"):
        return tensors[: 2 if plain == 2 else 1]
    return [*given[:1], *tensors[1:]] if name.startswith("cl") else given


def _fresh(like: Value) -> Value:
    """A tensor of the dtype of another, of other numbers."""
    return replace(like, series=Series.NONE, most=None, number=None) if like.is_tensor else UNKNOWN


def _of_data(value: Value) -> Value:
    """``torch.tensor(...)`` of numbers."""
    if value.kind is Kind.NUMBER:
        if value.number is None:
            return tensor("float32", "int64", "bool", dims=Dims.NONE)
        made = tensor("float32" if value.floating else "int64", dims=Dims.NONE)
        return replace(made, number=value.number)
    numbers = [item for item in value.items if item.kind is Kind.NUMBER]
    known = any(item.floating and item.number is not None for item in numbers)
    return tensor("float32") if known and len(numbers) == len(value.items) else UNKNOWN


def _last(given: Arguments, run: Run) -> float | None:
    """The largest number of a range."""
    end = given.get(1, "end") or given.get(0, "end")
    return run.of(end).number if end is not None else None


def _is_size(node: cst.BaseExpression) -> bool:
    """Whether it is a size of one dimension."""
    return isinstance(literal(node), int)


def _is_device(node: cst.BaseExpression | None) -> bool:
    """Whether what something is called says that it is a device, and no dtype."""
    if isinstance(node, cst.Call):
        node = node.func
    last = (dotted(node) or "").rpartition(".")[2].lower() if node is not None else ""
    return any(word in last for word in ("device", "rank", "cuda", "gpu"))
