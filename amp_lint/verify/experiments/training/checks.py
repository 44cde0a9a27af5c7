"""What a training step must do: the checks of `steps`, each on one path of both programs."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
import torch._functorch.config

from amp_lint.verify.experiments.training import replay
from amp_lint.verify.experiments.training.pairs import Pair, loss_names, optimizer_keys
from amp_lint.verify.experiments.training.replay import (
    ReplayCase,
    ReplayOutcome,
    ReplayProblem,
    Rig,
)
from amp_lint.verify.kept import Kept
from amp_lint.verify.obligations import Autocast, Construct, Event, Program, Trace
from amp_lint.verify.proof import Failure
from amp_lint.verify.terms import Const
from amp_lint.vocabulary.amp import GRAD_SCALER
from amp_lint.vocabulary.meaning import Kind, Part

RAISES, VALUE, BACKWARD = "raises", "value", "backward precision"
STALE, RANGE, FORWARD = "stale weights", "range", "forward dtype"
CALIBRATION, READ, COUNT = "calibration", "read", "steps"

NORMS = (1.0, 10.0, 1e3, 1e-3, 1e-5)
"""Norms of the true gradient."""
OF_HALF = (1.0, 10.0)
"""Those that parameters of 16 bits can be moved by at all."""
FACTORS = (1.0, 0.5, 2.0)
"""By which the gradients of successive steps differ."""
TOLERANCE = 1e-5
TINY = 2.0**-26
"""Half of what float16 rounds to 0, and exact in it as soon as it is scaled."""
_LIFTS = 2.0**-24 / TINY
"""The smallest scale with which float16 holds it."""
_FIRST_SCALE = GRAD_SCALER.keyword(Part.INITIAL_SCALE)
OVERFLOWS = 2.0**18
"""A scaled gradient that is too large for float16 until the scale is a quarter of it."""
ROUNDS = 8
CONDITION = 10.0
_CLIP_EPS = 1e-6  # torch adds it to the norm


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a check said of both programs."""

    check: str
    before: Failure | None
    after: Failure | None
    same: bool = False
    """Whether both fail in exactly the same way."""
    error: float = 0.0
    """Of the new program, in units of what is tolerated."""
    identical: bool = True
    """Whether both programs gave the same bits."""
    untouched: bool = False
    """Whether it is about something that is the same in both programs."""
    note: str = ""


_outcomes: Kept[ReplayOutcome] = Kept(4096)
"""What came of programs: the fixes of one text are each held against the same old program."""


