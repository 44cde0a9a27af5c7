"""What AMP leaves of the path of a training step, and which paths are alike."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import replace

from amp_lint.verify.obligations import Event, Trace
from amp_lint.vocabulary.amp import BY_INVERSE, BY_SCALE
from amp_lint.vocabulary.meaning import Kind

_AMP_ONLY = frozenset({Kind.UNSCALE, Kind.UPDATE, Kind.CONSTRUCT})

Erased = tuple[tuple[object, ...], ...]


def erased(trace: Trace) -> Erased:
    """A trace without scaler and autocast, as a key to compare."""
    return tuple(_without_amp(event) for event in trace if not is_erased(event))


def is_erased(event: Event) -> bool:
    """Whether an event is nothing but AMP: in a program without it there is no such call."""
    by_scale = event.kind is Kind.GRADIENT_WRITE and event.factor in (BY_SCALE, BY_INVERSE)
    return by_scale or event.kind in _AMP_ONLY


def _without_amp(event: Event) -> tuple[object, ...]:
    clip = None if event.clip is None else replace(event.clip, times_scale=False)
    factor = event.factor if event.kind is Kind.GRADIENT_WRITE else None
    loss = event.loss if event.kind is Kind.BACKWARD else None
    return event.kind, event.optimizer, loss, clip, factor


def likeness(one: Trace, other: Trace) -> tuple[float, float]:
    """How much two traces have in common; among those that have as much, with their regions."""
    first, second = ([replace(e, line=0, source="") for e in trace] for trace in (one, other))
    outside = ([replace(e, active=None, forward=None) for e in part] for part in (first, second))
    return _share(*outside), _share(first, second)


def _share(one: list[Event], other: list[Event]) -> float:
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()


def with_partners(
    traces: Sequence[Trace], others: Sequence[Trace], whole: Sequence[Trace]
) -> tuple[Trace, ...]:
    """``traces``, and of ``whole`` those that others belong to: equal without AMP, and most alike.

    What has an equal in ``traces`` needs none; and what a scaler is in belongs to nothing without
    one, as long as there is one in some of ``traces``. () if all would be partners, and not all
    have one.
    """
    found = dict.fromkeys(traces)
    known = {erased(trace) for trace in traces}
    modes = set(map(_is_scaled, traces))
    for other in others:
        content = erased(other)
        if content in known:
            continue
        mode = _is_scaled(other)
        same = [
            trace
            for trace in whole
            if erased(trace) == content and (_is_scaled(trace) is mode or mode not in modes)
        ]
        if same:
            found[max(same, key=lambda trace: likeness(trace, other))] = None
        elif not traces:
            return ()
    return (*found,)


def _is_scaled(trace: Trace) -> bool:
    return any(event.scaler is not None for event in trace)
