"""What people see of a run: the worst last, deprecations in one line for each file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from amp_lint.report import Finding
from amp_lint.text.diagnostic import Effect

MANY = 4
"""Lines that a fold names; dots stand for more."""
_Key: TypeAlias = tuple[str, str, Effect]
_HARM = {effect: -index for index, effect in enumerate(Effect)}


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """The findings of a file together, those that harm the run most last, then by place.

    The end of an output is what a terminal still shows when it has stopped, and it is where the
    summary says how many findings ruin the run: they stand right above it. For the same reason
    the files whose worst finding is the worst come last; files alike keep their order.
    """
    files: dict[str, list[Finding]] = {}
    for finding in findings:
        files.setdefault(finding.source.name, []).append(finding)
    groups = [sorted(group, key=_harm) for group in files.values()]
    return [finding for group in sorted(groups, key=lambda g: _harm(g[-1])) for finding in group]


def _harm(finding: Finding) -> int:
    return _HARM[finding.diagnostic.effect]


def folded(findings: Sequence[Finding], is_asked: Callable[[Finding], bool]) -> Iterator[Finding]:
    """The deprecations of one code in one file as one finding, at the place of the first.

    They all say the same, and would bury what harms the run. What ``is_asked`` for is not folded.
    One that is alone is a line as well.
    """
    groups: dict[_Key, list[Finding]] = {}
    for finding in findings:
        if finding.diagnostic.effect is Effect.DEPRECATION:
            groups.setdefault(_key(finding), []).append(finding)
    folds = {key: group for key, group in groups.items() if not is_asked(group[0])}
    for finding in findings:
        group = folds.get(_key(finding))
        if group is None:
            yield finding
        elif finding is group[0]:
            yield _fold(group)


def _key(finding: Finding) -> _Key:
    return finding.source.name, finding.diagnostic.code, finding.diagnostic.effect


def _fold(group: Sequence[Finding]) -> Finding:
    first = group[0]
    if len(group) == 1:
        return replace(first, folded=(first.diagnostic,))
    found = tuple(finding.diagnostic for finding in group)
    modules = " and ".join(sorted({f"`{each.deprecated}`" for each in found}))
    message = f"{len(found)} uses of {modules} are deprecated ({_lines(group)})"
    help = "show them with `--show-all`"
    shown = replace(first.diagnostic, message=message, help=help, fix=None)
    return Finding(first.source, shown, found)


def _lines(group: Sequence[Finding]) -> str:
    source = group[0].source
    rows = {source.position(each.diagnostic.start)[0] for each in group}
    cells = {cell for cell, _ in map(source.in_cell, rows) if cell is not None}
    what, numbers = ("cell", sorted(cells)) if cells else ("line", sorted(rows))
    shown = [*map(str, numbers[:MANY]), *(["..."] if len(numbers) > MANY else [])]
    return f"{what}{'s' * (len(numbers) > 1)} {', '.join(shown)}"