@dataclass(frozen=True)
class Trial:
    """One path of both programs, and what unknown settings are taken to be."""

    before: Program
    after: Program
    pair: Pair
    case: ReplayCase
    device: str
    seed: int = 0
    _texts: dict[tuple[str, bool, bool], str] = field(
        init=False, default_factory=dict, compare=False, repr=False
    )

    def run(
        self, problem: ReplayProblem, sizes: tuple[float, ...]
    ) -> tuple[ReplayOutcome, ReplayOutcome]:
        """What comes of the old program, and of the new one."""
        return self._outcome("before", problem, sizes), self._outcome("after", problem, sizes)

    def oracle(self, problem: ReplayProblem, sizes: tuple[float, ...]) -> ReplayOutcome:
        """What comes of the old program without AMP."""
        return self._outcome("before", problem, sizes, erased=True)

    def _outcome(
        self, which: str, problem: ReplayProblem, sizes: tuple[float, ...], erased: bool = False
    ) -> ReplayOutcome:
        """Of one program; erased, it has no scaler and no autocast, and is in float64."""
        is_cast = problem.is_cast or bool(getattr(self, which).inputs)

        def compute() -> ReplayOutcome:
            program, trace, case = self._needed(which, is_cast, erased)
            rig = Rig(program, problem, case, self.device, *self._objects(), erased)
            return rig.run(trace, sizes)

        key = which, is_cast, erased
        if key not in self._texts:
            self._texts[key] = repr((self._needed(*key), self.device, self._objects()))
        return _outcomes.get((self._texts[key], problem, sizes, erased), compute)

    def _needed(self, which: str, is_cast: bool, erased: bool) -> tuple[Program, Trace, ReplayCase]:
        """All that a run of a program depends on; equal events may hold 1, 1.0 or True."""
        program: Program = getattr(self, which)
        trace: Trace = getattr(self.pair, which)
        trace = tuple(replace(e, line=0, source="", scaler_is_on=None, idle=None) for e in trace)
        if erased or not is_cast:
            trace = tuple(replace(event, forward=None, active=None) for event in trace)
        if erased:
            trace = tuple(replace(event, scaler=None, scaler_is_none=False) for event in trace)
            return Program(()), trace, ReplayCase()
        case = self.case if is_cast else ReplayCase(flags=self.case.flags)
        return replace(program, traces=(), optimizers=()), trace, case

    def _objects(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names of optimizers and losses, which both programs share."""
        traces = (self.pair.before, self.pair.after)
        return optimizer_keys(*traces), loss_names(*traces)

    @property
    def backwards(self) -> list[tuple[Event, Event]]:
        """The backward passes that correspond to each other."""
        old, new = (
            [event for event in trace if event.kind is Kind.BACKWARD]
            for trace in (self.pair.before, self.pair.after)
        )
        return list(zip(old, new, strict=True)) if len(old) == len(new) else []

    @property
    def is_half(self) -> bool:
        """Whether parameters have 16 bits."""
        return bool(self.before.half or self.after.half)

    def is_possible(self) -> bool:
        """Whether no event has a scaler that is on where its path knows it off, or the reverse."""
        sides = (self.before, self.pair.before), (self.after, self.pair.after)
        return all(
            event.scaler_is_on is None or self._may_be(program, event)
            for program, trace in sides
            for event in trace
        )

    def _may_be(self, program: Program, event: Event) -> bool:
        made, key = dict(program.scalers), event.idle or event.scaler
        scaler = self._scaler(made[key]) if key in made else None
        return scaler is None or scaler.is_enabled() is event.scaler_is_on

    def uses_scaler(self, kind: Kind) -> bool:
        """Whether the old program has events of a kind with a scaler that is on."""
        return self._has_scaler(self.before, self.pair.before, kind)

    def still_uses_scaler(self, kind: Kind) -> bool:
        """The same of the new program."""
        return self._has_scaler(self.after, self.pair.after, kind)

    def _has_scaler(self, program: Program, trace: Trace, kind: Kind) -> bool:
        keys = {event.scaler for event in trace if event.kind is kind}
        made = dict(program.scalers)
        scalers = (self._scaler(made.get(key)) for key in keys - {None} if key is not None)
        return any(scaler is not None and scaler.is_enabled() for scaler in scalers)

    def first_scale(self, program: Program) -> float:
        """The scale that the first scaler starts with; 1 without one."""
        return _first_scale(program.scalers, self.case, self.device)

    def _scaler(self, construct: Construct | None) -> torch.amp.GradScaler | None:
        return _made(construct, self.case, self.device)


def _made(
    construct: Construct | None, case: ReplayCase, device: str
) -> torch.amp.GradScaler | None:
    """None if the constructor does not take its arguments; a run says so."""
    try:
        return replay.make_scaler(construct, case, device)
    except (AssertionError, RuntimeError, TypeError, ValueError):
        return None


@functools.lru_cache(maxsize=256)
def _first_scale(
    scalers: tuple[tuple[str, Construct], ...], case: ReplayCase, device: str
) -> float:
    for _, construct in scalers:
        scaler = _made(construct, case, device)
        if scaler is not None:
            scaler.scale(torch.ones((), device=device))
            return scaler.get_scale()
    return 1.0


# --- the update ---------------------------------------------------------------------------------


def values(trial: Trial) -> Iterator[Evidence]:
    """Updates must be those of the step without AMP, for gradients large and small."""
    problem = ReplayProblem(replay.linear)
    for count, norm in enumerate(OF_HALF if trial.is_half else NORMS):
        sizes = tuple(norm * factor for factor in FACTORS)
        (before, after), oracle = trial.run(problem, sizes), trial.oracle(problem, sizes)
        if not count and (before.raised or after.raised):
            same = before.raised == after.raised
            old, new = _error(before, trial.pair.before), _error(after, trial.pair.after)
            yield Evidence(RAISES, old, new, same, identical=same)
        yield _compared(trial, norm, before, after, oracle)


def _error(outcome: ReplayOutcome, trace: Trace) -> Failure | None:
    if not outcome.raised:
        return None
    at = trace[outcome.at]
    where = "" if outcome.round == 1 else f" when the step is taken for the {outcome.round}. time"
    text = f"{outcome.raised}{where}, at line {at.line}"
    return Failure(RAISES, text, _plain(at.source))


def _compared(
    trial: Trial, norm: float, before: ReplayOutcome, after: ReplayOutcome, oracle: ReplayOutcome
) -> Evidence:
    limit = tolerance(trial)
    old, new = (
        _wrong_update(outcome, oracle, limit, norm, trial.first_scale(program))
        for outcome, program in ((before, trial.before), (after, trial.after))
    )
    same = _equal(before, after)
    error = max(errors(after, oracle), default=0.0) / limit
    return Evidence(VALUE, old, new, same, error, identical=same)


def tolerance(trial: Trial) -> float:
    """Relative error of an update that is allowed."""
    allowed = TOLERANCE
    if trial.is_half:
        halves = {p.half_dtype for p in (trial.before, trial.after) if p.half}
        allowed = max(4 * torch.finfo(getattr(torch, name)).eps for name in halves)
    for event in (*trial.pair.before, *trial.pair.after):
        if event.clip is not None and event.clip.times_scale:
            allowed += _CLIP_EPS / max(event.clip.limit or replay.UNKNOWN_LIMIT, _CLIP_EPS)
    return allowed


def _wrong_update(
    outcome: ReplayOutcome, oracle: ReplayOutcome, limit: float, norm: float, scale: float
) -> Failure | None:
    found = errors(outcome, oracle)
    index = next((i for i, error in enumerate(found) if error > limit), None)
    if index is None:
        return None
    made, wanted = updates(outcome)[index], updates(oracle)[index]
    worst = int((_relative(made, wanted)).argmax())
    step = "" if index == 0 else f" in step {index + 1}"
    length, right = float(made[worst].norm()), float(wanted[worst].norm())
    how = f"the weights move by {length:.4g} instead of {right:.4g}{step}"
    if math.isclose(length, right, rel_tol=1e-3):
        how = f"the weights move in another direction{step}"
    given = f"a gradient of norm {norm * FACTORS[index]:g}"
    given += f", initial scale {scale:g}" if scale != 1 else ""
    return Failure(VALUE, how, given)


def updates(outcome: ReplayOutcome) -> list[torch.Tensor]:
    """By how much each repetition moves the weights, a row for each optimizer."""
    count = len(replay.DIRECTION)
    weights = outcome.weights
    start = [torch.zeros_like(first) for first in weights[:1]]
    moved = zip((*start, *weights), weights, strict=False)
    return [(new - old).reshape(-1, count) for old, new in moved]


def errors(outcome: ReplayOutcome, oracle: ReplayOutcome) -> list[float]:
    """The relative error of each update, of the optimizer that does worst."""
    pairs = zip(updates(outcome), updates(oracle), strict=False)
    return [float(_relative(made, wanted).max()) for made, wanted in pairs]


def _relative(made: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    difference, size = (made - wanted).abs().amax(1), wanted.abs().amax(1)
    error = torch.where(difference == 0, 0.0, difference / size)
    return error.nan_to_num(nan=math.inf, posinf=math.inf)


def _equal(one: ReplayOutcome, other: ReplayOutcome) -> bool:
    if one.raised or other.raised:
        return one.raised == other.raised
    pairs = zip(one.weights, other.weights, strict=True)
    return all(torch.equal(a, b) or bool((a.isnan() & b.isnan()).all()) for a, b in pairs)


# --- what is read of gradients ------------------------------------------------------------------


def reads(trial: Trial) -> Iterator[Evidence]:
    """What code reads of gradients must be what it would read without AMP."""
    if trial.is_half or not any(map(replay.is_read, trial.pair.before)):
        return
    problem = ReplayProblem(replay.linear)
    (before, after), oracle = trial.run(problem, FACTORS), trial.oracle(problem, FACTORS)
    if before.raised or after.raised:
        return
    old, new = (_misread(outcome, oracle) for outcome in (before, after))
    same = before.norms == after.norms
    yield Evidence(READ, old, new, same, identical=same)


def _misread(outcome: ReplayOutcome, oracle: ReplayOutcome) -> Failure | None:
    for made, wanted in zip(outcome.norms, oracle.norms, strict=False):
        if not math.isclose(made, wanted, rel_tol=TOLERANCE):
            return Failure(READ, f"a norm of {made:.4g} is read", f"a gradient of norm {wanted:g}")
    return None


# --- gradients that float16 cannot hold ---------------------------------------------------------


def ranges(trial: Trial) -> Iterator[Evidence]:
    """A step that skipped infinite gradients, or kept tiny ones, must still do so."""
    if not trial.after.half:
        yield _infinite(trial)
        yield _tiny(trial)


def _infinite(trial: Trial) -> Evidence:
    before, after = trial.run(ReplayProblem(replay.linear), (1.0, math.inf, 1.0))
    if after.raised:
        new = None if before.raised else _error(after, trial.pair.after)
        return Evidence(RAISES, None, new)
    scaled = trial.uses_scaler(Kind.BACKWARD) and trial.still_uses_scaler(Kind.BACKWARD)
    skipped = scaled if before.raised else _skips(before)
    wanted = skipped or trial.uses_scaler(Kind.STEP)
    if _survives(after) and (_skips(after) or not wanted):
        if scaled and not before.raised and not _survives(before):
            return Evidence(RANGE, _poisoned(before), None)
        old = _error(before, trial.pair.before) if before.round > 1 else None
        return Evidence(RAISES, old, None)
    stopped = before.round > 1  # by the clip
    if not wanted and not stopped and not _survives(before):
        return Evidence(RANGE, None, None)
    is_off = stopped and any(event.scaler for event in trial.pair.before if event.kind is Kind.STEP)
    may_step = _never_float16(trial) and not trial.still_uses_scaler(Kind.BACKWARD)
    if may_step or (is_off and not wanted):
        note = "a step with a non-finite gradient was skipped before and is not any more"
        if stopped:
            note = "without scaler, a non-finite gradient raised an error and does not any more"
        return Evidence(RANGE, None, None, note=note)
    old = None if skipped or before.raised else _poisoned(before)
    return Evidence(RANGE, old, _poisoned(after), same=_equal(before, after))


def _poisoned(outcome: ReplayOutcome) -> Failure:
    how = "move" if _survives(outcome) else "become inf or nan"
    text = f"weights {how} at a step that a scaler would skip"
    return Failure(RANGE, text, "a gradient that is not finite")


def _survives(outcome: ReplayOutcome) -> bool:
    return not outcome.raised and replay.is_finite(outcome.weights[-1])


def _skips(outcome: ReplayOutcome) -> bool:
    """Whether the second of the steps, whose gradient is infinite, leaves the weights alone."""
    return _survives(outcome) and not bool(updates(outcome)[1].any())


def _never_float16(trial: Trial) -> bool:
    """Whether no loss can be computed in float16, so that none overflows for want of a scale."""
    forwards = [event.forward for pair in trial.backwards for event in pair]
    return bool(forwards) and all(
        forward is not None
        and not (
            replay.is_enabled(forward, trial.case)
            and replay.region_dtype(forward, trial.case) is torch.float16
        )
        for forward in forwards
    )


def _starts_low(program: Program) -> bool:
    """Whether the first scale is so small that it lifts no gradient that underflows."""
    given = (dict(made.keywords).get(_FIRST_SCALE) for _, made in program.scalers)
    return any(
        isinstance(one, Const) and isinstance(one.value, (int, float)) and one.value < _LIFTS
        for one in given
    )


def _tiny(trial: Trial) -> Evidence:
    problem, sizes = ReplayProblem(_through_product, is_cast=True), (TINY,) * 3
    (before, after), oracle = trial.run(problem, sizes), trial.oracle(problem, sizes)
    if after.raised:
        return Evidence(RANGE, None, None)
    scales = trial.uses_scaler(Kind.BACKWARD) and not _starts_low(trial.before)
    right = scales if before.raised else _is_exact(before, oracle)
    if not right or _is_exact(after, oracle):
        return Evidence(RANGE, None, None)
    wanted, made = (float(updates(o)[0].norm()) for o in (oracle, after))
    text = f"the weights move by {made:.4g} instead of {wanted:.4g}: the gradient underflows"
    return Evidence(RANGE, None, Failure(RANGE, text, f"a gradient of norm {TINY:.4g}"))


def _is_exact(outcome: ReplayOutcome, oracle: ReplayOutcome) -> bool:
    return max(errors(outcome, oracle)) <= TOLERANCE


def _through_product(parameter: torch.Tensor, which: int, size: float) -> torch.Tensor:
    """A loss whose gradient goes back through a matrix product, in the dtype of the region."""
    given = replay.direction(which, parameter).to(parameter.dtype)
    product = torch.mm(parameter.unsqueeze(0), given.unsqueeze(1))
    return product.to(torch.promote_types(product.dtype, torch.float32)).sum() * size


def calibrations(trial: Trial) -> Iterator[Evidence]:
    """Where the first scale is too large, the scaler must find one that is not."""
    scaled = [
        program
        for program, uses in (
            (trial.before, trial.uses_scaler),
            (trial.after, trial.still_uses_scaler),
        )
        if uses(Kind.STEP)
    ]
    if not scaled or trial.is_half:
        return
    size = OVERFLOWS / max(trial.first_scale(scaled[0]), 1.0)
    before, after = trial.run(ReplayProblem(_through_float16), (size,) * ROUNDS)
    if not (before.raised or after.raised):
        same = _equal(before, after)
        yield Evidence(CALIBRATION, _stuck(before), _stuck(after), same)


class _Rounded(torch.autograd.Function):
    """Passes gradients on as a layer in float16 does."""

    @staticmethod
    def forward(_: object, given: torch.Tensor) -> torch.Tensor:
        return given.clone()

    @staticmethod
    def backward(_: object, gradient: torch.Tensor) -> torch.Tensor:
        return gradient.to(torch.float16).to(gradient.dtype)


def _through_float16(parameter: torch.Tensor, which: int, size: float) -> torch.Tensor:
    rounded: torch.Tensor = _Rounded.apply(parameter)  # type: ignore[no-untyped-call]
    return replay.linear(rounded, which, size)


def _stuck(outcome: ReplayOutcome) -> Failure | None:
    if any(bool(update.any()) for update in updates(outcome)):
        return None
    text = f"all of {ROUNDS} steps are skipped: the scale does not become smaller"
    return Failure(CALIBRATION, text, "a finite gradient that overflows at the first scale")


# --- where the forward and the backward pass run ------------------------------------------------


def forwards(trial: Trial) -> Iterator[Evidence]:
    """Losses must be computed in the same dtype as before."""
    for old, new in trial.backwards:
        before, after = (_product_dtype(e.forward, trial.case, trial.device) for e in (old, new))
        text = f"the forward pass runs in {after} instead of {before}"
        failure = Failure(FORWARD, text, _plain(new.source)) if before != after else None
        yield Evidence(FORWARD, None, failure, identical=before == after)


@functools.lru_cache(maxsize=256)
def _product_dtype(autocast: Autocast | None, case: ReplayCase, device: str) -> str:
    one = torch.ones(1, 1, device=device)
    with replay.region(autocast, case, device):
        return str(torch.mm(one, one).dtype).removeprefix("torch.")


def backwards(trial: Trial) -> Iterator[Evidence]:
    """Gradients must be as exact as float32 allows, where the forward pass ran in float32."""
    for pair in trial.backwards:
        if any(replay.is_enabled(event.active, trial.case) for event in pair):
            was, now = _worst(trial, trial.before, pair[0]), _worst(trial, trial.after, pair[1])
            same, error = was == now, now[1] / TOLERANCE
            old, new = ((event.forward, event.active) for event in pair)
            failures = _imprecise(*was), _imprecise(*now)
            yield Evidence(BACKWARD, *failures, same, error, untouched=old == new)


def _worst(trial: Trial, program: Program, event: Event) -> tuple[str, float]:
    scaled = trial.first_scale(program) if event.scaler else 1.0
    found = {
        name: gradient_error(problem, event, trial.case, trial.device, scaled)
        for name, problem in _islands(trial.seed).items()
    }
    name = max(found, key=lambda key: found[key])
    return name, found[name]


def _imprecise(name: str, error: float) -> Failure | None:
    if error <= TOLERANCE:
        return None
    what = "an infinite gradient" if math.isinf(error) else f"a gradient that is off by {error:.2g}"
    return Failure(BACKWARD, f"{what}, where float32 allows {TOLERANCE:g}", name)


Graph = tuple[Callable[[torch.Tensor], torch.Tensor], Callable[[], torch.Tensor]]
"""A loss, and how the weight is made that it is a function of."""


def gradient_error(
    problem: Graph,
    event: Event,
    case: ReplayCase,
    device: str,
    scale: float = 1.0,
) -> float:
    """Relative error of a gradient against float64, with the regions of a backward event."""
    function, start = problem
    weight = start().to(device)
    single = weight.float().requires_grad_()
    with replay.region(event.forward, case, device):
        loss = function(single) * scale
    with replay.region(event.active, case, device):
        loss.backward()  # type: ignore[no-untyped-call]
    double = weight.float().double().requires_grad_()
    function(double).backward()  # type: ignore[no-untyped-call]
    assert single.grad is not None and double.grad is not None
    difference = single.grad.double() / scale - double.grad
    return float((difference.norm() / double.grad.norm()).nan_to_num(nan=math.inf, posinf=math.inf))


@functools.lru_cache(maxsize=8)
def compiled_error(forward: Autocast | None, case: ReplayCase, device: str, seed: int) -> float:
    """The error of a compiled backward pass after the region. Raises where nothing compiles.

    By default a compiled backward runs in the region of its forward, wherever it is called.
    """
    event = Event(Kind.BACKWARD, 0, "", forward=forward)
    graph = torch.compile(inverse), functools.partial(conditioned, CONDITION, seed)
    with torch._functorch.config.patch(backward_pass_autocast="off"):
        return gradient_error(graph, event, case, device)


def conditioned(number: float, seed: int) -> torch.Tensor:
    """An 8 by 8 matrix of that condition number, in float64."""
    generator = torch.Generator().manual_seed(seed)
    sides = [torch.randn(8, 8, generator=generator, dtype=torch.float64) for _ in range(2)]
    left, right = (torch.linalg.qr(side).Q for side in sides)
    values = torch.logspace(0, -math.log10(number), 8, dtype=torch.float64)
    made: torch.Tensor = left @ torch.diag(values) @ right
    return made


def inverse(weight: torch.Tensor) -> torch.Tensor:
    """A loss that inverts a matrix, which autocast leaves in float32."""
    inverted: torch.Tensor = torch.linalg.inv(weight)
    return inverted.square().sum()


def _island(weight: torch.Tensor) -> torch.Tensor:
    """A loss with a layer that is kept out of autocast, for values beyond those of float16."""
    given = torch.linspace(8192, 16384, 128, dtype=weight.dtype, device=weight.device)
    with torch.autocast(weight.device.type, enabled=False):
        made: torch.Tensor = torch.nn.functional.linear(given.reshape(16, 8), weight)
    return made.sum()


def _layer() -> torch.Tensor:
    return torch.linspace(-1, 1, 64, dtype=torch.float64).reshape(8, 8)


def _islands(seed: int) -> dict[str, Graph]:
    matrix = functools.partial(conditioned, CONDITION, seed)
    return {
        "torch.linalg.inv of an 8 by 8 matrix": (inverse, matrix),
        "a float32 layer in the region, with values above 65504": (_island, _layer),
    }


# --- weights that are cast once and then kept ---------------------------------------------------


def stale(trial: Trial) -> Iterator[Evidence]:
    """Each forward pass must use the weights of its time, not a copy from an earlier one."""
    if not any(_is_entered(trace) for trace in (trial.pair.before, trial.pair.after)):
        return
    apart = replace(
        trial,
        pair=replace(trial.pair, before=_apart(trial.pair.before), after=_apart(trial.pair.after)),
    )
    before, after = trial.run(_FRESH, (1.0,) * 4)
    old, new = apart.run(_FRESH, (1.0,) * 4)
    if not (before.raised or after.raised):
        same = _equal(before, after)
        yield Evidence(STALE, _frozen(before, old), _frozen(after, new), same)


def _is_entered(trace: Trace) -> bool:
    return _apart(trace) != trace


def _apart(trace: Trace) -> Trace:
    """The trace with every region entered anew."""
    return tuple(
        replace(event, forward=_without_entry(event.forward), active=_without_entry(event.active))
        for event in trace
    )


def _without_entry(region: Autocast | None) -> Autocast | None:
    return None if region is None else replace(region, entry="")


def _towards_one(parameters: Sequence[torch.Tensor], size: float) -> torch.Tensor:
    """A loss that is least where the weights of all optimizers add up to 1.

    Autocast casts the weights for it, so that each gradient shows which weights were used.
    """
    products = [
        torch.matmul(torch.eye(p.numel(), dtype=p.dtype, device=p.device), p) for p in parameters
    ]
    wide = torch.stack(products).sum(0)
    wide = wide.to(torch.promote_types(wide.dtype, torch.float32))
    return (wide - 1).square().sum() * size / 2


_FRESH = ReplayProblem(replay.linear, learning_rate=0.25, joint=_towards_one, is_cast=True)


def weight_errors(trial: Trial, steps: int) -> tuple[list[float], list[float]]:
    """The relative errors of the weights of both programs after each of some steps.

    Against the step without AMP, with gradients that show which weights the forward pass used.
    Float16 holds them scaled, unless the scale grows: a step that is skipped ends the series.
    """
    problem = replace(_FRESH, learning_rate=1.0)
    sizes = (_FRESH.learning_rate,) * steps
    (before, after), oracle = trial.run(problem, sizes), trial.oracle(problem, sizes)
    taken = [bool(update.any()) for update in updates(after)]
    last = taken.index(False) if False in taken else len(taken)
    old, new = (
        [
            float((made - wanted).abs().max() / wanted.abs().max())
            for made, wanted in zip(outcome.weights[:last], oracle.weights, strict=False)
        ]
        for outcome in (before, after)
    )
    return old, new


def _frozen(outcome: ReplayOutcome, apart: ReplayOutcome) -> Failure | None:
    for made, wanted in zip(outcome.weights, apart.weights, strict=True):
        worst = int((made - wanted).abs().argmax())
        if not torch.equal(made, wanted):
            text = f"a weight is {float(made[worst]):.4g} instead of {float(wanted[worst]):.4g}"
            return Failure(STALE, f"{text}: the forward pass used an older copy of it")
    return None


def _plain(source: str) -> str:
    return " ".join(source.split())


def counts(trial: Trial) -> Iterator[Evidence]:
    """An optimizer may not step more often for as many backward passes: it may have momentum."""
    old, new = (
        Counter(event.kind for event in trace) for trace in (trial.pair.before, trial.pair.after)
    )
    if old[Kind.STEP] and old[Kind.BACKWARD] == new[Kind.BACKWARD]:
        text = f"{new[Kind.STEP]} steps are taken instead of {old[Kind.STEP]}"
        more = new[Kind.STEP] > old[Kind.STEP]
        yield Evidence(COUNT, None, Failure(COUNT, text) if more else None)


CHECKS: tuple[Callable[[Trial], Iterable[Evidence]], ...] = (
    counts,
    values,
    reads,
    stale,
    backwards,
    forwards,
    ranges,
    calibrations,
)
