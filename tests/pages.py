"""Whether a rule keeps its page's promises; `amp_lint.handbook.pages` says what the fences mean."""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from amp_lint import engine, fixing
from amp_lint.edit import edits
from amp_lint.handbook.pages import Example, Fence, unmarked
from amp_lint.rule import Rule
from amp_lint.selection import Selection
from amp_lint.text.diagnostic import Applicability, Diagnostic, applicable
from amp_lint.text.source import Source


def selection(rule: Rule, fence: Fence) -> Selection:
    """The page's rule alone, preview or not."""
    return Selection((rule,), fence.target_torch)


def reported(rule: Rule, fence: Fence) -> tuple[Diagnostic, ...]:
    """All that the rule says of a fence; many tests look at it, and it is asked once."""
    return _reported(rule, replace(fence, kind="", line=0))


@functools.cache
def _reported(rule: Rule, fence: Fence) -> tuple[Diagnostic, ...]:
    return tuple(engine.check(source_of(fence), selection(rule, fence), named=True))


def source_of(fence: Fence) -> Source:
    """A fence as a file."""
    return Source(fence.text.encode(), "page.py")


def findings(rule: Rule, fence: Fence) -> Counter[tuple[int, str]]:
    """(line, code) of everything the rule reports in a fence."""
    source, found = source_of(fence), reported(rule, fence)
    return Counter((source.position(finding.start)[0], finding.code) for finding in found)


def check_marks(rule: Rule, fence: Fence) -> None:
    """The rule reports exactly what the marks say."""
    found, expected = findings(rule, fence), fence.expected()
    missed, unexpected = sorted(expected - found), sorted(found - expected)
    assert not missed and not unexpected, f"missed {missed}, unexpected {unexpected}"


def check_sieve(rule: Rule, fence: Fence) -> None:
    """Neither sieve keeps the rule from seeing the fence."""
    sieve = selection(rule, fence).sieve
    data = fence.text.encode()
    assert sieve.by_bytes(data) == (rule,), "the byte sieve dismisses the example"
    assert sieve.by_syntax(data, (rule,)) == (rule,), "the syntax sieve dismisses the example"


def check_fix(rule: Rule, example: Example, *, unsafe: bool) -> None:
    """Fixing gives the promised text, in few rounds, with nothing lost and nothing left."""
    fence, promised = example.flagged, example.outcome(unsafe=unsafe)
    result = fix(rule, fence, unsafe=unsafe)
    if promised is None:
        if not unsafe:
            assert result == fence.text, "a safe fix that no `fixed` fence shows"
        return
    assert unmarked(result) == unmarked(promised.text)
    assert result != fence.text, "the fence shows a fix, but nothing is fixed"
    ast.parse(result)
    check_marks(rule, replace(promised, target_torch=fence.target_torch))
    assert fix(rule, Fence("", result, 0, fence.target_torch), unsafe=unsafe) == result
    _check_comments(fence.text, result)


def fix(rule: Rule, fence: Fence, *, unsafe: bool) -> str:
    """What the engine makes of a fence; every round of it is redone and checked here, once."""
    return _fix(rule, replace(fence, kind="", line=0), unsafe)


@functools.cache
def _fix(rule: Rule, fence: Fence, unsafe: bool) -> str:
    chosen = selection(rule, fence)
    result = fixing.fix(source_of(fence), chosen, unsafe=unsafe)
    assert not result.refused, f"a fix is no good: {result.refused}"
    assert _rounds(fence.text, chosen, unsafe=unsafe) == result.text
    return result.text


def _rounds(text: str, chosen: Selection, *, unsafe: bool) -> str:
    for _ in range(fixing.MAX_ROUNDS):
        found = engine.check(Source(text.encode(), "page.py"), chosen, named=True)
        fixes = [f.fix for f in found if f.fix is not None and applicable(f.fix, unsafe=unsafe)]
        if not fixes:
            return text
        after, applied = edits.apply(text, fixes)
        changes = sorted({(e.start, e.end, e.content) for fix in applied for e in fix.edits})
        _check_outside(text, after, changes)
        text = after
    raise AssertionError(f"no end after {fixing.MAX_ROUNDS} rounds")


def _check_outside(before: str, after: str, changes: list[tuple[int, int, str]]) -> None:
    """``after`` is ``before`` with the changes and not a character else."""
    old = new = 0
    for start, end, content in changes:
        kept = before[old:start]
        assert after[new : new + len(kept)] == kept
        new += len(kept)
        assert after[new : new + len(content)] == content
        old, new = end, new + len(content)
    assert after[new:] == before[old:]


def _comments(text: str) -> Counter[str]:
    tokens = tokenize.generate_tokens(io.StringIO(unmarked(text)).readline)
    return Counter(token.string for token in tokens if token.type == tokenize.COMMENT)


def _check_comments(before: str, after: str) -> None:
    lost = _comments(before) - _comments(after)
    assert not lost, f"the fix loses comments: {sorted(lost)}"


def check_layouts(rule: Rule, example: Example) -> None:
    """The fix does not depend on line ends, indentation, or how the file starts and ends."""
    expected = fix(rule, example.flagged, unsafe=True)  # the safe fixes are among them
    for name, change in LAYOUTS.items():
        source = Source(change(example.flagged.text), "page.py")
        result = fixing.fix(source, selection(rule, example.flagged), unsafe=True)
        assert source.encode(result.text) == change(expected), f"layout {name}"


def _tabs(text: str) -> str:
    return re.sub(r"(?m)^(?: {4})+", lambda m: "\t" * (len(m[0]) // 4), text)


def _form_feeds(text: str) -> str:
    return re.sub(r"(?m)^(?=import|from|with|class)", "\f", text)


LAYOUTS: dict[str, Callable[[str], bytes]] = {
    "CRLF, tabs and BOM": lambda text: b"\xef\xbb\xbf" + _tabs(text).replace("\n", "\r\n").encode(),
    "Latin-1, form feeds and no final newline": lambda text: (
        f"# -*- coding: latin-1 -*-\n# caf\xe9\n{_form_feeds(text)}".rstrip("\n").encode("latin-1")
    ),
}
"""Several things at once, as far as one file can have them: each alone costs as much as all."""


def check_wrong(example: Example) -> None:
    """Every wrong fix is a program, and really another one than the example and its fix."""
    right = {unmarked(f.text) for f in (example.flagged, example.fixed, example.unsafe) if f}
    for fence in example.wrong:
        ast.parse(fence.text)
        assert fence.text not in right, f"line {fence.line}: not a wrong fix"


def offers(rule: Rule, fence: Fence) -> set[Applicability]:
    """The kinds of fix that the findings in a fence offer."""
    found = reported(rule, fence)
    return {finding.fix.applicability for finding in found if finding.fix is not None}
