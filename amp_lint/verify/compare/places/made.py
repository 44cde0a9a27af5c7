"""Scalers that are made and contexts that are entered: of what, where and when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from amp_lint.verify.compare.effect_free import is_opaque
from amp_lint.verify.compare.effects import Made
from amp_lint.verify.compare.regions import shown
from amp_lint.verify.compare.settings import Settings
from amp_lint.verify.compare.side import Side, timeless
from amp_lint.verify.compare.units import SCRIPT, common
from amp_lint.verify.terms import Form, Input, Op, Term, walk


def reasons(before: Side, after: Side) -> Iterator[str]:
    """What is made, or entered, where something else is read for it, or at another time.

    Of scalers with one name, and of what the same settings are read for.
    """
    settings = {side: Settings(side) for side in (before, after)}
    for name in common(before.units, after.units):
        old, new = (
            [
                replace(each, given=tuple(of.in_unit(side.units[name], g) for g in each.given))
                for each in side.effects[name].made
            ]
            for side, of in settings.items()
        )
        script = name == SCRIPT
        for each in new:
            alike = [one for one in old if _is_like(one, each)]
            if alike and not any(_is_same(one, each, script) for one in alike):
                yield _reason(after, each, "is made, or entered, at another place")
        for each in old:
            alike = [one for one in new if not each.target and _is_like(one, each)]
            if alike and not any({*one.given} == {*each.given} for one in alike):
                yield _reason(before, each, "is entered with what was read at another time")
        asked, asks = (sorted(filter(None, map(_asked_for, found))) for found in (old, new))
        if asked != asks:
            line = after.line(after.units[name]) if not new else after.line(new[0].node)
            yield f"line {line}: what AMP is given is asked for more or less often"


def _asked(each: Made) -> Iterator[Term]:
    """What of the arguments does more than compute."""
    yield from (part for term in each.given for part in walk(term) if is_opaque(part))


def _asked_for(each: Made) -> list[str]:
    """The same in order, with the parameters that get it where there are several."""
    found = [str(timeless(part)) for part in _asked(each)]
    args = each.node.args if isinstance(each.node, cst.Call) and len(found) > 1 else ()
    return [*found, *(arg.keyword.value for arg in args if arg.keyword is not None)]


def _is_like(one: Made, other: Made) -> bool:
    return one.target == other.target and (bool(one.target) or one.written == other.written)


def _is_same(one: Made, other: Made, script: bool) -> bool:
    """Whether it is made of the same, and where it was, or for a local name further out.

    What a script makes everything may read that comes behind it.
    """
    if one.written == other.written and {*one.given} != {*other.given}:
        return False
    kept = [*map(timeless, one.guards)], [*map(timeless, other.guards)]
    if any(_asked(other)) or "." in one.target:
        return kept[0] == kept[1] and one.at == other.at
    if not one.target:
        return not _may_fail(other) or {*kept[0]} <= {*kept[1]}
    return kept[0][: len(kept[1])] == kept[1] and (other.at <= one.at or not script)


def _may_fail(each: Made) -> bool:
    """Whether what it is given has to be there: an item, an attribute."""
    parts = [part for term in each.given for part in walk(term)]
    named = (isinstance(part, Input) and "." in part.key for part in parts)
    items = (isinstance(p, Op) and (p.form is Form.ATTRIBUTE or p.name == "getitem") for p in parts)
    return any(named) or any(items)


def _reason(side: Side, each: Made, how: str) -> str:
    return f"line {side.line(each.node)}: `{shown(side, each.node)}` {how}"
