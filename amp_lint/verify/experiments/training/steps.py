"""Judges training steps: the same weights as without AMP, for every path through the code.

The oracle is the old program without its scaler and its autocast regions, in float64: the contract
of AMP is that a step with them equals the step without. Both programs run with torch's own
scalers, optimizers and clipping functions on a problem so small that its gradients are exact.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from amp_lint.verify.experiments.literals import Unknown
from amp_lint.verify.experiments.modes import not_compiled
from amp_lint.verify.experiments.training import checks, optimizers
from amp_lint.verify.experiments.training.checks import (
    BACKWARD,
    FORWARD,
    RAISES,
    RANGE,
    READ,
    STALE,
    VALUE,
    Evidence,
    Trial,
)
from amp_lint.verify.experiments.training.optimizers import OPTIMIZER
from amp_lint.verify.experiments.training.pairs import (
    Pair,
    incomparable,
    is_ambiguous,
    is_entangled,
    pairs,
)
from amp_lint.verify.experiments.training.replay import (
    REPLAYED,
    ReplayCase,
    ReplayProblem,
    linear,
    scaler_arguments,
)
from amp_lint.verify.obligations import Autocast, Construct, Event, Program, Step, Trace
from amp_lint.verify.proof import Failure, Judgement, Measured, Point, ProofSettings, Verdict
from amp_lint.verify.purposes import adopted, skipped, switched_on
from amp_lint.vocabulary.meaning import Kind

SCALER = "scaler arguments"
MAX_FLAGS = 3
_MAGNITUDES = tuple(10.0**n for n in range(-6, 5))
_CONDITIONS = tuple(10.0**n for n in range(5))
_STEPS = 12
_COMPLETED = "events that this code leaves to its caller were added: backward, step or update"

_ENTANGLED = "backward passes were reordered, and which optimizer trains on which loss is not known"
_AMBIGUOUS = "which optimizer has the parameters that are clipped is not known"
_COMPILED = (
    "a compiled backward pass runs in the region of its forward pass, wherever it is called, "
    'unless torch._functorch.config.backward_pass_autocast is "off", as it was here'
)
_CUT = "there are more paths than are followed, and for one of them no other one like it was found"
_LEFT = "there are more paths, or calls within one another, than are followed"
_UNJUDGED = "there is a path that the other text has no path for, as the scaler is on or off there"
_LEFT_OUT = {
    kind: f"a path without the {kind.value} was added, and when it is taken is not known"
    for kind in (Kind.CLIP, Kind.STEP)
}
_OTHERS = (
    "the optimizers that step are called by other names: whether they are the same is not known"
)
_BY_PATH = "a region is on by a path in one text, by an option in the other: which is not known"
_STANDS_FOR = (
    "shown with operations of the verifier's own, such as torch.linalg.inv: they stand for those "
    "that autocast keeps in float32, of which this code need not have one"
)


def judge(obligation: Step, settings: ProofSettings) -> Judgement:
    """Whether the new training step does what the old one would do without AMP.

    The old step must be shown to fail, unless the new one gives the same weights bit by bit. If it
    does not, but does what the old one would do with its settings, these are what was changed.
    """
    found = _judged(obligation, settings)
    left = _left_as_it_was(obligation, found, settings)
    if left is not None:
        text = f"on another path it still fails as before: {left.text}"
        return replace(found, verdict=Verdict.NOT_COMPARABLE, statement=text)
    if obligation.left and found.verdict is Verdict.PROVEN:
        return replace(found, verdict=Verdict.NOT_COMPARABLE, statement=_LEFT)
    on = switched_on(obligation.before, obligation.after)
    if found.verdict is Verdict.PROVEN and found.before is None and on is not None:
        text = f"from {on.before} to {on.after}"
        failure = Failure(SCALER, text)
        return replace(found, verdict=Verdict.REFUTED, statement=text, after=failure, changes=on)
    for kind, reason in _LEFT_OUT.items():
        if _is_refuted_by_value(found) and _leaves_out(obligation, kind):
            return replace(found, verdict=Verdict.NOT_COMPARABLE, statement=reason)
    programs = obligation.before, obligation.after
    wanted = (skipped(*programs) if obligation.splits else None) or adopted(*programs)
    if found.verdict is not Verdict.REFUTED or wanted is None:
        return found
    changes, before = wanted
    again = _judged(replace(obligation, before=before), settings)
    return replace(found, changes=changes) if again.verdict is Verdict.PROVEN else found


def _left_as_it_was(obligation: Step, found: Judgement, settings: ProofSettings) -> Failure | None:
    """What was put right on some paths, and fails in the same way on those that both texts have."""
    if found.verdict is not Verdict.PROVEN or found.before is None:
        return None
    if obligation.splits:
        return found.before
    old, new = (
        replace(program, traces=obligation.kept)
        for program in (obligation.before, obligation.after)
    )
    trials = (
        Trial(old, new, pair, case, settings.device, settings.seed)
        for pair in pairs(old, new)
        for case in _cases(obligation)
    )
    shown = (each for trial in trials if trial.is_possible() for each in _of_clips(trial))
    failing = (e.after for e in shown if e.after is not None and e.before is not None)
    return next((each for each in failing if each.check == found.before.check), None)


def _of_clips(trial: Trial) -> Iterator[Evidence]:
    """What is wrong with gradients that are clipped, or read."""
    yield from checks.values(trial)
    yield from checks.reads(trial)


def _judged(obligation: Step, settings: ProofSettings) -> Judgement:
    reason = _incomparable(obligation)
    if reason:
        return Judgement(Verdict.NOT_COMPARABLE, reason)
    every = [
        Trial(obligation.before, obligation.after, pair, case, settings.device, settings.seed)
        for pair in pairs(obligation.before, obligation.after)
        for case in _cases(obligation)
    ]
    trials = [trial for trial in every if trial.is_possible()]
    if _paths(trials) != _paths(every):
        return Judgement(Verdict.NOT_COMPARABLE, _UNJUDGED)
    objects = _kept(_of_objects(obligation, settings), settings)
    by_path = _by_path(trials, any(map(_is_new, objects)), settings)
    trials = trials[: len(by_path)]
    found = [*itertools.chain.from_iterable(by_path), *objects]
    decided = _decide([*_feasible(trials, by_path), *objects])
    by_path_alone = all(each.after is not decided.after for each in objects)
    if obligation.cut and by_path_alone and _is_of_other_paths(decided, trials[-1].pair):
        return Judgement(Verdict.NOT_COMPARABLE, _CUT)
    if _is_refuted_by(decided, VALUE, FORWARD) and _switches_by_path(obligation):
        return Judgement(Verdict.NOT_COMPARABLE, _BY_PATH)
    if _is_refuted_by_value(decided) and is_entangled(trials[-1].pair):
        return Judgement(Verdict.NOT_COMPARABLE, _ENTANGLED)
    if _is_refuted_by_value(decided) and any(is_ambiguous(trial.pair) for trial in trials):
        return Judgement(Verdict.NOT_COMPARABLE, _AMBIGUOUS)
    stepped = _stepped(obligation.before), _stepped(obligation.after)
    renamed = all(stepped) and stepped[0].isdisjoint(stepped[1])
    if renamed and (_is_refuted_by_value(decided) or any(map(_is_new, _of_optimizers(objects)))):
        return Judgement(Verdict.NOT_COMPARABLE, _OTHERS)
    return _illustrated(decided, obligation, trials, found, settings)


def _paths(trials: list[Trial]) -> set[tuple[str, Trace]]:
    sides = ("before", "after")
    return {(side, getattr(trial.pair, side)) for trial in trials for side in sides}


def _leaves_out(obligation: Step, kind: Kind) -> bool:
    """Whether a new path does what another does but for such events, which each old one has."""

    def has(trace: Trace) -> bool:
        return any(event.kind is kind for event in trace)

    before, after = obligation.before.traces, obligation.after.traces
    if not all(map(has, before)):
        return False
    without = {tuple(e.kind for e in trace if e.kind is not kind) for trace in after if has(trace)}
    unscaled = {tuple(k for k in kinds if k is not Kind.UNSCALE) for kinds in without}
    bare = [tuple(e.kind for e in trace) for trace in after if not has(trace)]
    return any(kinds in without | unscaled for kinds in bare)


def _stepped(program: Program) -> set[str | None]:
    """The optimizers, as they are called where they step."""
    return {event.optimizer for event in _events(program) if event.kind is Kind.STEP}


def _switches_by_path(obligation: Step) -> bool:
    """Whether one text has paths with and without a region, and the other an option for it."""
    switches = [
        {
            event.forward.enabled if event.forward is not None else "none"
            for event in _events(program)
            if event.kind is Kind.BACKWARD
        }
        for program in (obligation.before, obligation.after)
    ]
    return any(
        one == {None} and other <= {True, "none"} for one, other in (switches, switches[::-1])
    )


def _is_refuted_by_value(judgement: Judgement) -> bool:
    return _is_refuted_by(judgement, VALUE)


def _is_of_other_paths(judgement: Judgement, pair: Pair) -> bool:
    """Whether what refutes may come of two paths that do not belong together."""
    as_completed = judgement.verdict is Verdict.REFUTED and pair.completed
    return not pair.equal and (as_completed or _is_refuted_by_value(judgement))


def _is_refuted_by(judgement: Judgement, *checks: str) -> bool:
    """Whether one of these checks is what the new code fails."""
    failure = judgement.after if judgement.verdict is Verdict.REFUTED else None
    return failure is not None and failure.check in checks


# --- what cannot be compared --------------------------------------------------------------------


def _incomparable(obligation: Step) -> str:
    before, after = obligation.before, obligation.after
    if not before.traces and not after.traces:
        return "no training step was found"
    if not after.traces:
        return "a training step is gone"
    if not before.traces:
        return "a training step was added, or a part of one whose rest is elsewhere"
    clips = (e.clip for p in (before, after) for e in _events(p) if e.clip is not None)
    unknown = next((clip.function for clip in clips if clip.function not in REPLAYED), None)
    if unknown is not None:
        return f"what `{unknown}` does to gradients is not known"
    for pair in pairs(before, after):
        reason = incomparable(pair)
        if reason:
            return reason
    if _unknown_arguments(before) != _unknown_arguments(after):
        return "an argument of an optimizer is not a literal, and was rewritten"
    return ""


def _events(program: Program) -> Iterator[Event]:
    return itertools.chain.from_iterable(program.traces)


def _unknown_arguments(program: Program) -> set[tuple[str, str]]:
    """Those of optimizers that are of torch."""
    found = set()
    for _, construct in program.optimizers:
        given = optimizers.known(construct)
        found |= {(name, v.text) for name, v in given.items() if isinstance(v, Unknown)}
    return found


# --- what settings may be -----------------------------------------------------------------------


def _cases(obligation: Step) -> list[ReplayCase]:
    """Every combination of the settings that are not literals."""
    programs = obligation.before, obligation.after
    regions = [r for p in programs for e in _events(p) for r in (e.forward, e.active) if r]
    dtypes = ("float16", "bfloat16") if any(r.dtype is None for r in regions) else ("float16",)
    enabled = (True, False) if any(r.enabled is None for r in regions) else (True,)
    flags = sorted({text for p in programs for text in _flags(p)})[:MAX_FLAGS]
    settings = [
        tuple(zip(flags, values, strict=True))
        for values in itertools.product((True, False), repeat=len(flags))
    ]
    return [ReplayCase(*each) for each in itertools.product(dtypes, enabled, settings)]


def _flags(program: Program) -> Iterator[str]:
    """The texts of each ``enabled`` of a scaler that is not a literal."""
    for _, construct in program.scalers:
        enabled = _arguments_of(construct).get("enabled")
        if isinstance(enabled, Unknown):
            yield enabled.text


def _arguments_of(construct: Construct | None) -> dict[str, object]:
    try:
        return scaler_arguments(construct)
    except TypeError:
        return {}


# --- checks of the objects ----------------------------------------------------------------------


def _of_objects(obligation: Step, settings: ProofSettings) -> Iterator[Evidence]:
    before, after = obligation.before, obligation.after
    yield from _scalers(before, after)
    for old, new in optimizers.compared(before, after, settings.device):
        yield Evidence(OPTIMIZER, old, new, same=old == new)


def _of_optimizers(found: Iterable[Evidence]) -> Iterator[Evidence]:
    yield from (evidence for evidence in found if evidence.check == OPTIMIZER)


def _scalers(before: Program, after: Program) -> Iterator[Evidence]:
    """A scaler that is on must have the settings it had."""
    new = dict(after.scalers)
    for key, construct in before.scalers:
        if key not in new:
            continue
        old, made = (_arguments_of(each) for each in (construct, new[key]))
        if made.get("enabled") is False:
            continue
        changed = [name for name in old if name != "enabled" and old[name] != made.get(name)]
        for name in changed:
            text = f"{name} is {made.get(name)} instead of {old[name]}"
            yield Evidence(SCALER, None, Failure(SCALER, text, new[key].name))


# --- the verdict --------------------------------------------------------------------------------


def _kept(found: Iterable[Evidence], settings: ProofSettings) -> list[Evidence]:
    return [evidence for evidence in found if evidence.check not in settings.disabled]


def _by_path(
    trials: list[Trial], is_refuted: bool, settings: ProofSettings
) -> list[list[Evidence]]:
    """What was found on each path, up to one with a failure that nothing can excuse."""
    found: list[list[Evidence]] = []
    for trial in trials:
        found.append([])
        for check in checks.CHECKS:
            found[-1] += _kept(check(trial), settings)
            if is_refuted or any(map(_is_new, found[-1])):
                return found
    return found


def _is_new(evidence: Evidence) -> bool:
    """Whether the new code fails, and the old one does not."""
    return evidence.before is None and evidence.after is not None


def _feasible(trials: list[Trial], by_path: list[list[Evidence]]) -> Iterator[Evidence]:
    """What was found on paths, but not that both programs raise the same on one.

    Such a path may be one that the code never takes, and one that goes on to it as well, where
    both raise, be it something else. It counts if no path that trains as often comes to its end.
    """
    ended = [
        _rounds(trial)
        for trial, found in zip(trials, by_path, strict=True)
        if not any(_stops(evidence) for evidence in found)
    ]
    dead = [
        trial.pair
        for trial, found in zip(trials, by_path, strict=True)
        if any(_stops(evidence) for evidence in found)
    ]
    for trial, found in zip(trials, by_path, strict=True):
        counts = _rounds(trial) > max(ended, default=0)
        is_dead = any(_goes_on_to(trial.pair, pair) for pair in dead)
        for evidence in found:
            both = evidence.check == RAISES and None not in (evidence.before, evidence.after)
            if counts or not (_stops(evidence) or (is_dead and both)):
                yield evidence


def _goes_on_to(pair: Pair, start: Pair) -> bool:
    """Whether a path does something first, and then what another one does up to its first step."""
    texts = (pair.before, _first_round(start.before)), (pair.after, _first_round(start.after))
    return all(
        any(trace[at : at + len(first)] == first for at in range(1, len(trace)))
        for trace, first in texts
    )


def _first_round(trace: Trace) -> Trace:
    kinds = [event.kind for event in trace]
    return trace[: kinds.index(Kind.STEP) + 1] if Kind.STEP in kinds else trace


def _stops(evidence: Evidence) -> bool:
    return evidence.check == RAISES and evidence.same


def _rounds(trial: Trial) -> int:
    """How often a path goes backward."""
    traces = (trial.pair.before, trial.pair.after)
    return max(sum(event.kind is Kind.BACKWARD for event in trace) for trace in traces)


def _decide(found: list[Evidence]) -> Judgement:
    left = [e for e in found if e.untouched and e.same and e.after is not None]
    found = [e for e in found if e not in left]
    before = next((e.before for e in found if e.before is not None), None)
    failing = [e for e in found if e.after is not None]
    remaining = {e.check for e in failing}
    repaired = {e.check for e in found if e.before is not None} - remaining
    notes = dict.fromkeys(e.note for e in found if e.note)
    notes |= {f"as before: {e.after.text}": None for e in left if e.after is not None}
    known = {e.after.text for e in failing if e.after and _is_another_matter(e, repaired)}
    for evidence in failing:
        text = "" if evidence.after is None else evidence.after.text
        if text not in known and not _is_another_matter(evidence, repaired):
            return Judgement(Verdict.REFUTED, text, before, evidence.after, notes=tuple(notes))
        notes[f"as before: {text}"] = None
    statement = _statement(found, repaired, before)
    return Judgement(Verdict.PROVEN, statement, before, notes=tuple(notes))


def _is_another_matter(evidence: Evidence, repaired: set[str]) -> bool:
    """Whether a failure is one that the old code has in the same way, beside what was repaired.

    Code that raises says nothing of its optimizer: an error that is gone does not excuse it. And
    code that still raises is not repaired.
    """
    if evidence.before is None or not evidence.same or evidence.check == RAISES:
        return False
    return bool(repaired - {RAISES} if evidence.check == OPTIMIZER else repaired)


def _statement(found: list[Evidence], repaired: set[str], before: Failure | None) -> str:
    updates = [e for e in found if e.check == VALUE]
    worst = max((e.error for e in updates), default=0.0) * checks.TOLERANCE
    if before is None:
        if all(e.identical for e in updates):
            return "no numeric effect: bitwise equal parameters"
        return f"no numeric effect: weights within {max(worst, 1e-7):.1g} of the step without AMP"
    shown = [f"weights within {max(worst, 1e-7):.1g} of the step without AMP, in float64"]
    if RAISES in repaired:
        shown.append("no error is raised")
    if RANGE in repaired:
        shown.append("a step with a gradient that is not finite is skipped")
    if READ in repaired:
        shown.append("what is read of gradients is as without AMP")
    if BACKWARD in repaired:
        shown.append(f"gradients within {checks.TOLERANCE:g} of float64")
    if OPTIMIZER in repaired:
        shown.append("the optimizer moves parameters as in float64")
    return "; ".join(shown)


# --- figures ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Picture:
    axis: str
    points: tuple[Point, ...]


def _illustrated(
    judgement: Judgement,
    obligation: Step,
    trials: list[Trial],
    found: list[Evidence],
    settings: ProofSettings,
) -> Judgement:
    """The judgement with its figures."""
    notes = list(judgement.notes)
    if any(trial.pair.completed for trial in trials):
        notes.append(_COMPLETED)
    if BACKWARD in (failure.check for failure in (judgement.before, judgement.after) if failure):
        notes.append(_STANDS_FOR)
    compiled = _compiled(judgement, trials, settings)
    if compiled is not None:
        notes.append(compiled if isinstance(compiled, str) else _COMPILED)
    picture = _picture(judgement.before, obligation, trials, settings)
    return replace(
        judgement,
        measured=(
            *_measured(trials, found),
            *([compiled] if isinstance(compiled, Measured) else []),
        ),
        notes=tuple(notes),
        points=picture.points,
        axis=picture.axis,
        not_run=("compiled",) if isinstance(compiled, str) else (),
    )


def _measured(trials: list[Trial], found: list[Evidence]) -> Iterator[Measured]:
    updates = [e.error for e in found if e.check == VALUE]
    gradients = [e.error for e in found if e.check == BACKWARD]
    dtypes = {r.dtype or "float16" for t in trials for e in _forwards(t) if (r := e) is not None}
    if updates or gradients:
        yield Measured(
            "eager",
            ", ".join(f"autocast {name}" for name in sorted(dtypes)) or "float32",
            max(updates, default=None),
            max(gradients, default=None),
            len(updates) + len(gradients),
        )


def _compiled(
    judgement: Judgement, trials: list[Trial], settings: ProofSettings
) -> Measured | str | None:
    """How backward after the region does under ``torch.compile``, where the old one was inside.

    The note of an error if nothing compiles.
    """
    is_about = judgement.before is not None and judgement.before.check == BACKWARD
    if "compiled" not in settings.modes or not is_about or judgement.verdict is not Verdict.PROVEN:
        return None
    trial, new = next((t, new) for t in trials for _, new in t.backwards)
    try:
        error = checks.compiled_error(new.forward, trial.case, trial.device, trial.seed)
    except Exception as raised:  # the compiler raises what it likes
        return not_compiled("compiled", raised)
    return Measured("compiled", "float32", None, error / checks.TOLERANCE, 1)


def _forwards(trial: Trial) -> Iterable[Autocast | None]:
    return (new.forward for _, new in trial.backwards)


def _picture(
    before: Failure | None, obligation: Step, trials: list[Trial], settings: ProofSettings
) -> _Picture:
    if before is None or not trials:
        return _Picture("", ())
    if before.check == BACKWARD:
        return _Picture("condition number of the matrix", _by_condition(trials))
    half = obligation.before.half or obligation.after.half
    if half:
        return _Picture(*optimizers.points(obligation.before, obligation.after, settings.device))
    if before.check == STALE:
        return _Picture("training step", _by_step(trials))
    return _Picture("true gradient norm", _by_norm(trials))


def _by_norm(trials: list[Trial]) -> tuple[Point, ...]:
    trial = next((t for t in trials if not _is_right(t)), trials[0])
    found = []
    for norm in _MAGNITUDES:
        problem, sizes = ReplayProblem(linear), (norm,)
        (before, after), oracle = trial.run(problem, sizes), trial.oracle(problem, sizes)
        old, new = (
            math.inf if outcome.raised else max(checks.errors(outcome, oracle))
            for outcome in (before, after)
        )
        found.append(Point(norm, old, new))
    return tuple(found)


def _by_step(trials: list[Trial]) -> tuple[Point, ...]:
    trial = next(t for t in trials if any(found.before for found in checks.stale(t)))
    errors = checks.weight_errors(trial, _STEPS)
    return tuple(Point(float(at), *pair) for at, pair in enumerate(zip(*errors, strict=False), 1))


def _is_right(trial: Trial) -> bool:
    return all(evidence.before is None for evidence in checks.values(trial))


def _by_condition(trials: list[Trial]) -> tuple[Point, ...]:
    backwards = [(t, pair) for t in trials for pair in t.backwards]
    trial, events = next(
        (t, pair) for t, pair in backwards if any(event.active is not None for event in pair)
    )
    found = []
    for number in _CONDITIONS:
        problem = (
            checks.inverse,
            functools.partial(checks.conditioned, number, trial.seed),
        )
        old, new = (
            checks.gradient_error(problem, event, trial.case, trial.device) for event in events
        )
        found.append(Point(number, old, new))
    return tuple(found)
