"""Proofs as text for a terminal."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from amp_lint import registry
from amp_lint.report import Style
from amp_lint.report.color import BOLD, GREEN, RED, YELLOW, paint
from amp_lint.verify.obligations import Covered
from amp_lint.verify.proof import Environment, Failure, Hunk, Judgement, Proof, Shown, Verdict
from amp_lint.verify.record import Entry

NOT_ON_CUDA = "not verified on CUDA (CUDA's autocast policy emulated on the CPU)"
PATTERN = "pattern proven, this site not judged"
"""The verdict on a site that is not comparable, where the page of its rule is proven."""
_LABEL = 12


def entry(one: Entry, style: Style, *, pattern: bool = False) -> Iterator[str]:
    """The lines about one proof: place, verdict, how the old code fails, how the new one does.

    ``pattern`` says that the rule's page is proven, for a site that cannot be lifted.
    """
    yield f"{_subject(one)}: {_verdict(one, style, pattern)}"
    yield from proof(one.proof, style)


def summary(one: Entry, style: Style) -> str:
    """Place, verdict, and for what is not as it should be the reason, in one line."""
    shown = one.proof
    why = counterexample(shown) if shown.verdict is Verdict.REFUTED else reason(shown)
    why = why or "; ".join(f"from {c.before} to {c.after}" for c in shown.changes)
    head = f"{_subject(one)}: {_verdict(one, style, pattern=False)}"
    return head if one.right or not why else f"{head}: {why}"


def line(one: Entry, style: Style) -> str:
    """One proof in one line: place, kind, verdict, and the failure that decides it or is fixed."""
    shown = one.proof
    failure = shown.counterexample or shown.fails_before
    text = failure.text if failure else "; ".join(shown.reasons) or "no numeric effect"
    head = f"  {one.place:<8} {one.kind:<10} "
    width = max(style.width - len(head) - len(shown.verdict.value) - 2, 20)
    short = textwrap.shorten(text, width, placeholder=" ...")
    return f"{head}{_verdict_word(one, style)}{incomplete(shown)}: {short}"


def reason(shown: Proof) -> str:
    """Why something is not comparable: the first reason, and how many more there are."""
    first, *others = shown.reasons or ("",)
    return f"{first} (and {len(others)} more)" if others else first


def _subject(one: Entry) -> str:
    return " ".join(filter(None, [one.place, one.rule, one.kind if one.on_page else ""]))


def _verdict(one: Entry, style: Style, pattern: bool) -> str:
    if pattern and one.proof.verdict is Verdict.NOT_COMPARABLE:
        return paint(PATTERN, YELLOW, style)
    wrong = "" if one.right or one.kind != "wrong fix" else ", but it is a wrong fix"
    return _verdict_word(one, style) + wrong + incomplete(one.proof)


def incomplete(shown: Proof) -> str:
    """What a proof lacks: the modes that could not be run."""
    if shown.verdict is not Verdict.PROVEN or not shown.not_run:
        return ""
    modes = " and ".join(shown.not_run)
    return f", but not in {modes} mode, which could not be run"


def _verdict_word(one: Entry, style: Style) -> str:
    verdict = one.proof.verdict
    weak = verdict in (Verdict.NOT_COMPARABLE, Verdict.CHANGES)
    color = GREEN if one.right else YELLOW if weak else RED
    return paint(verdict.value, color, style)


def proof(shown: Proof, style: Style) -> Iterator[str]:
    """What a proof rests on: the decisive judgements, and why others are missing."""
    decisive = _decisive(shown)
    for judged in decisive:
        yield from _judgement(judged, style)
    for reason in shown.reasons:
        yield from _wrapped("because", reason, style)
    if shown.coverage and shown.verdict is not Verdict.REFUTED:
        yield from _wrapped("differs", _accounted(shown.coverage), style)
    if len(shown.hunks) > 1 and shown.verdict is not Verdict.PROVEN:
        for hunk in shown.hunks:
            yield from _wrapped("hunk", _hunk(hunk), style, limit=2)
    if not decisive and not shown.reasons:
        same = shown.sha256_before == shown.sha256_after
        yield "  nothing differs" if same else "  nothing differs that computes anything"
        for judged in shown.shown:
            yield from _wrapped(judged.subject, judged.judgement.statement, style)


def _hunk(hunk: Hunk) -> str:
    """Where a hunk is, as a diff says it, and what is said of it."""
    where = f"-{hunk.line_before},{hunk.lines_before} +{hunk.line_after},{hunk.lines_after}"
    why = f": {hunk.reason}" if hunk.reason and hunk.verdict is not Verdict.PROVEN else ""
    return f"{where}: {hunk.verdict.value} ({hunk.code}){why}"


def _accounted(coverage: Sequence[Covered]) -> str:
    """How many places differ without AMP, and who answers for them."""
    counts = Counter(one.owner or "nobody" for one in coverage)
    places = "1 place" if len(coverage) == 1 else f"{len(coverage)} places"
    owners = ", ".join(f"{count} answered for by {owner}" for owner, count in counts.items())
    return f"without AMP, at {places}: {owners}"


def _decisive(shown: Proof) -> Sequence[Shown]:
    """The refuted judgement alone, if there is one; else all but what is not comparable."""
    refuted = [one for one in shown.shown if one.judgement.verdict is Verdict.REFUTED]
    good = Verdict.PROVEN, Verdict.CHANGES
    proven = [one for one in shown.shown if one.judgement.verdict in good]
    return refuted[:1] or [one for one in proven if one.subject != "finding"]


def _judgement(shown: Shown, style: Style) -> Iterator[str]:
    judgement = shown.judgement
    if shown.before != shown.after:
        yield from _wrapped(shown.subject, shown.before, style, limit=2)
    yield from _wrapped("becomes", shown.after, style, limit=2)
    yield from _wrapped("before", _failure(judgement.before, "no numeric effect"), style)
    if judgement.after:
        yield from _wrapped("after", _failure(judgement.after, ""), style)
    else:
        yield from _wrapped("after", judgement.statement, style)
        yield from _measured(judgement)
    for note in judgement.notes:
        yield from _wrapped("note", note, style)


def counterexample(shown: Proof) -> str:
    """How the new code fails, with the smallest input."""
    return _failure(shown.counterexample, "")


def _failure(failure: Failure | None, otherwise: str) -> str:
    if failure is None:
        return otherwise
    if failure.input and failure.input not in failure.text:
        return f"{failure.text.rstrip('.')}, at {failure.input}"
    return failure.text


def _measured(judgement: Judgement) -> Iterator[str]:
    """The largest errors, a line for each mode and dtype."""
    last = ""
    for one in judgement.measured:
        label = one.mode if one.mode != last else ""
        last = one.mode
        inputs = f"{one.inputs} inputs" if one.inputs else ""
        values, gradients = map(_error, (one.value_error, one.gradient_error))
        row = f"{one.dtype:<18}{values:>8} values{gradients:>9} gradients  {inputs}"
        yield f"  {label:<{_LABEL}} {row}".rstrip()


def _error(error: float | None) -> str:
    return "-" if error is None else f"{error:.2g}"


def _wrapped(label: str, text: str, style: Style, limit: int = 0) -> Iterator[str]:
    """``text`` behind a label, in the columns of the screen and at most ``limit`` lines."""
    lines = textwrap.wrap(
        text,
        max(style.width - _LABEL - 3, 40),
        max_lines=limit or None,
        placeholder=" ...",
        break_on_hyphens=False,
    )
    for number, line in enumerate(lines):
        yield f"  {'' if number else label:<{_LABEL}} {line}"


def table(entries: Sequence[Entry], style: Style) -> Iterator[str]:
    """A line for each rule: fixes proven, wrong fixes refuted."""
    yield paint(f"{'rule':<32}{'fixes proven':>14}{'wrong fixes refuted':>22}", BOLD, style)
    for rule in registry.all_rules():
        group = [one for one in entries if one.rule == rule.code]
        if group:
            counts = (_count(group, wrong=False), _count(group, wrong=True))
            good = all(one.right for one in group)
            row = f"{rule.code + ' ' + rule.name:<32}{counts[0]:>14}{counts[1]:>22}"
            yield paint(row, GREEN if good else RED, style)


def _count(group: Iterable[Entry], *, wrong: bool) -> str:
    rights = [one.right for one in group if (one.kind == "wrong fix") is wrong]
    return f"{sum(rights)}/{len(rights)}"


def closing(
    entries: Iterable[Entry], environment: Environment | None, seconds: float
) -> Iterator[str]:
    """What the figures mean, where they were measured, and where not."""
    if environment is None:
        return
    judged = (shown.judgement for entry in entries for shown in entry.proof.shown)
    if any(judgement.measured for judgement in judged):
        yield "values, gradients: largest error, in units of what is tolerated (1 is the limit)"
    yield from measured_on(environment, seconds)


def measured_on(environment: Environment, seconds: float) -> Iterator[str]:
    """What ran the experiments, and how long they took."""
    yield (
        f"torch {environment.torch}, Python {environment.python}, {environment.device}, "
        f"seed {environment.seed}; {seconds:.0f} s"
    )
    if not environment.cuda:
        yield NOT_ON_CUDA


def paragraphs(
    entries: Sequence[Entry], style: Style, proven: frozenset[str]
) -> Iterator[list[str]]:
    """All proofs: in full, or where there are pages of several rules, a line for each of theirs.

    ``proven`` holds the rules whose pages are proven.
    """
    pages = [one for one in entries if one.on_page]
    brief = len({one.rule for one in pages}) > 1
    for one in entries:
        if not (brief and one.on_page):
            yield [*entry(one, style, pattern=one.rule in proven)]
    for rule in registry.all_rules() if brief else ():
        if group := [one for one in pages if one.rule == rule.code]:
            heading = paint(f"{rule.code} {rule.name}", BOLD, style)
            yield [heading, *(line(one, style) for one in group)]
