"""Arguments of autocast and GradScaler that land in a parameter they were not meant for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.edit import call_edits, edits
from amp_lint.text.diagnostic import Edit, Severity, quoted
from amp_lint.vocabulary.amp import (
    AUTOCAST,
    CPU_AUTOCAST,
    CPU_GRAD_SCALER,
    CUDA_AUTOCAST,
    CUDA_GRAD_SCALER,
    GRAD_SCALER,
    REFUSED_IN_STEP,
)
from amp_lint.vocabulary.meaning import Part, Role
from amp_lint.vocabulary.table import BY_NAME

if TYPE_CHECKING:
    from amp_lint.flow.values import Arguments
    from amp_lint.model import Model
    from amp_lint.vocabulary.meaning import Meaning

JUDGED = (
    AUTOCAST, CUDA_AUTOCAST, CPU_AUTOCAST, GRAD_SCALER, CUDA_GRAD_SCALER, CPU_GRAD_SCALER,
)  # fmt: skip
_DEVICES = AUTOCAST.order[0], GRAD_SCALER.order[0]
GUESS = '"cuda"'
"""The device that is filled in where there is none."""
_SWITCHES, _SCALES = CUDA_AUTOCAST.order, CUDA_GRAD_SCALER.order
_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "half": "float16"}
_DTYPES |= {name: name for name in ("bfloat16", "float16")}
_WIDE = frozenset(f"torch.{name}" for name in ("double", "float", "float32", "float64"))
_SWITCH = "pass it as `enabled=`"
_NAMED = {"bool": "the switch as `enabled=`", "torch.dtype": "the dtype as `dtype=`"}
_REFUSED = "while it is on, a scaler's step raises RuntimeError for any `closure`, be it None"
_ALONE = "run the closure before, and leave it out here"
_SCALE_OF = {
    False: "the scaler is on with a scale of 0, and the first step gives NaN",
    True: "the scaler is on with a scale of 1, which protects nothing",
    ...: "the scaler is on with a scale of 0, which gives NaN, or 1",
}


@dataclass(frozen=True, slots=True, eq=False)
class Misfit:
    """One argument that does not fit, or a call that lacks one."""

    node: cst.CSTNode
    message: str
    help: str
    """What to write instead."""
    edits: tuple[Edit, ...] | None = None
    """What makes it right, where that is known."""
    severity: Severity = Severity.ERROR


def misfits(model: Model, node: cst.Call, name: str) -> Iterator[Misfit]:
    """What does not fit in a call of ``name``, that of a row above; the first counts."""
    from amp_lint.flow.values import arguments

    call = _Call(model, node, arguments(node), BY_NAME[name])
    if not call.given.starred:
        yield from _misfits(call)


def refused(model: Model) -> Iterator[Misfit]:
    """What no scaler takes in a step, while it is on."""
    for call in model.steps.recognizer.scaler_steps:
        given = [arg for arg in call.args if arg.keyword and arg.keyword.value in REFUSED_IN_STEP]
        assert isinstance(call.func, cst.Attribute)  # it has an owner
        if given and model.roles.may_be_on(call.func.value):
            yield from (Misfit(arg, _REFUSED, _ALONE) for arg in given)


class _Call:
    """A call, and what can be asked about its arguments."""

    def __init__(self, model: Model, node: cst.Call, given: Arguments, meaning: Meaning) -> None:
        self.model = model
        self.node = node
        self.given = given
        self.meaning = meaning

    def argument(self, part: Part) -> cst.BaseExpression | None:
        """The argument that lands in the parameter for something."""
        return self.given.get(*self.meaning.place(part))

    def kind(self, argument: cst.BaseExpression | None) -> str:
        """What an argument certainly is, as the name of its type; "" if that is not known."""
        kind = self.model.kinds.of(argument)
        return kind.value if kind is not None else ""

    def text(self, argument: cst.BaseExpression) -> str:
        return quoted(self.model.tree.source(argument))

    def by_position(self, argument: cst.BaseExpression) -> bool:
        return any(argument is each for each in self.given.positional)

    def rekey(
        self, names: tuple[str, ...], first: str = "", skip: int = 0
    ) -> tuple[Edit, ...] | None:
        """Name the positional arguments after ``skip``; None if they are too many, or named."""
        others = sorted({*_SWITCHES, *_SCALES} - set(names))
        if not call_edits.fits(self.node.args[skip:], (*names, *others)):
            return None
        if len(self.given.positional) - skip > len(names):
            return None
        return call_edits.rekey(self.model.tree, self.node, skip=skip, first=first, names=names)

    def without(self, argument: cst.BaseExpression) -> tuple[Edit, ...] | None:
        """Leave out an argument."""
        arg = next(arg for arg in self.node.args if arg.value is argument)
        if len(self.node.args) == 1:
            return (edits.replace_node(self.model.tree, arg, ""),)
        edit = edits.remove_argument(self.model.tree, self.node, arg)
        return (edit,) if edit is not None else None


def _misfits(call: _Call) -> Iterator[Misfit]:
    if call.meaning.gives is Role.SCALER:
        yield from _unwanted_device(call) if call.meaning.device else _scaler_device(call)
        yield from _init_scale(call)
        yield from _unknown(call)
        return
    yield from _unwanted_device(call) if call.meaning.device else _device_type(call)
    for parameter in call.meaning.parameters:
        if parameter.part is Part.DTYPE:
            yield from _dtype(call)
            yield from _switched_off(call)
        elif parameter.part is Part.ENABLED:
            yield from _enabled(call)
    yield from _unknown(call)


def _unknown(call: _Call) -> Iterator[Misfit]:
    """A keyword that no version of the class has."""
    order = call.meaning.order
    for arg in call.node.args:
        if arg.keyword is not None and arg.keyword.value not in order:
            name = arg.keyword.value
            message = f"{call.meaning.word} raises TypeError: it has no parameter `{name}`"
            device = next((each for each in _DEVICES if each in order), None)
            help = "leave it out, or give a parameter that there is"
            changes: tuple[Edit, ...] | None = None
            if name in _DEVICES:
                help = f"call it `{device}`" if device else "leave it out: the class says it"
                if device:
                    changes = (edits.replace_node(call.model.tree, arg.keyword, device),)
            yield Misfit(arg, message, help, changes)


# --- autocast -------------------------------------------------------------------------------------


def _device_type(call: _Call) -> Iterator[Misfit]:
    device = call.argument(Part.DEVICE)
    if device is None:
        yield _no_device(call)
        return
    kind = call.kind(device)
    if kind in ("", "str"):
        return
    changes: tuple[Edit, ...] | None = None
    help = f"give the type of the device first, as {GUESS}"
    if kind == "torch.device":
        help = "pass the `type` of the device, which is a string"
        if isinstance(device, (cst.Attribute, cst.Call, cst.Name)):
            end = call.model.tree.outer_span(device)[1]
            changes = (Edit(end, end, ".type"),)
    elif kind in _NAMED and call.by_position(device):
        help = f"give the device first, as {GUESS}, and {_NAMED[kind]}"
        changes = call.rekey(_SWITCHES if kind == "bool" else ("dtype",), first=GUESS)
    message = (
        f"autocast raises ValueError: its device must be a string, {call.text(device)} is a {kind}"
    )
    yield Misfit(device, message, help, changes)


def _no_device(call: _Call) -> Misfit:
    for arg in call.node.args:
        if arg.keyword is not None and arg.keyword.value == "device":
            message = "autocast raises TypeError: it has no parameter `device`"
            renamed = edits.replace_node(call.model.tree, arg.keyword, call.meaning.order[0])
            return Misfit(arg, message, "call it `device_type`", (renamed,))
    message = "autocast raises TypeError: it is given no device"
    changes = call_edits.rekey(call.model.tree, call.node, first=GUESS)
    return Misfit(call.node, message, f"give the type of the device first, as {GUESS}", changes)


def _dtype(call: _Call) -> Iterator[Misfit]:
    """The old classes have their switch where the new one has the dtype."""
    dtype = call.argument(Part.DTYPE)
    if dtype is None:
        return
    kind = call.kind(dtype)
    if kind in ("bool", "str", "number", "torch.device"):
        message = (
            f"entering autocast raises TypeError, even a disabled one: its `dtype` is "
            f"{call.text(dtype)}, a {kind}"
        )
        help, changes = _as_dtype(call, dtype, switch=kind == "bool" and not call.meaning.device)
        yield Misfit(dtype, message, help, changes)


def _as_dtype(
    call: _Call, dtype: cst.BaseExpression, *, switch: bool
) -> tuple[str, tuple[Edit, ...] | None]:
    """``False`` was meant for ``enabled``, ``"bfloat16"`` for ``torch.bfloat16``."""
    from amp_lint.flow.values import literal

    positional = call.given.positional
    if switch and call.by_position(dtype):
        rest = [call.kind(value) for value in positional[2:]]
        fits = rest[:1] in ([], ["torch.dtype"])
        return f"pass {_NAMED['bool']}", call.rekey(_SWITCHES, skip=1) if fits else None
    name, torch = literal(dtype), call.model.names.spelling(call.node, "torch")
    if isinstance(name, str) and name in _DTYPES and torch is not None:
        meant = f"{torch}.{_DTYPES[name]}"
        return f"pass {quoted(meant)}", (edits.replace_node(call.model.tree, dtype, meant),)
    return "pass a dtype such as `torch.bfloat16`", None


def _switched_off(call: _Call) -> Iterator[Misfit]:
    """CPU autocast knows bfloat16 and float16; for another dtype it turns itself off."""
    from amp_lint.flow.values import literal

    dtype, enabled = call.argument(Part.DTYPE), call.argument(Part.ENABLED)
    if (call.meaning.device or literal(call.argument(Part.DEVICE))) != "cpu":
        return
    if dtype is None or (enabled is not None and literal(enabled) is not True):
        return
    if call.model.names.is_only(dtype, _WIDE):
        message = (
            f"CPU autocast turns itself off, with a warning: it does not cast to {call.text(dtype)}"
        )
        help = "use `torch.bfloat16`, or `enabled=False`"
        yield Misfit(dtype, message, help, severity=Severity.WARNING)


def _enabled(call: _Call) -> Iterator[Misfit]:
    enabled = call.argument(Part.ENABLED)
    if enabled is None:
        return
    kind = call.kind(enabled)
    if kind in ("str", "torch.dtype", "torch.device"):
        changes = None
        if kind == "torch.dtype" and call.meaning.device and call.by_position(enabled):
            changes = call.rekey(("dtype",))
        message = (
            f"entering autocast raises TypeError: its `enabled` is {call.text(enabled)}, a {kind}"
        )
        help = f"pass {_NAMED[kind]}" if kind in _NAMED else "pass True or False"
        yield Misfit(enabled, message, help, changes)


def _unwanted_device(call: _Call) -> Iterator[Misfit]:
    """The old classes take no device: a string becomes their first parameter."""
    from amp_lint.flow.values import literal

    named = next((given for name in _DEVICES if (given := call.given.get(None, name))), None)
    first = call.given.positional[0] if call.given.positional else None
    given = named or first
    value = literal(given)
    if given is None or not isinstance(value, str):
        return
    if named is not None:
        effect = "this call raises TypeError"
    elif call.meaning.gives is Role.REGION:
        effect = "entering autocast raises TypeError"
    else:
        effect = "the first `scale` raises TypeError"
    message = f"{effect}: the old API takes no device, and {call.text(given)} is one"
    alone = value.partition(":")[0] == call.meaning.device and (
        named or len(call.given.positional) == 1
    )
    changes = call.without(given) if alone else None
    help = (
        "leave it out"
        if changes
        else "leave it out, or use the class in `torch.amp`, which takes it"
    )
    yield Misfit(given, message, help, changes)


# --- GradScaler -----------------------------------------------------------------------------------


def _scaler_device(call: _Call) -> Iterator[Misfit]:
    device = call.argument(Part.DEVICE)
    if device is None or not call.by_position(device):
        return
    kind, ignored = call.kind(device), f"{call.text(device)} is taken for the device and ignored"
    if kind == "number":
        message, changes = f"{ignored}: the scale starts at 65536", call.rekey(_SCALES)
        yield Misfit(device, message, "pass it as `init_scale=`", changes, Severity.WARNING)
    elif kind == "bool":
        message, changes = f"{ignored}: the scaler is enabled", call.rekey(("enabled",))
        yield Misfit(device, message, _SWITCH, changes, Severity.WARNING)


def _init_scale(call: _Call) -> Iterator[Misfit]:
    from amp_lint.flow.values import literal

    place, name = call.meaning.place(Part.INITIAL_SCALE)
    scale = call.given.get(place, name)
    if scale is None or not call.by_position(scale) or call.kind(scale) != "bool":
        return
    value = literal(scale)
    effect = _SCALE_OF[value if isinstance(value, bool) else ...]
    message = f"{call.text(scale)} is taken for `init_scale`: {effect}"
    severity = Severity.WARNING if value is True else Severity.ERROR
    yield Misfit(scale, message, _SWITCH, call.rekey(("enabled",), skip=place or 0), severity)
