"""The closing lines, in ruff's words, and what the findings do to the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from amp_lint.text.diagnostic import Applicability, Diagnostic, Effect, applicable
from amp_lint.text.printable import counted


def summary(found: Sequence[Diagnostic], fixed: int, *, unsafe: bool) -> Iterator[str]:
    """What was found and does harm, what was fixed, and which option fixes more."""
    if not found and not fixed:
        yield "All checks passed!"
        return
    total, left = counted(len(found) + fixed, "error"), _effects(found)
    yield (
        f"Found {total} ({fixed} fixed, {len(found)} remaining{left})."
        if fixed
        else (f"Found {total}{left}.")
    )
    safe, hidden = _fixable(found, unsafe), _hidden(found, unsafe)
    more = f"{counted(hidden, 'unsafe fix')} available with `--fix --unsafe-fixes`"
    if safe:
        yield f"[*] {safe} fixable with `--fix`{f' ({more})' if hidden else ''}."
    elif hidden:
        yield f"{more}."


def diff_summary(found: Sequence[Diagnostic], fixed: int, *, unsafe: bool) -> Iterator[str]:
    """What ``--fix`` would do; ``found`` is what it would leave."""
    hidden = _hidden(found, unsafe)
    if fixed:
        more = f" ({counted(hidden, 'additional fix')} available with `--unsafe-fixes`)"
        yield f"Would fix {counted(fixed, 'error')}{more if hidden else ''}."
    elif hidden:
        more = f"{counted(hidden, 'fix')} available with `--unsafe-fixes`"
        yield f"No errors would be fixed ({more})."


def _effects(found: Sequence[Diagnostic]) -> str:
    counts = Counter(finding.effect for finding in found)
    told = ", ".join(effect.count(counts[effect]) for effect in Effect if counts[effect])
    return f": {told}" if told else ""


def _fixable(found: Sequence[Diagnostic], unsafe: bool) -> int:
    return sum(applicable(finding.fix, unsafe=unsafe) for finding in found)


def _hidden(found: Sequence[Diagnostic], unsafe: bool) -> int:
    """The findings with a fix that only ``--unsafe-fixes`` applies."""
    return (
        0
        if unsafe
        else sum(
            finding.fix is not None and finding.fix.applicability is Applicability.UNSAFE
            for finding in found
        )
    )
