"""Scalers that are made and contexts that are entered: of what, where and when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from amp_lint.verify.compare.effect_free import is_opaque
from amp_lint.verify.compare.effects import Made
from amp_lint.verify.compare.regions import shown
from amp_lint.verify.compare.settings import Settings
from amp_lint.verify.compare.side import Side, timeless
from amp_lint.verify.compare.units import common
from amp_lint.verify.terms import Term, walk


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
        for each in new:
            alike = [one for one in old if _is_like(one, each)]
            if alike and not any(_is_same(one, each) for one in alike):
                yield _reason(after, each, "is made, or entered, at another place")
        asked, asks = (
            sorted(str(timeless(part)) for each in found for part in _asked(each))
            for found in (old, new)
        )
        if asked != asks:
            line = after.line(after.units[name]) if not new else after.line(new[0].node)
            yield f"line {line}: what AMP is given is asked for more or less often"


def _asked(each: Made) -> Iterator[Term]:
    """What of the arguments does more than compute."""
    yield from (part for term in each.given for part in walk(term) if is_opaque(part))


def _is_like(one: Made, other: Made) -> bool:
    if one.target or other.target:
        return one.target == other.target
    return bool(one.written) and one.written == other.written


def _is_same(one: Made, other: Made) -> bool:
    """Whether it is made of the same, and where it was, or for a local name further out."""
    if one.written == other.written and {*one.given} != {*other.given}:
        return False
    if not one.target:
        return True
    kept = [*map(timeless, one.guards)], [*map(timeless, other.guards)]
    if "." in one.target:
        return kept[0] == kept[1] and one.at == other.at
    return kept[0][: len(kept[1])] == kept[1]


def _reason(side: Side, each: Made, how: str) -> str:
    return f"line {side.line(each.node)}: `{shown(side, each.node)}` {how}"
