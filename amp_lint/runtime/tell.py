"""What a run has shown, as findings: the rules say it, the linter's formats show it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from amp_lint import registry, report
from amp_lint.mistake import SAMPLED, Account, At
from amp_lint.report import Finding, Style, digest
from amp_lint.rule import Rule
from amp_lint.runtime.advice import advice
from amp_lint.runtime.frames import Place
from amp_lint.runtime.record import Observation, Record, Summary
from amp_lint.runtime.sources import Sources
from amp_lint.text.diagnostic import Diagnostic, Related, Severity
from amp_lint.text.noqa import Suppressions
from amp_lint.text.printable import counted

_UNTRIED = "`amp-lint run` has hardly been tried on CUDA; please report what looks wrong."
_CUT = (
    "The script ended itself in step {0}, which was not looked at closely: run again with "
    "`--at {0}`, which names the first inf or NaN if that was the reason."
)

_WORST = [*Severity]


@dataclass(frozen=True, slots=True)
class Said:
    """An observation and what its rule says of it."""

    observation: Observation
    rule: Rule
    account: Account

    @property
    def place(self) -> Place:
        """The main place."""
        places = self.observation.places
        return places.get(self.account.at, places[At.EVENT])

    @property
    def message(self) -> str:
        """What is wrong, with its numbers."""
        return self.account.message.format(**self.observation.numbers)

    @property
    def severity(self) -> Severity:
        """How bad it is."""
        return Severity.WARNING if self.account.warns else self.rule.severity

    @property
    def often(self) -> str:
        """How often it happened, and when first."""
        count, step = self.observation.count, self.observation.step
        if not step:
            return "over the whole run"
        if count == 1:
            return f"in step {step}"
        among = " in the steps looked at" if self.account.mistake in SAMPLED else ""
        return f"happened {count} times{among}, first in step {step}"


def said(record: Record) -> list[Said]:
    """What the rules say of a record: for each code and main place, the worst that happened."""
    found: dict[tuple[str, Place], Said] = {}
    for seen in record.observations:
        for each in _accounts(seen):
            known = found.setdefault((each.rule.code, each.place), each)
            if _WORST.index(each.severity) < _WORST.index(known.severity):
                found[each.rule.code, each.place] = each
    return [*found.values()]


def _accounts(seen: Observation) -> Iterator[Said]:
    for rule in registry.every_rule():
        of_it = (each for each in rule.observed if each.mistake is seen.mistake)
        known = (each for each in of_it if each.needed <= seen.numbers.keys())
        account = next(known, None)
        if account is not None:
            yield Said(seen, rule, account)


def finding(each: Said, sources: Sources) -> Finding:
    """What is said as a finding in the text of its file."""
    source, others = sources.of(each.place.file), dict(each.observation.places)
    related, notes = [], [each.often]
    for at, label in each.account.related.items():
        place = others.get(at)
        if place is None or place == each.place:
            continue
        if place.file == each.place.file:
            related.append(Related(*sources.span(place), label))
        else:
            notes.append(f"{label}: {sources.of(place.file).name}:{place.row}")
    rule, span = each.rule, sources.span(each.place)
    head = (rule.code, rule.name, each.severity, each.message, *span, tuple(related))
    diagnostic = Diagnostic(*head, help=each.account.help)
    return Finding(source, diagnostic, notes=tuple(notes), shown=evidence(each))


def evidence(each: Said) -> dict[str, object]:
    """What a program that reads findings is told of the run."""
    seen = each.observation
    return {"count": seen.count, "first": seen.step, "numbers": seen.numbers}


def is_silenced(found: Finding) -> bool:
    """Whether a comment on its line silences it."""
    row, _ = found.source.position(found.diagnostic.start)
    return Suppressions(found.source).covers(found.diagnostic.code, row)


def told(record: Record, style: Style | None = None) -> Iterator[str]:
    """All that a run has shown, for people, without what the linter finds."""
    sources, style = Sources(), style or Style()
    found = [each for one in said(record) if not is_silenced(each := finding(one, sources))]
    yield from shown(found, "full", style)
    yield from (f"{line}\n" for line in ending(record, found))


def shown(found: Iterable[Finding], output_format: str, style: Style) -> Iterator[str]:
    """Findings in one of the linter's formats."""
    ordered = digest.ordered(found)
    return report.renderer(output_format)(ordered, style)


def ending(record: Record, found: Iterable[Finding]) -> Iterator[str]:
    """The last lines: what the numbers advise, and what became of the training."""
    advised = advice(record)
    if advised is not None:
        yield advised
    if record.summary.cut_in:
        yield _CUT.format(record.summary.cut_in)
    if record.summary.on_cuda:
        yield _UNTRIED
    yield closing(record.summary, found)


def closing(summary: Summary, found: Iterable[Finding]) -> str:
    """The last line: what became of the training."""
    count = sum(1 for each in found if "first" in each.shown)
    parts = [counted(summary.steps, "step")]
    if summary.skips:
        parts.append(f"{summary.skips} of them skipped")
    if summary.sampled:
        parts.append(f"{summary.sampled} looked at closely")
    if not summary.on_cuda:
        parts.append("not run on CUDA")
    if summary.note:
        parts.append(summary.note)
    if summary.first_scale and summary.last_scale:
        parts.append(f"scale {summary.first_scale:g} to {summary.last_scale:g}")
    cut = "" if summary.ended else "; it did not come to its end"
    if not summary.counted:
        cut = "; the run was killed, counts are those of the last look"
    return f"The run showed {counted(count, 'mistake')} ({', '.join(parts)}{cut})."
