"""What a symptom may come from in given code: findings, what is ruled out, what cannot be seen."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from amp_lint.report import Finding, Style, renderer
from amp_lint.report.color import BOLD, paint
from amp_lint.rule import Rule
from amp_lint.run.job import Outcome
from amp_lint.run.session import LintOptions, Session
from amp_lint.sieve import wanted
from amp_lint.syntax.parse import TooDeepError, identifiers, parse
from amp_lint.syntax.project import imports
from amp_lint.text.diagnostic import SYNTAX_ERROR
from amp_lint.text.files import absolute, from_here, is_checkout
from amp_lint.vocabulary import written

MAX_FINDINGS = 10
"""Findings that are shown."""
_MAX_NAMED = 3
"""Files that are named for one reason."""


class Search:
    """One run of the linter with the rules that are about a symptom."""

    def __init__(self, rules: Sequence[Rule], options: LintOptions) -> None:
        """Lint the paths of ``options``; the most likely of ``rules`` comes first."""
        self.rules = rules
        self._paths = [absolute(Path(path)) for path in options.paths]
        session = Session(options)
        self._outcomes = session.outcomes()
        self.failed = session.failed
        self._words = [_words(outcome) for outcome in self._outcomes]
        self.found = self._findings()

    def _findings(self) -> list[Finding]:
        """What was found, that of the most likely rule first."""
        order = [rule.code for rule in self.rules]
        found = [
            Finding(outcome.source, diagnostic)
            for outcome in self._outcomes
            for diagnostic in outcome.findings
            if outcome.source and diagnostic.code in order
        ]
        return sorted(found, key=lambda finding: order.index(finding.diagnostic.code))

    def ruled_out(self) -> Iterator[str]:
        """The rules that found nothing in what they look at."""
        had = {finding.diagnostic.code for finding in self.found}
        together = set().union(*self._words)
        idle = []
        for rule in self.rules:
            count = sum(bool(wanted([rule], words, words)) for words in self._words)
            if rule.code in had:
                continue
            if count or wanted([rule], together, together):
                files = "1 file" if count == 1 else f"{count or len(self._words)} files"
                yield f"{rule.code} {rule.name}: nothing found in {files}"
            else:
                idle.append(rule.code)
        if idle and self._words:
            yield f"{', '.join(idle)}: nothing in these files that is looked at"

    def unseen(self) -> Iterator[str]:
        """Why something may be there all the same."""
        for outcome in self._outcomes:
            for finding in outcome.findings:
                if finding.code == SYNTAX_ERROR and outcome.source:
                    yield f"{Finding(outcome.source, finding).place}: {finding.message}"
        if self.failed:
            yield "the paths of which an error is printed"
        if all(written.BACKWARD.isdisjoint(words) for words in self._words):
            yield "the training step: no file here that uses AMP runs `backward`; add one that does"
        yield from self._outside()
        yield "what only a run shows, such as NaN in the data, or a learning rate that is too high"
        yield "what the rules do not find: `amp-lint rule CODE` says it for each"

    def _outside(self) -> Iterator[str]:
        """Files that train, and are imported from elsewhere."""
        files = {
            file: outcome.name
            for outcome in self._outcomes
            if outcome.source
            for file in _imported(absolute(Path(outcome.name)), outcome.source.data)
            if not any(file.is_relative_to(path) for path in self._paths)
        }
        mattering = ((file, by) for file, by in files.items() if _matters(file))
        for file, by in itertools.islice(mattering, _MAX_NAMED):
            yield f"{from_here(file)}, which {by} imports; add it"


def report(search: Search, style: Style) -> Iterator[str]:
    """The findings, what is ruled out, and what could not be seen: text that ends its lines."""
    yield from renderer("full")(search.found[:MAX_FINDINGS], style)
    yield f"{_summary(search)}\n"
    for title, lines in (
        ("ruled out:", [*search.ruled_out()]),
        ("could not be seen:", [*search.unseen()]),
    ):
        if lines:
            yield f"{paint(title, BOLD, style)}\n"
            yield from (f"  {line}\n" for line in lines)


def _summary(search: Search) -> str:
    count = len(search.found)
    if not count:
        return "Found nothing with this symptom."
    if count <= MAX_FINDINGS:
        return f"Found {count} with this symptom, the most likely first."
    codes = ",".join(rule.code for rule in search.rules)
    more = f"`amp-lint --preview --select={codes}` shows the others"
    return f"Found {count}, of which {MAX_FINDINGS} are shown; {more}."


def _words(outcome: Outcome) -> set[str]:
    """The identifiers that a file uses; none, where it cannot be parsed."""
    try:
        return {*identifiers(parse(outcome.source.data))} if outcome.source else set()
    except (SyntaxError, TooDeepError):
        return set()


def _imported(importer: Path, data: bytes) -> Iterator[Path]:
    """The files beside or above a file that it may import, each spelling tried."""
    for module, name in imports(data):
        bare = module.lstrip(".")
        dots = len(module) - len(bare)
        if dots:
            folders: Iterable[Path] = [importer.parents[dots - (2 if bare else 1)]]
        else:
            folders = _upwards(importer.parent)
        parts = tuple(filter(None, bare.split(".")))
        for folder, path in itertools.product(folders, (parts, (*parts, name))):
            base = folder.joinpath(*path)
            yield from filter(_is_file, (base.with_suffix(".py"), base / "__init__.py"))


def _upwards(folder: Path) -> Iterator[Path]:
    """A directory and those above it, up to the top of the checkout."""
    for above in (folder, *folder.parents):
        yield above
        if is_checkout(above):
            return


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _matters(file: Path) -> bool:
    try:
        return bool(written.MATTERS.found_in(file.read_bytes()))
    except OSError:
        return False
