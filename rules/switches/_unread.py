"""Mixed precision that is on whatever an option of it says, because nothing reads the option."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from amp_lint.amp.regions import Region
from amp_lint.flow.branches import deciding
from amp_lint.flow.options import read_from
from amp_lint.flow.parsed import Parsed
from amp_lint.flow.values import arguments, literal
from amp_lint.model import Model
from amp_lint.syntax.tree import descendants
from amp_lint.vocabulary import written
from amp_lint.vocabulary.frameworks import LOWERING
from amp_lint.vocabulary.meaning import Part, Role
from amp_lint.vocabulary.operations import DTYPES
from amp_lint.vocabulary.table import BY_NAME

_OPTION = re.compile(written.AMP_OPTION)
_CHOICE = re.compile(written.PRECISION_OPTION)
_HALVES = frozenset(word for words in LOWERING.values() for word in words) - {None}
_NAMED = {"bf16": "bfloat16", "bfloat16": "bfloat16", "fp16": "float16", "float16": "float16"}
_NAMED |= {"half": "float16"}
"""The dtype that the end of an option's name says."""
_BOTH = {"bfloat16", "float16"}
_SWITCHING = frozenset({"store_true", "store_false"})
_OPTIONAL = frozenset({"argparse.BooleanOptionalAction"})
_DECIDES = re.compile(written.DECIDES)
_MAX_CALLS = 3
"""Calls, one inside the other, whose tests are asked."""
Place = tuple[cst.CSTNode, str | None]
"""What turns mixed precision on, and the dtype it says, if it does."""


def unread(model: Model) -> Iterator[tuple[cst.CSTNode, cst.Call]]:
    """Each place that turns mixed precision on with an option for that which nothing reads."""
    switches = [call for call in model.tree.nodes(cst.Call) if _is_switch(model, call)]
    if not switches:
        return
    parsed = Parsed(model.program, model.origins)
    unread = [call for call in switches if parsed.is_unread(call)]
    for node, dtype in _places(model) if unread else ():
        fitting = [call for call in unread if {_dtype_of(call), dtype} - {None} != _BOTH]
        if fitting:
            yield node, min(fitting, key=lambda call: _dtype_of(call) != dtype)


def _is_switch(model: Model, call: cst.Call) -> bool:
    """Whether a call adds an option that is called after mixed precision, and nothing else.

    A switch, or one by which a precision is chosen that is a half by default.
    """
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "add_argument":
        return False
    given = arguments(call).keywords
    action, default = given.get("action"), literal(given.get("default"))
    switches = (
        literal(action) in _SWITCHING
        or (action is not None and model.names.is_any(action, _OPTIONAL))
        or (action is None and isinstance(default, bool))
    )
    half = isinstance(default, (str, int)) and default in _HALVES
    chooses = action is None and half and _CHOICE.fullmatch(read_from(call))
    return bool(chooses) or (switches and _OPTION.fullmatch(read_from(call)) is not None)


def _dtype_of(option: cst.Call) -> str | None:
    name = read_from(option)
    return next((dtype for end, dtype in _NAMED.items() if name.lower().endswith(end)), None)


def _places(model: Model) -> Iterator[Place]:
    """What turns mixed precision on in this file, whatever any setting says.

    Where a setting decides about some region, the others are meant to be as they are.
    """
    regions = [r for r in model.regions.all if model.tree.is_own(r.node) and not r.never_enabled]
    if not all(_is_on(each) and not _is_chosen(model, each.node) for each in regions):
        return
    for region in regions:
        yield region.node, _cast_to(model, region)
    for call in model.tree.nodes(cst.Call):
        yield from () if _is_chosen(model, call) else _told(model, call)


def _cast_to(model: Model, region: Region) -> str | None:
    named = model.names.qualified(region.dtype) if region.dtype is not None else ()
    return next((DTYPES[name] for name in named if name in DTYPES), None)


def _is_on(region: Region) -> bool:
    fixed = region.enabled is None or literal(region.enabled) is True
    unsure = region.starred or region.conditional or region.of_several
    return fixed and bool(region.function) and not unsure


def _told(model: Model, call: cst.Call) -> Iterator[Place]:
    """What tells a framework in which half precision to train, written out in the call."""
    rows = (BY_NAME.get(name) for name in model.names.qualified(call.func))
    given = arguments(call)
    for row in (row for row in rows if row is not None):
        if row.gives is Role.TRAINER_OPTIONS:
            known: dict[Part, dict[object, str]] = {
                Part.PRECISION: {True: "float16"}, Part.OTHER_PRECISION: {True: "bfloat16"}
            }  # fmt: skip
        else:
            known = {Part.PRECISION: LOWERING.get(row.gives, {})}
        for part, values in known.items():
            value = given.get(*row.place(part)) if values else None
            if value is not None and (said := literal(value)) is not ... and said in values:
                yield value, values[said]


def _is_chosen(model: Model, node: cst.CSTNode, steps: int = _MAX_CALLS) -> bool:
    """Whether another setting may decide about a place: by a test around it, or round its calls."""
    for test, _ in deciding(model.linked, node):
        names = (
            part for part in descendants(test) if isinstance(part, (cst.Name, cst.SimpleString))
        )
        if any(_DECIDES.search(part.value) for part in names):
            return True
    function = model.program.function_of(node)
    calls = model.program.calls_of(function) if function is not None and steps else ()
    return any(_is_chosen(model, call, steps - 1) for call in calls)
