"""Training steps as data: which belong together, what a caller adds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from amp_lint.verify.obligations import Event, Program, Trace
from amp_lint.verify.paths import erased, likeness
from amp_lint.vocabulary.amp import BY_INVERSE
from amp_lint.vocabulary.meaning import Kind

DEFAULT_OPTIMIZER = "optimizer"


@dataclass(frozen=True, slots=True)
class Pair:
    """A path of the old program, the one of the new program to hold against it."""

    before: Trace
    after: Trace
    equal: bool
    """Whether both are the same without AMP, so that their events belong together."""
    completed: bool = False
    """Whether events were added that neither has, so that a caller must have them."""


def pairs(before: Program, after: Program) -> list[Pair]:
    """Every trace of both programs, with the one it is held against.

    Traces that are equal without AMP belong together. What is left over goes together in order;
    what is left after that goes with the last of the other side, and must give the same numbers.
    """
    found = dict.fromkeys(_equal_pairs(before.traces, after.traces))
    known = {erased(t) for t in before.traces} & {erased(t) for t in after.traces}
    old = [trace for trace in before.traces if erased(trace) not in known]
    new = [trace for trace in after.traces if erased(trace) not in known]
    found.update(dict.fromkeys(_in_order(old, new, before.traces, after.traces)))
    return [completed(Pair(a, b, erased(a) == erased(b))) for a, b in found if a or b]


def _equal_pairs(
    before: tuple[Trace, ...], after: tuple[Trace, ...]
) -> Iterable[tuple[Trace, Trace]]:
    for trace in before:
        same = [other for other in after if erased(other) == erased(trace)]
        if same:
            yield trace, max(same, key=lambda other: _likeness(trace, other))
    for other in after:
        same = [trace for trace in before if erased(trace) == erased(other)]
        if same:
            yield max(same, key=lambda trace: _likeness(trace, other)), other


def _likeness(trace: Trace, other: Trace) -> tuple[bool, tuple[float, float]]:
    return _may_agree(trace, other), likeness(trace, other)


def _may_agree(trace: Trace, other: Trace) -> bool:
    """Whether no scaler is on in one and off in the other."""
    known = [{(e.idle or e.scaler, e.scaler_is_on) for e in t} for t in (trace, other)]
    return not any((scaler, on is False) in known[1] for scaler, on in known[0] if on is not None)


def _in_order(
    old: list[Trace], new: list[Trace], before: tuple[Trace, ...], after: tuple[Trace, ...]
) -> Iterable[tuple[Trace, Trace]]:
    for index in range(max(len(old), len(new))):
        if not before or not after:
            return
        if index < len(old):
            other = new[index] if index < len(new) else _last(new or after, old[index])
            yield old[index], other
        else:
            yield _last(old or before, new[index]), new[index]


def _last(traces: Sequence[Trace], other: Trace) -> Trace:
    """The last path, and if one may be taken where the other is, the last of these."""
    return next((t for t in reversed(traces) if _may_agree(t, other)), traces[-1])


def incomparable(pair: Pair) -> str:
    """Why two paths cannot be held against each other, if they hold what is not known."""
    moved = _moved_write(pair)
    if moved is not None:
        text = " ".join(moved.source.split())
        return f"`{text}` changes gradients in a way that is not known, and was moved or rewritten"
    if _ends_elsewhere(pair):
        return "a round that takes no step goes backward in one of the texts only"
    old, new = ([e.clip.limit for e in t if e.clip] for t in (pair.before, pair.after))
    same = len(old) != len(new) or all(
        (one is None) == (other is None) for one, other in zip(old, new, strict=True)
    )
    if not same:
        return "a limit is not a literal, and was rewritten"
    far = (Counter(old) - Counter(new)) + (Counter(new) - Counter(old))
    limits = [limit for limit in far if limit is not None and limit < math.inf]
    beyond = bool(limits) and min(limits) > _FAR
    return f"gradients of an experiment are not clipped at {min(limits):g}" if beyond else ""


_FAR = 100.0
"""A limit above which an experiment does not show what a clip does."""


def _ends_elsewhere(pair: Pair) -> bool:
    """Whether a round without a step ends before its backward pass in one text, and not in both."""
    goes_backward = {Kind.BACKWARD in _kinds_of(trace) for trace in (pair.before, pair.after)}
    return len(goes_backward) > 1 and Kind.STEP not in _kinds(pair)


def is_entangled(pair: Pair) -> bool:
    """Whether the same events come in another order, with several losses and optimizers."""
    old, new = erased(pair.before), erased(pair.after)
    traces = pair.before, pair.after
    several = len(optimizer_keys(*traces)) > 1 and len(loss_names(*traces)) > 1
    return several and old != new and Counter(old) == Counter(new)


def is_ambiguous(pair: Pair) -> bool:
    """Whether some optimizers are unscaled at a clip of which it is not known whose it is."""
    keys = {e.optimizer for e in pair.after if e.kind in (Kind.STEP, Kind.UNSCALE)}
    unscaled: set[str | None] = set()
    for event in pair.after:
        if event.kind is Kind.UNSCALE:
            unscaled.add(event.optimizer)
        elif event.kind is Kind.UPDATE:
            unscaled.clear()
        elif event.clip is not None and event.clip.of and event.optimizer is None and unscaled:
            return unscaled < keys
    return False


def _moved_write(pair: Pair) -> Event | None:
    """An unknown change of gradients that another state of them reaches than before.

    It may come to gradients that are not scaled any more, as they are without AMP.
    """
    old, new = ([*_writes(trace)] for trace in (pair.before, pair.after))
    if not pair.equal:
        return next((event for event, _ in (*new, *old)), None)
    pairs = zip(old, new, strict=True)
    return next((event for (_, was), (event, scaled) in pairs if scaled and not was), None)


def _writes(trace: Trace) -> Iterator[tuple[Event, bool]]:
    """The unknown changes of gradients, and whether they are scaled there."""
    scaled = False
    for event in trace:
        if event.kind is Kind.BACKWARD:
            scaled = event.scaler is not None
        elif event.kind is Kind.UNSCALE or event.factor == BY_INVERSE:
            scaled = False
        elif event.kind is Kind.GRADIENT_WRITE and event.factor is None:
            yield event, scaled


def completed(pair: Pair) -> Pair:
    """The pair with what neither of the two does and a step needs: its caller does that."""
    if not pair.before or not pair.after or _ends_elsewhere(pair):
        return pair
    leaves_out = {Kind.BACKWARD, Kind.UPDATE} <= _kinds(pair)  # its own steps, where it has none
    added = pair
    for add in (_with_backward, *[_with_step] * (not leaves_out), _with_update, _with_zero_grad):
        added = add(added)
    return replace(added, completed=added != pair)


def _kinds(pair: Pair) -> set[Kind]:
    return _kinds_of((*pair.before, *pair.after))


def _kinds_of(trace: Trace) -> set[Kind]:
    return {event.kind for event in trace}


def _scaler(pair: Pair) -> str | None:
    scalers = (event.scaler for event in (*pair.before, *pair.after))
    return next((scaler for scaler in scalers if scaler is not None), None)


def _line(pair: Pair) -> int:
    return pair.before[0].line


def _with_backward(pair: Pair) -> Pair:
    if Kind.BACKWARD in _kinds(pair):
        return pair
    scaler = _scaler(pair)
    scaled = "loss" if scaler is None else f"{scaler}.scale(loss)"
    text = f"{scaled}.backward()"
    event = Event(Kind.BACKWARD, _line(pair), text, scaler=scaler, loss="loss")
    return replace(pair, before=_in_front(pair.before, event), after=_in_front(pair.after, event))


def _in_front(trace: Trace, event: Event) -> Trace:
    """An event at the start, but after gradients were cleared."""
    count = next(
        (i for i, other in enumerate(trace) if other.kind is not Kind.ZERO_GRAD), len(trace)
    )
    return (*trace[:count], event, *trace[count:])


def _with_step(pair: Pair) -> Pair:
    if Kind.STEP in _kinds(pair):
        return pair
    scaler = _scaler(pair)
    steps = []
    for key in optimizer_keys(pair.before, pair.after):
        text = f"{key}.step()" if scaler is None else f"{scaler}.step({key})"
        steps.append(Event(Kind.STEP, _line(pair), text, scaler=scaler, optimizer=key))
    return replace(pair, before=_at_end(pair.before, steps), after=_at_end(pair.after, steps))


def _at_end(trace: Trace, events: list[Event]) -> Trace:
    """Events at the end, but before the scaler's update and the clearing of gradients."""
    count = len(trace)
    while count and trace[count - 1].kind in (Kind.UPDATE, Kind.ZERO_GRAD):
        count -= 1
    return (*trace[:count], *events, *trace[count:])


