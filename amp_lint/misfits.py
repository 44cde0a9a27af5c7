"""Arguments of autocast and GradScaler that land in a parameter they were not meant for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from amp_lint import call_edits, edits
from amp_lint._lazy import cst
from amp_lint.rule import Edit

if TYPE_CHECKING:
    from amp_lint.model import Model
    from amp_lint.model.values import Arguments

AUTOCAST = frozenset({"torch.autocast", "torch.amp.autocast"})
OLD_AUTOCAST = {"torch.cuda.amp.autocast": "cuda", "torch.cpu.amp.autocast": "cpu"}
SCALER = frozenset({"torch.GradScaler", "torch.amp.GradScaler"})
OLD_SCALER = {"torch.cuda.amp.GradScaler": "cuda", "torch.cpu.amp.GradScaler": "cpu"}
GUESS = '"cuda"'
"""The device that is filled in where there is none."""
_SWITCHES = ("enabled", "dtype", "cache_enabled")
_SCALES = ("init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled")
_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "half": "float16"}
_DTYPES |= {name: name for name in ("bfloat16", "float16")}
_WIDE = frozenset(f"torch.{name}" for name in ("double", "float", "float32", "float64"))
_SWITCH = "pass it as `enabled=`"
_SCALE_OF = {
    False: "a scale of 0: gradients become NaN at the first step",
    True: "a scale of 1, which protects nothing",
    ...: "a scale of 0 or 1",
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


def misfits(model: Model, node: cst.Call, name: str) -> Iterator[Misfit]:
    """What does not fit in a call of ``name``, one of the names above; the first counts."""
    from amp_lint.model.values import arguments

    call = _Call(model, node, arguments(node))
    if not call.given.starred:
        yield from _misfits(call, name)


class _Call:
    """A call, and what can be asked about its arguments."""

    def __init__(self, model: Model, node: cst.Call, given: Arguments) -> None:
        self.model = model
        self.node = node
        self.given = given

    def kind(self, argument: cst.BaseExpression | None) -> str:
        """What an argument certainly is, as the name of its type; "" if that is not known."""
        kind = self.model.kinds.of(argument)
        return kind.value if kind is not None else ""

    def text(self, argument: cst.BaseExpression) -> str:
        return self.model.tree.source(argument)

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


def _misfits(call: _Call, name: str) -> Iterator[Misfit]:
    if name in AUTOCAST:
        yield from _device_type(call)
        yield from _dtype(call, misplaced=True)
        yield from _switched_off(call)
        yield from _enabled(call, 2)
    elif name in OLD_AUTOCAST:
        yield from _unwanted_device(call, "enabled", OLD_AUTOCAST[name])
        yield from _enabled(call, 0)
        yield from _dtype(call, misplaced=False)
    elif name in SCALER:
        yield from _scaler_device(call)
        yield from _init_scale(call, 1)
    else:
        yield from _unwanted_device(call, "init_scale", OLD_SCALER[name])
        yield from _init_scale(call, 0)


# --- autocast -------------------------------------------------------------------------------------


def _device_type(call: _Call) -> Iterator[Misfit]:
    device = call.given.get(0, "device_type")
    if device is None:
        yield _no_device(call)
        return
    kind, text = call.kind(device), call.text(device)
    if kind in ("", "str"):
        return
    changes: tuple[Edit, ...] | None = None
    if kind == "torch.device":
        if isinstance(device, (cst.Attribute, cst.Call, cst.Name)):
            end = call.model.tree.outer_span(device)[1]
            changes = (Edit(end, end, ".type"),)
    elif kind == "bool" and call.by_position(device):
        changes = call.rekey(_SWITCHES, first=GUESS)
    elif kind == "torch.dtype" and call.by_position(device):
        changes = call.rekey(("dtype",), first=GUESS)
    message = f"`device_type` must be a string, `{text}` is a {kind}: autocast raises a ValueError"
    yield Misfit(device, message, f"give the type of the device first, as {GUESS}", changes)


def _no_device(call: _Call) -> Misfit:
    for arg in call.node.args:
        if arg.keyword is not None and arg.keyword.value == "device":
            message = "autocast has no parameter `device`, and raises a TypeError"
            renamed = edits.replace_node(call.model.tree, arg.keyword, "device_type")
            return Misfit(arg, message, "call it `device_type`", (renamed,))
    message = "autocast without a device raises a TypeError"
    changes = call_edits.rekey(call.model.tree, call.node, first=GUESS)
    return Misfit(call.node, message, "give the device type first", changes)


def _dtype(call: _Call, *, misplaced: bool) -> Iterator[Misfit]:
    """``misplaced``: whether the old class has its switch where the new one has the dtype."""
    dtype = call.given.get(1, "dtype")
    if dtype is None:
        return
    kind, text = call.kind(dtype), call.text(dtype)
    if kind in ("bool", "str", "number", "torch.device"):
        yield Misfit(
            dtype,
            f"`dtype` must be a torch.dtype, `{text}` is a {kind}: entering the context raises a "
            "TypeError, even a disabled one",
            "pass a dtype such as `torch.bfloat16`, and a switch as `enabled=`",
            _as_dtype(call, dtype, switch=misplaced and kind == "bool"),
        )


def _as_dtype(call: _Call, dtype: cst.BaseExpression, *, switch: bool) -> tuple[Edit, ...] | None:
    """``False`` was meant for ``enabled``, ``"bfloat16"`` for ``torch.bfloat16``."""
    from amp_lint.model.values import literal

    positional = call.given.positional
    if switch and call.by_position(dtype):
        rest = [call.kind(value) for value in positional[2:]]
        fits = rest[:1] in ([], ["torch.dtype"])
        return call.rekey(_SWITCHES, skip=1) if fits else None
    name, torch = literal(dtype), call.model.names.spelling(call.node, "torch")
    if isinstance(name, str) and name in _DTYPES and torch is not None:
        return (edits.replace_node(call.model.tree, dtype, f"{torch}.{_DTYPES[name]}"),)
    return None


def _switched_off(call: _Call) -> Iterator[Misfit]:
    """CPU autocast knows bfloat16 and float16; for another dtype it turns itself off."""
    from amp_lint.model.values import literal

    device, dtype = call.given.get(0, "device_type"), call.given.get(1, "dtype")
    if literal(device) != "cpu" or dtype is None or call.given.get(2, "enabled") is not None:
        return
    if call.model.names.is_only(dtype, _WIDE):
        message = f"CPU autocast does not know `{call.text(dtype)}`: it warns and turns itself off"
        yield Misfit(dtype, message, "use torch.bfloat16, or `enabled=False`")


def _enabled(call: _Call, place: int) -> Iterator[Misfit]:
    enabled = call.given.get(place, "enabled")
    if enabled is None:
        return
    kind = call.kind(enabled)
    if kind in ("str", "torch.dtype", "torch.device"):
        changes = None
        if kind == "torch.dtype" and place == 0 and call.by_position(enabled):
            changes = call.rekey(("dtype",))
        message = (
            f"`enabled` must be a bool, `{call.text(enabled)}` is a {kind}: entering the context "
            "raises a TypeError"
        )
        yield Misfit(enabled, message, "pass True or False, and a dtype as `dtype=`", changes)


def _unwanted_device(call: _Call, parameter: str, device: str) -> Iterator[Misfit]:
    """The old classes take no device: a string becomes their first parameter."""
    from amp_lint.model.values import literal

    named = call.given.keywords.get("device_type") or call.given.keywords.get("device")
    first = call.given.positional[0] if call.given.positional else None
    given = named or first
    value = literal(given)
    if given is None or not isinstance(value, str):
        return
    if named is not None:
        effect = "it raises a TypeError"
    else:
        effect = f"it is taken for `{parameter}`, and raises a TypeError when that is used"
    message = f"the old API takes no device, `{call.text(given)}` does not fit: {effect}"
    alone = value.partition(":")[0] == device and (named or len(call.given.positional) == 1)
    help = f"leave it out, or use the class in `torch.amp`, which takes {call.text(given)}"
    yield Misfit(given, message, help, call.without(given) if alone else None)


# --- GradScaler -----------------------------------------------------------------------------------


def _scaler_device(call: _Call) -> Iterator[Misfit]:
    device = call.given.get(0, "device")
    if device is None or not call.by_position(device):
        return
    kind, text = call.kind(device), call.text(device)
    if kind == "number":
        message = f"`{text}` is taken for the device and ignored: the scale starts at 65536"
        yield Misfit(device, message, "pass it as `init_scale=`", call.rekey(_SCALES))
    elif kind == "bool":
        message = f"`{text}` is taken for the device and ignored: the scaler is enabled"
        yield Misfit(device, message, _SWITCH, call.rekey(("enabled",)))


def _init_scale(call: _Call, place: int) -> Iterator[Misfit]:
    from amp_lint.model.values import literal

    scale = call.given.get(place, "init_scale")
    if scale is None or not call.by_position(scale) or call.kind(scale) != "bool":
        return
    value = literal(scale)
    effect = _SCALE_OF[value if isinstance(value, bool) else ...]
    message = f"`{call.text(scale)}` is taken for `init_scale`: the scaler is enabled with {effect}"
    yield Misfit(scale, message, _SWITCH, call.rekey(("enabled",), skip=place))
