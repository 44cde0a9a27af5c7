"""The verdict on each hunk of a change, so that a review can say it where it belongs.

A hunk is judged as the rest of the change is: what is proven of it holds if the others are taken.
"""

from __future__ import annotations

import ast
import difflib
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from amp_lint.verify.obligations import Cast, Covered, Expression, Place, Step
from amp_lint.verify.proof import Hunk, Proof, Shown, Verdict

SHOWN, LAYOUT, SAME = "shown", "layout", "same"
"""Why a hunk is proven: experiments show it, it is layout, or nothing that runs is another."""
REFUTED, CHANGES, UNJUDGED = "refuted", "changes", "not-judged"

_EXPRESSION, _STEP, _CAST = (kind.__name__.lower() for kind in (Expression, Step, Cast))
_OWNERS = {_EXPRESSION: _EXPRESSION, f"training {_STEP}": _STEP, _CAST: _CAST}
"""What answers for places that differ -> what is judged then."""
_HOLDERS = (ast.stmt, ast.ExceptHandler, ast.match_case)
"""What statements stand in."""
MAX_PAIRS = 1_000_000
"""Pairs of lines that are compared."""
MAX_TEXT = 500_000
"""Characters of a text of which the functions are told; nested lists take seconds a megabyte."""
_LINE = re.compile(r"line (\d+): ")
_WEIGHT = (Verdict.REFUTED, Verdict.NOT_COMPARABLE, Verdict.CHANGES, Verdict.PROVEN)
_CODES = {Verdict.REFUTED: REFUTED, Verdict.CHANGES: CHANGES, Verdict.PROVEN: SHOWN}
Said = tuple[Verdict, str, str]
"""A verdict, its code and its reason."""


@dataclass(frozen=True, slots=True)
class _Lines:
    """Some lines of both texts."""

    before: range
    after: range
    functions: frozenset[str]
    is_layout: bool

    def has(self, place: Place) -> bool:
        """Whether a place is in them."""
        return place.before in self.before or place.after in self.after

    def judged(self, verdict: Verdict, code: str, reason: str = "") -> Hunk:
        """What is said of them."""
        starts = self.before.start, len(self.before), self.after.start, len(self.after)
        return Hunk(*starts, verdict, code, reason)


def hunks(before: str, after: str, proof: Proof, unjudged: Sequence[Place]) -> tuple[Hunk, ...]:
    """Each run of lines that differ, in order.

    Args:
        before: the old text.
        after: the new text.
        proof: what was found of the whole change.
        unjudged: the places of what was not looked at any more, once something was refuted.
    """
    found = [*_lines(before, after)]
    judge = _Judge(proof, unjudged, found)
    return tuple(each.judged(*judge.said(each)) for each in found)


def _lines(before: str, after: str) -> Iterator[_Lines]:
    old, new = before.splitlines(), after.splitlines()
    inside = _functions(before), _functions(after)
    for i, j, k, m in _different(old, new):
        ranges = range(i + 1, j + 1), range(k + 1, m + 1)
        named = (name(n) for name, lines in zip(inside, ranges, strict=True) for n in lines)
        same = _code(old[i:j]) == _code(new[k:m])
        yield _Lines(*ranges, frozenset(named), same)


def _different(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """Start and end of each run of lines that differ, in both texts; all as one where it is long.

    Lines are compared in pairs, but for those that both texts begin and end with.
    """
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False))
    start = sum(1 for _ in pairs)
    ends = zip(reversed(old[start:]), reversed(new[start:]), strict=False)
    end = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], ends))
    one, other = old[start : len(old) - end], new[start : len(new) - end]
    if len(one) * len(other) > MAX_PAIRS:
        yield start, start + len(one), start, start + len(other)
        return
    matcher = difflib.SequenceMatcher(None, one, other, autojunk=False)
    for tag, i, j, k, m in matcher.get_opcodes():
        if tag != "equal":
            yield i + start, j + start, k + start, m + start


def _code(lines: Sequence[str]) -> list[str]:
    """Lines without those that are blank or a comment."""
    return [line.rstrip() for line in lines if line.strip() and line.strip()[0] != "#"]