def _with_update(pair: Pair) -> Pair:
    scaler = _scaler(pair)
    if scaler is None or Kind.UPDATE in _kinds(pair):
        return pair
    event = Event(Kind.UPDATE, _line(pair), f"{scaler}.update()", scaler=scaler)
    if not _checks_for_infinity(pair.before, scaler):
        return pair  # nobody else had to
    after = (*pair.after, event) if _checks_for_infinity(pair.after, scaler) else pair.after
    return replace(pair, before=(*pair.before, event), after=after)


def _checks_for_infinity(trace: Trace, scaler: str) -> bool:
    """Whether a scaler has something to update from."""
    return any(
        event.scaler == scaler and event.kind in (Kind.UNSCALE, Kind.STEP) for event in trace
    )


def _with_zero_grad(pair: Pair) -> Pair:
    if Kind.ZERO_GRAD in _kinds(pair):
        return pair
    return replace(pair, before=_clearing(pair.before), after=_clearing(pair.after))


def _clearing(trace: Trace) -> Trace:
    """A trace that clears the gradients at its start, and after steps before it goes backward."""
    made, used = [], True
    for event in trace:
        if used and event.kind is Kind.BACKWARD:
            made.append(Event(Kind.ZERO_GRAD, event.line, f"{DEFAULT_OPTIMIZER}.zero_grad()"))
            used = False
        used = used or event.kind is Kind.STEP
        made.append(event)
    return tuple(made)


def optimizer_keys(*traces: Trace) -> tuple[str, ...]:
    """The optimizers of some traces; one by a default name if they name none."""
    keys = (event.optimizer for trace in traces for event in trace)
    return tuple(dict.fromkeys(key for key in keys if key is not None)) or (DEFAULT_OPTIMIZER,)


def loss_names(*traces: Trace) -> tuple[str, ...]:
    """The losses of some traces, in order of appearance."""
    events = (event for trace in traces for event in trace if event.kind is Kind.BACKWARD)
    return tuple(dict.fromkeys(event.loss or "loss" for event in events))
