"""The verdict on each hunk of a change, so that a review can say it where it belongs.

A hunk is judged as the rest of the change is: what is proven of it holds if the others are taken.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from amp_lint.verify.obligations import Covered, Place
from amp_lint.verify.proof import Hunk, Proof, Shown, Verdict

SHOWN, LAYOUT, SAME = "shown", "layout", "same"
"""Why a hunk is proven: experiments show it, it is layout, or nothing that runs is another."""
REFUTED, CHANGES, UNJUDGED = "refuted", "changes", "not-judged"

_OWNERS = {"expression": "expression", "training step": "step"}
"""What answers for places that differ -> what is judged then."""
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
    for tag, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            ranges = range(i + 1, j + 1), range(k + 1, m + 1)
            named = (name(n) for name, lines in zip(inside, ranges, strict=True) for n in lines)
            same = _code(old[i:j]) == _code(new[k:m])
            yield _Lines(*ranges, frozenset(named), same)


def _code(lines: Sequence[str]) -> list[str]:
    """Lines without those that are blank or a comment."""
    return [line.rstrip() for line in lines if line.strip() and line.strip()[0] != "#"]


def _functions(text: str) -> Callable[[int], str]:
    """The name of the function or class that a line of a text is in; "" outside of all."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return lambda line: ""
    found = [*_definitions(tree, "")]

    def name(line: int) -> str:
        return next((n for n, first, last in reversed(found) if first <= line <= last), "")

    return name


def _definitions(tree: ast.AST, around: str) -> Iterator[tuple[str, int, int]]:
    """Functions and classes with their first and last line, the outer ones first."""
    for node in ast.iter_child_nodes(tree):
        name = around
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            name = f"{around}.{node.name}".lstrip(".")
            yield name, node.lineno, node.end_lineno or node.lineno
        yield from _definitions(node, name)


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
            is_asked = owner in owners or (subject == "step" and not owners)
            of = [one for one in shown if one.subject == subject and is_asked]
            inside = [one for one in of if one.function in lines.functions]
            here += [one for one in inside or of if one not in here]
        return here

    def _of(self, shown: Shown) -> Said:
        judgement = shown.judgement
        code = _CODES.get(judgement.verdict, UNJUDGED)
        failure = judgement.after
        return judgement.verdict, code, failure.text if failure else judgement.statement