def _functions(text: str) -> Callable[[int], str]:
    """The name of the function or class that a line of a text is in; "" outside of all."""
    try:
        tree = ast.parse(text if len(text) < MAX_TEXT else "")
    except (SyntaxError, ValueError, RecursionError):
        return lambda line: ""
    found = _definitions(tree)

    def name(line: int) -> str:
        return next((n for n, first, last in reversed(found) if first <= line <= last), "")

    return name


def _definitions(tree: ast.Module) -> list[tuple[str, int, int]]:
    """Functions and classes with their first and last line, the outer ones first."""
    found: list[tuple[str, int, int]] = []
    todo: list[tuple[ast.AST, str]] = [(tree, "")]
    for node, around in todo:  # grows while it is read
        for child in ast.iter_child_nodes(node):
            name = around
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                name = f"{around}.{child.name}".lstrip(".")
                found.append((name, child.lineno, child.end_lineno or child.lineno))
            if isinstance(child, _HOLDERS):
                todo.append((child, name))
    return found


class _Judge:
    """Finds what was said of some lines."""

    def __init__(self, proof: Proof, unjudged: Sequence[Place], found: Sequence[_Lines]) -> None:
        self._proof, self._unjudged = proof, unjudged
        self._placed: dict[int, list[Said]] = {}
        self._general = [*self._reasons(found)]
        self._general += [self._of(each) for each in self._nowhere(found)]

    def _reasons(self, found: Sequence[_Lines]) -> Iterator[Said]:
        """The reasons of the whole that belong to no lines; notes those that do."""
        for reason, code in zip(self._proof.reasons, self._proof.codes, strict=False):
            said = Verdict.NOT_COMPARABLE, code, reason
            at = _LINE.match(reason)
            line = int(at[1]) if at else 0
            near = [each for each in found if line in each.after]
            near = near or [each for each in found if line in each.before]
            for each in near:
                self._placed.setdefault(id(each), []).append(said)
            if not near:
                yield said

    def _nowhere(self, found: Sequence[_Lines]) -> Iterator[Shown]:
        """What is refuted and belongs to no lines."""
        for shown in self._proof.shown:
            is_refuted = shown.judgement.verdict is Verdict.REFUTED
            if is_refuted and not any(shown in self._shown(each) for each in found):
                yield shown

    def said(self, lines: _Lines) -> Said:
        """The heaviest of what was said."""
        all_ = [*self._all(lines)]
        if not all_:
            return Verdict.PROVEN, LAYOUT if lines.is_layout else SAME, ""
        return min(all_, key=lambda said: _WEIGHT.index(said[0]))

    def _all(self, lines: _Lines) -> Iterator[Said]:
        yield from self._placed.get(id(lines), ())
        for covered in self._covered(lines):
            if not covered.owner:
                yield Verdict.NOT_COMPARABLE, "unowned", f"`{covered.before or covered.after}`"
        here = self._shown(lines)
        yield from map(self._of, here)
        owners = {each.owner for each in self._covered(lines)}
        for owner, subject in _OWNERS.items():
            if owner in owners and not any(one.subject == subject for one in here):
                yield Verdict.NOT_COMPARABLE, UNJUDGED, f"no {subject} was judged here"
        if lines.is_layout and not self._covered(lines):
            return
        yield from self._general
        for place in self._unjudged:
            if lines.has(place) or place.function in lines.functions:
                yield Verdict.NOT_COMPARABLE, UNJUDGED, "something else is refuted"
                return

    def _covered(self, lines: _Lines) -> list[Covered]:
        return [each for each in self._proof.coverage if lines.has(each.place)]

    def _shown(self, lines: _Lines) -> list[Shown]:
        """What was judged of these lines: there, or of what the function does."""
        shown = [one for one in self._proof.shown if one.subject != "finding"]
        here = [one for one in shown if lines.has(Place(one.line_before, one.line_after))]
        owners = {each.owner for each in self._covered(lines)}
        if lines.is_layout and not owners:
            return here
        for owner, subject in _OWNERS.items():
            is_asked = owner in owners or (subject == _STEP and not owners)
            of = [one for one in shown if one.subject == subject and is_asked]
            inside = [one for one in of if one.function in lines.functions]
            here += [one for one in inside or of if one not in here]
        return here

    def _of(self, shown: Shown) -> Said:
        judgement = shown.judgement
        code = _CODES.get(judgement.verdict, UNJUDGED)
        failure = judgement.after
        return judgement.verdict, code, failure.text if failure else judgement.statement
