"""AMP901: a `noqa` comment that silences nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Edit, Fix, Severity, quoted
from amp_lint.text.noqa import Code, Directive
from amp_lint.text.source import Source

_BLANK = " \t\f"


class UnusedNoqa(Rule):
    """A code in a comment, for which there is no finding."""

    code = "AMP901"
    name = "unused-noqa"
    severity = Severity.INFO
    fixes = (Applicability.SAFE,)
    about_comments = True

    def visit_directive(
        self, directive: Directive, idle: Sequence[Code], source: Source
    ) -> Iterable[Diagnostic]:
        """Report the codes, and take them out; the comment too, if it has no others."""
        is_all = len(idle) == len(directive.codes)
        start, end = (directive.start, directive.end) if is_all else (idle[0].start, idle[-1].end)
        codes = quoted(", ".join(code.text for code in idle))
        message = f"{codes} in the comment silences nothing here"
        what = "the comment" if is_all else f"{codes} from the comment"
        edits = (_removal(directive, source),) if is_all else (*_parts(directive, idle),)
        fix = Fix(f"Remove {what}", edits, Applicability.SAFE)
        head = (self.code, self.name, self.severity, message, start, end)
        yield Diagnostic(*head, fix=fix, help=f"remove {what}")


def _removal(directive: Directive, source: Source) -> Edit:
    """Takes a comment away, with the blanks before it, and a line that has nothing else.

    What follows it stays, as a comment.
    """
    row, _ = source.position(directive.start)
    first, line = source.line_starts[row - 1], source.text
    last = first + len(source.line(row))
    start, rest = directive.start, line[directive.end : last]
    if (text := rest.strip(_BLANK)) and not text.startswith("#"):
        return Edit(start, directive.end + len(rest) - len(rest.lstrip(f"{_BLANK},:")), "# ")
    if text:
        return Edit(start, directive.end + len(rest) - len(rest.lstrip(_BLANK)), "")
    before = line[first:start].rstrip(_BLANK)
    if not before and source.is_python and row < len(source.line_starts):
        return Edit(first, source.line_starts[row], "")
    return Edit(first + len(before), directive.end, "")


def _parts(directive: Directive, idle: Sequence[Code]) -> Iterable[Edit]:
    """Take some codes out of several, each with what parts it from a neighbour that stays."""
    codes = directive.codes
    kept = [number for number, code in enumerate(codes) if code not in idle]
    for number, code in enumerate(codes):
        if code in idle and number < kept[0]:
            yield Edit(code.start, codes[number + 1].start, "")
        elif code in idle:
            yield Edit(codes[number - 1].end, code.end, "")
