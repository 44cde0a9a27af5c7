"""Proofs as Markdown, for the comment of a review."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

from amp_lint.verify import report
from amp_lint.verify.proof import Environment, Hunk, Proof, Verdict
from amp_lint.verify.record import Entry

TITLE = "### amp-lint: what this changes of mixed precision"
NOTHING = "No file that has to do with mixed precision is changed."
_SIGNS = {
    Verdict.PROVEN: "✅", Verdict.REFUTED: "❌",
    Verdict.CHANGES: "⚠️", Verdict.NOT_COMPARABLE: "❔",
}  # fmt: skip


def comment(entries: Sequence[Entry], environment: Environment | None, seconds: float) -> str:
    """All of it: a paragraph and a table for each file, and where it was measured."""
    blocks = [TITLE, *(_entry(one) for one in entries)] if entries else [TITLE, NOTHING]
    if environment is not None:
        lines = report.measured_on(environment, seconds)
        blocks.append("<br>\n".join(f"<sub>{_text(line)}</sub>" for line in lines))
    return "\n\n".join(blocks) + "\n"


def _entry(one: Entry) -> str:
    shown = one.proof
    head = f"**{_code(one.place)}**: {_verdict(shown.verdict)}{report.incomplete(shown)}"
    return "\n".join([head, "", *_why(shown), *_table(shown)]).rstrip()


def _why(shown: Proof) -> Iterator[str]:
    """What the verdict on a whole file rests on."""
    if shown.verdict is Verdict.REFUTED:
        yield f"* {_text(report.counterexample(shown))}"
        return
    for change in shown.changes:
        yield f"* from {_text(change.before)} to {_text(change.after)}"
    good = Verdict.PROVEN, Verdict.CHANGES
    judged = (one for one in shown.shown if one.judgement.verdict in good)
    for one in judged:
        failed = one.judgement.before
        was = f"; before: {_text(failed.text)}" if failed else ""
        where = f"line {one.line_after}, {one.subject}"
        yield f"* {where}: {_text(one.judgement.statement)}{was}"


def _table(shown: Proof) -> Iterator[str]:
    """A line for each hunk."""
    if not shown.hunks:
        return
    yield from ("", "| lines | verdict | why |", "|---|---|---|")
    for hunk in shown.hunks:
        why = f"{_text(hunk.reason)} " if hunk.reason else ""
        yield f"| {_lines(hunk)} | {_verdict(hunk.verdict)} | {why}({_code(hunk.code)}) |"


def _lines(hunk: Hunk) -> str:
    """The lines as they are now, or those that are gone."""
    first, count = hunk.line_after, hunk.lines_after
    if not count:
        first, count = hunk.line_before, hunk.lines_before
    span = str(first) if count == 1 else f"{first} to {first + count - 1}"
    return span if hunk.lines_after else f"{span} (gone)"


def _verdict(verdict: Verdict) -> str:
    return f"{_SIGNS[verdict]} {verdict.value}"


def _code(text: str) -> str:
    """As code, whatever is in it."""
    fence = "``" if "`" in text else "`"
    inner = f" {text} " if "`" in text else text
    return f"{fence}{inner}{fence}".replace("|", r"\|").replace("\n", " ")


def _text(text: str) -> str:
    """As text, of which nothing becomes a tag or another cell; code in it stays code."""
    parts = text.replace("|", r"\|").replace("\n", " ").split("`")
    if len(parts) % 2 == 0:  # a backtick without its fellow
        parts = [r"\`".join(parts)]
    parts[::2] = (html.escape(part, quote=False) for part in parts[::2])
    return "`".join(parts)
