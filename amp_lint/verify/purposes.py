"""Settings of a training step that somebody may want to be others, and the old step with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from amp_lint.verify.obligations import Autocast, Construct, Event, Program, Trace
from amp_lint.verify.proof import Changed
from amp_lint.verify.terms import Const, show
from amp_lint.vocabulary.amp import DEFAULT_DTYPES, GRAD_SCALER
from amp_lint.vocabulary.meaning import Kind, Part

_ENABLED = GRAD_SCALER.keyword(Part.ENABLED)
_OF_SCALERS = frozenset({Kind.UNSCALE, Kind.UPDATE, Kind.CONSTRUCT})
_ON = Const(True)
_NEEDS_NO_SCALER = frozenset({"bfloat16", "float32"})
Adopted = tuple[Changed, Program]


def adopted(before: Program, after: Program) -> Adopted | None:
    """The old program with each setting of the new one that is plainly another; None without any.

    Whether forward passes run in regions, the dtype of these, what they and the scaler are
    switched on by, the limit of the clips, whether there is a scaler, where the new dtype needs
    none, and which optimizer steps.
    """
    found: list[Changed] = []
    for adopt in (
        _half,
        _forwards,
        _limit,
        _dtype,
        _enabled,
        _settings,
        _without_scaler,
        _stepped,
    ):
        one = adopt(before, after)
        if one is not None:
            found.append(one[0])
            before = one[1]
    if not found:
        return None
    old, new = ", ".join(c.before for c in found), ", ".join(c.after for c in found)
    return Changed(old, new), before


def switched_on(before: Program, after: Program) -> Changed | None:
    """A scaler that an option or a literal could keep off, and nothing does any more."""
    new = dict(after.scalers)
    for key, made in before.scalers:
        was, becomes = (dict(each.keywords).get(_ENABLED) for each in (made, new.get(key, made)))
        if was not in (None, _ON) and becomes in (None, _ON):
            return Changed(f"a scaler with {_ENABLED}={show(was)}", "a scaler that is on")
    return None


def _limit(before: Program, after: Program) -> Adopted | None:
    old, new = ({e.clip.limit for e in _events(p) if e.clip} for p in (before, after))
    if len(old) != 1 or len(new) != 1 or old == new:
        return None
    (was,), (becomes,) = old, new

    def limited(event: Event) -> Event:
        clip = event.clip and replace(event.clip, limit=becomes)
        return replace(event, clip=clip)

    texts = (
        "a limit that is no literal" if x is None else f"the limit {x:g}" for x in (was, becomes)
    )
    return Changed(*texts), _each(before, limited)


def _half(before: Program, after: Program) -> Adopted | None:
    """Weights in float16 that become float32 ones in a region of float16."""
    regions = {*_regions(after)}
    if not before.half or after.half or len(regions) != 1 or [*_regions(before)]:
        return None
    (region,) = regions
    if _name(region) != before.half_dtype or region.enabled is not True:
        return None
    made = _each(before, lambda e: replace(e, forward=region) if e.kind is Kind.BACKWARD else e)
    dtype = before.half_dtype
    return Changed(f"weights in {dtype}", f"autocast in {dtype}"), made


def _forwards(before: Program, after: Program) -> Adopted | None:
    """Forward passes that come into a region, or leave it; in float16 they need a scaler."""
    old, new = ({e.forward for e in _events(p) if e.kind is Kind.BACKWARD} for p in (before, after))
    if len(old) != 1 or len(new) != 1 or old == new or None not in (*old, *new):
        return None
    (was,), (becomes,) = old, new
    if becomes and _name(becomes) not in _NEEDS_NO_SCALER and not _all_scaled(after):
        return None
    made = _each(before, lambda e: replace(e, forward=becomes) if e.kind is Kind.BACKWARD else e)
    return Changed(named(was), named(becomes)), made


def _all_scaled(program: Program) -> bool:
    passes = (event for event in _events(program) if event.kind is Kind.BACKWARD)
    return all(event.scaler is not None for event in passes)


def named(region: Autocast | None, *, device: bool = False) -> str:
    """A region in words, with the device if wanted."""
    if region is None:
        return "no autocast"
    switch = {True: "always on", False: "off", None: "on by an option"}[region.enabled]
    where = f" on {region.device or 'a device that is no literal'}" if device else ""
    return f"autocast {switch}{where} in {_name(region) or 'a dtype that is no literal'}"


def _dtype(before: Program, after: Program) -> Adopted | None:
    old, new = ({_name(region) for region in _regions(p)} for p in (before, after))
    if len(old) != 1 or len(new) != 1 or old == new or None in old:
        return None
    (was,), (becomes,) = old, new
    made = _with_regions(before, lambda region: replace(region, dtype=becomes))
    texts = (f"regions in {dtype or 'a dtype that is no literal'}" for dtype in (was, becomes))
    return Changed(*texts), made


def _enabled(before: Program, after: Program) -> Adopted | None:
    old, new = ({region.enabled for region in _regions(p)} for p in (before, after))
    switches = {k: dict(made.keywords).get(_ENABLED) for k, made in after.scalers}
    known = {k: dict(made.keywords).get(_ENABLED) for k, made in before.scalers}
    fresh = [key for key in switches if key in known and switches[key] not in (known[key], None)]
    if any(isinstance(one, Const) for key in fresh for one in (switches[key], known[key])):
        return None
    optional = old == {True} and new == {None}
    if not (fresh or optional):
        return None
    made = before
    if optional:
        made = _with_regions(before, lambda region: replace(region, enabled=None))
    scalers = tuple(
        (key, _switched(one, dict(after.scalers)[key]) if key in fresh else one)
        for key, one in made.scalers
    )
    return Changed("AMP always on", "AMP on by an option"), replace(made, scalers=scalers)


def _settings(before: Program, after: Program) -> Adopted | None:
    """Numbers of a scaler, such as its first scale."""
    new = dict(after.scalers)
    other = {
        key: new[key]
        for key, made in before.scalers
        if key in new and (made.name, made.args) == (new[key].name, new[key].args)
    }
    shown = [
        (_numbers(made), _numbers(other[key]))
        for key, made in before.scalers
        if key in other and _numbers(made) != _numbers(other[key])
    ]
    if not shown:
        return None
    scalers = tuple((key, other.get(key, made)) for key, made in before.scalers)
    texts = (", ".join(each) for each in zip(*shown, strict=True))
    return Changed(*texts), replace(before, scalers=scalers)


def _numbers(made: Construct) -> str:
    given = [f"{name}={show(value)}" for name, value in made.keywords if name != _ENABLED]
    return f"a scaler with {', '.join(given) or 'no settings'}"


def _switched(one: Construct, like: Construct) -> Construct:
    given = [item for item in like.keywords if item[0] == _ENABLED]
    return replace(one, keywords=tuple(sorted((*one.keywords, *given), key=lambda item: item[0])))


def _without_scaler(before: Program, after: Program) -> Adopted | None:
    if not _scales(before) or _scales(after):
        return None
    if not _NEEDS_NO_SCALER.issuperset(_name(region) for region in _regions(after)):
        return None
    traces = tuple(
        tuple(replace(e, scaler=None) for e in trace if e.kind not in _OF_SCALERS)
        for trace in before.traces
    )
    made = replace(before, traces=traces, scalers=())
    return Changed("a GradScaler", "no GradScaler"), made


def _stepped(before: Program, after: Program) -> Adopted | None:
    """Another optimizer that steps, in the place of one."""
    old, new = ({e.optimizer for e in _events(p) if e.kind is Kind.STEP} for p in (before, after))
    if len(old - new) != 1 or len(new - old) != 1:
        return None
    (was,), (becomes,) = old - new, new - old
    if was is None or becomes is None:
        return None

    def other(event: Event) -> Event:
        is_it = event.kind is Kind.STEP and event.optimizer == was
        return replace(event, optimizer=becomes) if is_it else event

    return Changed(f"a step of `{was}`", f"a step of `{becomes}`"), _each(before, other)


def skipped(before: Program, after: Program) -> Adopted | None:
    """The paths that are new, where these are old ones without their steps."""
    old = [trace for trace in before.traces if _steps(trace)]
    without = {_content(trace): trace for trace in map(_without_steps, old)}
    fresh = [_content(trace) for trace in after.traces if not _steps(trace)]
    if len(fresh) < len(after.traces) or not without.keys() >= {*fresh}:
        return None
    made = replace(before, traces=tuple(without[each] for each in fresh))
    return Changed("a step in each round", "a step in some rounds alone"), made


def _steps(trace: Trace) -> bool:
    return any(event.kind is Kind.STEP for event in trace)


def _without_steps(trace: Trace) -> Trace:
    return tuple(event for event in trace if event.kind is not Kind.STEP)


def _content(trace: Trace) -> Trace:
    return tuple(replace(event, line=0, source="") for event in trace)


def _scales(program: Program) -> bool:
    return any(event.scaler is not None for event in _events(program))


def _events(program: Program) -> Iterator[Event]:
    for trace in program.traces:
        yield from trace


def _regions(program: Program) -> Iterator[Autocast]:
    """The regions of forward passes."""
    found: Iterable[Autocast | None] = (event.forward for event in _events(program))
    yield from (region for region in found if region is not None)


def _name(region: Autocast) -> str | None:
    """The dtype of a region; None if it is not known."""
    if region.dtype == "":
        return DEFAULT_DTYPES.get(region.device or "")
    return region.dtype


def _each(program: Program, change: Callable[[Event], Event]) -> Program:
    traces = tuple(tuple(change(event) for event in trace) for trace in program.traces)
    return replace(program, traces=traces)


def _with_regions(program: Program, change: Callable[[Autocast], Autocast]) -> Program:
    return _each(
        program,
        lambda event: replace(
            event,
            forward=event.forward and change(event.forward),
            active=event.active and change(event.active),
        ),
    )
