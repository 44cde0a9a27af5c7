"""What asks whether autocast is on, or for its dtype: in another region it is told another thing.

That is AMP, and erased wherever it stands; what is done with the answer is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from amp_lint.verify.compare.regions import shown
from amp_lint.verify.compare.side import Side
from amp_lint.verify.compare.units import common
from amp_lint.vocabulary.written import REGION

_STATE = re.compile(rf"torch\.(_C\.)?((get|set|is)_{REGION}_|clear_{REGION}_|{REGION}_\w+_nesting)")
"""The functions that ask for the state that a region sets, or change it."""


def reasons(before: Side, after: Side) -> Iterator[str]:
    """Such calls that run in another region than before, one by one where they are as many."""
    asking = _asking(before) | _asking(after)
    for name in common(before.units, after.units):
        old, new = ([*_calls(side, name, asking)] for side in (before, after))
        known = [_state(before, call) for call in old]
        for at, call in enumerate(new):
            was = known[at : at + 1] if len(known) == len(new) else known
            if known and _state(after, call) not in was:
                yield f"line {after.line(call)}: `{shown(after, call)}` runs in another region"


def _state(side: Side, call: cst.Call) -> object:
    """What decides about the state at a call."""
    return side.state(call), side.switches(call)


def _asking(side: Side) -> frozenset[str]:
    """The names of the file's functions that make such a call, or call one that does."""
    functions, below = side.model.tree.nodes(cst.FunctionDef), side.model.tree.below
    calls = {each: below(each, cst.Call) for each in functions}
    found: frozenset[str] = frozenset()
    while True:
        asking = (f for f in calls if any(_is_asking(side, call, found) for call in calls[f]))
        more = found.union(each.name.value for each in asking)
        if more == found:
            return found
        found = more


def _calls(side: Side, name: str, asking: frozenset[str]) -> Iterator[cst.Call]:
    """The calls of a unit, but not of those within it, that ask."""
    for call in side.calls.get(id(side.units[name]), ()):
        if _is_asking(side, call, asking):
            yield call


def _is_asking(side: Side, call: cst.Call, functions: frozenset[str]) -> bool:
    """Whether a call asks, or runs a function that does; of what is not known, its name tells."""
    model = side.model
    if any(map(_STATE.match, model.names.qualified(call.func))):
        return True
    target = model.program.target(call)
    if target is not None:
        return target.name.value in functions
    own = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
    known = isinstance(own, cst.Name) and own.value in functions
    return known and model.steps.recognizer.kind(call) is None
