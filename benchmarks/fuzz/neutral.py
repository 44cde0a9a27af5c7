"""Neutral edits: programs that do the same must have the same findings at the same statements."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from amp_lint import registry
from amp_lint.engine import AnalysisError, check
from amp_lint.selection import Selection
from amp_lint.text.source import Source, SourceError
from fuzz import bases, flows, layouts, renames
from fuzz.change import Changed, Cut, Statements, changed, laid_out, overlap
from fuzz.code import Program, parsed

CUTS = {**layouts.CUTS, **renames.CUTS, **flows.CUTS}
KINDS = [*CUTS, *layouts.FORMATS]
ALL = Selection(registry.all_rules(), preview=True)
TRIES = 40


@dataclass(frozen=True)
class Case:
    """A program and what a neutral edit makes of it."""

    kind: str
    base: bases.Base
    after: Changed


def case(kind: str, random: Random) -> Case | None:
    """An edit of this kind of any program where it is possible."""
    for attempt in range(TRIES):
        rare = attempt >= TRIES // 4 and _possible(kind)
        base = _quiet(random.choice(rare) if rare else bases.draw(random))
        program = Program(base.text)
        after = _edited(kind, program, random)
        if after is not None and after.text != base.text and _is_valid(program, after):
            return Case(kind, base, after)
    return None


def _quiet(base: bases.Base) -> bases.Base:
    """A program without ``noqa``, which means the line that it stands on."""
    return bases.Base(base.name, base.text.replace("noqa", "seen"))


@functools.cache
def _possible(kind: str) -> list[bases.Base]:
    """Programs in which there is something to edit, for edits that few programs allow."""
    own = [bases.own(name, Random(f"{name}/{n}")) for name in bases.OWN for n in range(3)]
    return [
        base
        for base in (*own, *bases.known())
        if kind not in CUTS or next(CUTS[kind](Program(base.text)), None)
    ]


def _edited(kind: str, program: Program, random: Random) -> Changed | None:
    if kind in layouts.FORMATS:
        text = layouts.FORMATS[kind](program.text)
        return None if text is None else laid_out(program, text)
    edits = [*CUTS[kind](program)]
    return changed(program, _some(edits, random)) if edits else None


def _some(edits: Sequence[tuple[Cut, ...]], random: Random) -> list[Cut]:
    """One edit, or all that can be made together with it."""
    chosen = [*random.choice(edits)]
    for edit in random.sample(edits, len(edits)) if random.random() < 0.4 else ():
        if not overlap(chosen, edit):
            chosen += edit
    return chosen


def _is_valid(program: Program, after: Changed) -> bool:
    """Whether the new text is a program, if the old one is."""
    if parsed(after.text) is None:
        return False
    try:
        compile(program.text, "a.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return True
    try:
        compile(after.text, "a.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def difference(base: str, after: Changed, kind: str) -> str:
    """What kind of difference there is between the findings in two texts; "" for none."""
    numbers = Statements(Program(base))
    old = {(code, numbers.at(start)) for code, start in found(base)}
    new = {(code, after.statement(start)) for code, start in found(after.text)}
    lost, gained = ({code for code, _ in each} for each in (old - new, new - old))
    words = " ".join(_words(lost, gained))
    return f"{kind}: {words}" if words else ""


def _words(lost: set[str], gained: set[str]) -> Iterator[str]:
    """What becomes of codes that are reported for some statements no longer, or newly."""
    if both := lost & gained:
        yield f"{', '.join(sorted(both))} moved"
    before, after = (", ".join(sorted(codes - both)) for codes in (lost, gained))
    if before and after:
        yield f"{before} becomes {after}"
    elif before or after:
        yield f"{before} lost" if before else f"{after} gained"


def found(text: str) -> list[tuple[str, int]]:
    """Code and offset of each finding; nothing where there is no analysis."""
    try:
        findings = check(Source(text.encode(), "a.py"), ALL, named=True)
    except (SourceError, AnalysisError) as error:
        return [(str(error)[:40], 0)]
    return [(finding.code, finding.start) for finding in findings]


def shows(text: str, kind: str, label: str) -> Changed | None:
    """An edit of this kind that makes a difference of this class in a program, if there is one."""
    try:
        program = Program(text)
    except SyntaxError:
        return None
    if kind in layouts.FORMATS:
        formatted = layouts.FORMATS[kind](text)
        options = [laid_out(program, formatted)] if formatted else []
    else:
        options = [changed(program, edit) for edit in CUTS[kind](program)]
    for option in options:
        if option is None or not _is_valid(program, option):
            continue
        if difference(text, option, kind) == label:
            return option
    return None
