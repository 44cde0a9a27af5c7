"""When a result is right: finite where it can be, and within 4 eps of float64.

The tolerance of an element is ``4 eps max(1, |reference|, max |input|)``; the largest constant
measured for the fixes of the rules is 3.41. Where this is exceeded, four times what rounding errors
of eps make of the result is added: of the old or the new program, whichever is the more stable.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch

from amp_lint.verify.experiments import guards
from amp_lint.verify.experiments.modes import ModeOutcome
from amp_lint.verify.experiments.names import MOVES

_MIXER = 0x1E3779B97F4A7C15
"""An odd number, to spread the bits of a float over all of a product (after Knuth)."""
SUBNORMAL = 1e-290
"""Below it, float64 itself has lost digits, or soon will."""
FACTOR = 4.0
"""How many units in the last place are tolerated."""


@dataclass(frozen=True, slots=True)
class Watched:
    """What was seen of the operations of a run."""

    results: list[tuple[str, torch.Tensor]]
    gradients: list[float] = field(default_factory=list)
    """The largest number of each gradient that came back."""

    @property
    def names(self) -> frozenset[str]:
        """The operations."""
        return frozenset(name for name, _ in self.results)

    def copy(self) -> Watched:
        """What was seen so far, by itself."""
        return Watched([*self.results], [*self.gradients])

    def clear(self) -> None:
        """Forget the last run."""
        self.results.clear()
        self.gradients.clear()

    def __call__(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """Note a result."""
        if tensor.is_floating_point():
            self.results.append((name.rpartition(".")[2], tensor.detach()))
            if tensor.requires_grad and tensor.dtype == torch.float64:
                tensor.register_hook(self._note_gradient)  # type: ignore[no-untyped-call]
        return tensor

    def _note_gradient(self, gradient: torch.Tensor) -> None:
        self.gradients.append(_largest(gradient))

    def overflow(self, limit: float) -> str:
        """The operation that first exceeds a limit; "" if none does."""
        return next((n for n, tensor in self.results if _largest(_numbers(tensor)) > limit), "")

    def largest_gradient(self) -> float:
        """The largest finite number that came back through any operation."""
        return max(filter(math.isfinite, self.gradients), default=0.0)

    def largest_logarithm(self) -> float:
        """The largest logarithm of a sum: its own rounding is the error of its gradient."""
        logs = (t for name, t in self.results if name in ("logsumexp", "logaddexp"))
        return max(filter(math.isfinite, map(_largest, logs)), default=0.0)

    def largest_sum(self) -> float:
        """The largest sum of magnitudes of any result: what a reduction of it may come to."""
        sums = (float(_numbers(t).abs().nan_to_num(0.0).sum()) for _, t in self.results)
        return max(sums, default=0.0)

    def eps(self, without: frozenset[str]) -> float:
        """The coarsest rounding on the way, other than by operations that only move numbers."""
        seen = (torch.finfo(t.dtype).eps for name, t in self.results if name not in without)
        return max(seen, default=0.0)

    def is_subnormal(self) -> bool:
        """Whether float64 itself was near its smallest number, so that it is no reference."""
        return any(bool(((t.abs() < SUBNORMAL) & (t != 0)).any()) for _, t in self.results)


@dataclass(slots=True)
class Noise:
    """Puts a rounding error on the result of each operation, up or down at random."""

    eps: float = 0.0
    draw: int | torch.Tensor = 0
    """The seed; a tensor where several are drawn at once."""

    def __call__(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """The result with its error."""
        if not tensor.is_floating_point() or name.rpartition(".")[2] in MOVES:
            return tensor
        self.draw = self.draw + 1
        return rounded_at_random(tensor, self.eps, self.draw)


def rounded_at_random(tensor: torch.Tensor, eps: float, seed: int | torch.Tensor) -> torch.Tensor:
    """Each number of a float64 tensor times 1 + eps or 1 - eps; equal numbers alike."""
    bits = tensor.detach().contiguous().view(torch.int64) * (2 * seed + 1) + seed
    for _ in range(2):
        bits = (bits ^ (bits >> 31)) * _MIXER
    signs = 1 - 2 * (bits >> 62 & 1)
    return tensor * (1 + eps * signs.double())


def _numbers(tensor: torch.Tensor) -> torch.Tensor:
    """A result with 0 for what stands for no number."""
    return tensor.masked_fill(tensor <= guards.NONE, 0.0)


def _largest(tensor: torch.Tensor) -> float:
    """The largest magnitude, NaN aside."""
    sizes = tensor.abs().nan_to_num(0.0, posinf=math.inf)
    return float(sizes.max()) if sizes.numel() else 0.0


@dataclass(frozen=True, slots=True)
class Target:
    """What a result has to be."""

    exact: torch.Tensor
    """In float64."""
    slack: torch.Tensor
    """How far off it may be; inf for an element that only has to be finite."""
    required: torch.Tensor
    """Which elements are asked for at all."""
    moved: torch.Tensor | None = None
    """Another answer that is as good, and so is all between; None without one."""
    open: torch.Tensor | None = None
    """Which elements need not be finite; None if all must be."""

    def as_known(self, plain: torch.Tensor, near: Sequence[torch.Tensor]) -> Target:
        """The target with a tolerance for what float64 itself does not know.

        Args:
            plain: what float64 gives; where it is not finite the answer was found otherwise.
            near: the same with roundings of float64 at each operation, which is as good.
        """
        slack = self.slack
        for other in near:
            if other.shape == plain.shape == slack.shape:
                apart = (other - plain).abs().nan_to_num(nan=math.inf)
                slack = torch.where(plain.isfinite(), slack.maximum(FACTOR * apart), slack)
        return replace(self, slack=slack)

    def as_rounded(self, own: torch.Tensor, rounded: torch.Tensor, meant: torch.Tensor) -> Target:
        """The target with a tolerance for a guard of new code that the dtype holds few digits of.

        Args:
            own: what new code computes exactly.
            rounded: what it does with its guards as the dtype holds them.
            meant: what it is meant to compute, if anything; where something is, that decides.
        """
        apart = (rounded - own).abs().nan_to_num(nan=0.0, posinf=0.0)
        slack = torch.where(meant.isfinite(), self.slack, self.slack + apart)
        return replace(self, slack=slack)

    def moved_to(self, own: torch.Tensor, bare: torch.Tensor, meant: torch.Tensor) -> Target:
        """The target with what guards make of the answer, where they alone do.

        Args:
            own: what new code computes exactly.
            bare: what it would compute without its guards.
            meant: what it is meant to compute, where that is known.
        """
        alike = (bare - meant).abs() <= self.slack
        return replace(self, moved=torch.where(alike & own.isfinite(), own, self.exact))

    def reached_by(self, near: Sequence[torch.Tensor]) -> Target:
        """The target that guards move no further than ``near``: the answers of nearby inputs."""
        assert self.moved is not None
        low, high = (
            functools.reduce(pick, near).nan_to_num(nan=limit)
            for pick, limit in ((torch.minimum, -math.inf), (torch.maximum, math.inf))
        )
        reached = (self.moved >= low - self.slack) & (self.moved <= high + self.slack)
        return replace(self, moved=torch.where(reached, self.moved, self.exact))

    def guarded_by(
        self, guarded: torch.Tensor, meant: torch.Tensor, was: torch.Tensor | None
    ) -> Target:
        """The target with what a guard of the old code says, where nothing else does.

        Args:
            guarded: what the old code computes exactly.
            meant: what it was meant to compute.
            was: what it does compute, if it does.
        """
        if was is None:
            return self
        decides = ~meant.isfinite() & guarded.isfinite() & was.isfinite()
        return replace(self, exact=torch.where(decides, guarded, self.exact))

    def as_finite_as(self, was: torch.Tensor | None, unknown: torch.Tensor) -> Target:
        """The target that need not be finite where the old code was not, and something is unknown.

        Args:
            was: what the old code computes, if it does.
            unknown: where a guard decides what is meant, or nothing does.
        """
        return replace(self, open=unknown if was is None else unknown & ~was.isfinite())

    def instead_of(self, was: torch.Tensor) -> Target:
        """The target for what takes the place of a result that was not finite, or was right.

        It need not be finite itself.
        """
        known = was.double()
        kept = ~known.isfinite() | (self.error(known) <= 1)
        anywhere = torch.ones_like(kept)
        return replace(self, required=self.required & kept, open=anywhere)

    def error(self, value: torch.Tensor) -> torch.Tensor:
        """How far off a result is, in units of what is tolerated."""
        nearest = self.exact
        if self.moved is not None:
            low, high = (pick(self.exact, self.moved) for pick in (torch.minimum, torch.maximum))
            nearest = value.clamp(low, high)
        return (value - nearest).abs() / self.slack


@dataclass(frozen=True, slots=True)
class Reference:
    """What the results and the gradients have to be, for one input."""

    values: tuple[Target, ...]
    gradients: tuple[Target, ...]

    def as_rounded(self, own: ModeOutcome, near: ModeOutcome, meant: ModeOutcome) -> Reference:
        """The reference with a tolerance for the roundings of guards. See `Target.as_rounded`."""
        if [v.shape for v in near.values] != [v.shape for v in own.values]:
            return self
        values, gradients = (
            tuple(aim.as_rounded(*answers) for aim, *answers in zip(aims, *those, strict=True))
            for aims, those in (
                (self.values, (own.values, near.values, meant.values)),
                (self.gradients, (own.gradients, near.gradients, meant.gradients)),
            )
        )
        return Reference(values, gradients)

    def as_known(self, plain: ModeOutcome, near: Sequence[ModeOutcome]) -> Reference:
        """The reference with a tolerance for what float64 itself does not know.

        ``log(1 - p)`` has no number that is good for a p next to 1. See `Target.as_known`.
        """
        values = [one.values for one in near]
        gradients = [one.gradients for one in near]
        return Reference(
            _known(self.values, plain.values, values),
            _known(self.gradients, plain.gradients, gradients),
        )


def _known(
    aims: Sequence[Target],
    plain: Sequence[torch.Tensor],
    near: Sequence[Sequence[torch.Tensor]],
) -> tuple[Target, ...]:
    found = []
    for at, aim in enumerate(aims):
        others = [one[at] for one in near if at < len(one)]
        found.append(aim.as_known(plain[at], others) if at < len(plain) else aim)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Miss:
    """An element that is not what it has to be."""

    check: str
    """``finite`` or ``value``."""
    is_gradient: bool
    got: float
    want: float
    ratio: float
    """The error in units of what is tolerated; inf if it is not finite."""


def target(
    exact: torch.Tensor,
    moved: Sequence[tuple[torch.Tensor, Sequence[torch.Tensor]]],
    eps: float,
    scale: float,
    dtype: torch.dtype,
) -> Target:
    """The tolerance for one result.

    ``moved`` is what each of the programs gives, and its results with rounding errors of eps;
    ``scale`` is the largest number that the result was computed from; ``dtype`` has to hold it.
    """
    known = exact.isfinite()
    base = torch.where(known, exact, torch.zeros_like(exact))
    slack = FACTOR * eps * base.abs().clamp(min=max(1.0, scale))
    spreads = (_farthest(group, center) for center, group in moved if group)
    slack = slack + FACTOR * min(spreads, default=0.0)
    limit = torch.finfo(dtype).max if dtype.is_floating_point else math.inf
    return Target(exact, slack, known & (base.abs() + slack <= limit))


def _farthest(group: Sequence[torch.Tensor], center: torch.Tensor) -> float:
    """The largest distance of any number of a group from its center."""
    steps = [(other - center).abs().nan_to_num(0.0, posinf=0.0) for other in group]
    return max((float(step.max()) for step in steps if step.numel()), default=0.0)


def finite_only(exact: torch.Tensor) -> Target:
    """All elements have to be finite, whatever they are."""
    anything = torch.full_like(exact, math.inf)
    return Target(exact, anything, torch.ones_like(exact, dtype=torch.bool))


def compare(got: torch.Tensor, want: Target, is_gradient: bool) -> tuple[float, list[Miss]]:
    """The largest error in units of the tolerance, and the worst miss of each check."""
    value = got.detach().double()
    wrong = want.required & ~value.isfinite()
    if want.open is not None:
        wrong &= ~want.open
    comparable = want.required & value.isfinite() & want.exact.isfinite()
    error = torch.where(comparable, want.error(value), 0.0).nan_to_num(0.0)
    misses = []
    if bool(wrong.any()):
        misses.append(
            _miss("finite", is_gradient, value, want, int(wrong.flatten().int().argmax()))
        )
    worst = float(error.max()) if error.numel() else 0.0
    if worst > 1:
        misses.append(_miss("value", is_gradient, value, want, int(error.argmax()), worst))
    return worst, misses


def _miss(
    check: str,
    is_gradient: bool,
    value: torch.Tensor,
    want: Target,
    at: int,
    ratio: float = math.inf,
) -> Miss:
    exact = float(want.exact.flatten()[at])
    return Miss(check, is_gradient, float(value.flatten()[at]), exact, ratio)


@dataclass(frozen=True, slots=True)
class Held:
    """A result held against its reference."""

    value_error: float
    """The largest, in units of what is tolerated."""
    gradient_error: float
    misses: list[Miss]

    def is_finite(self, is_gradient: bool) -> bool:
        """Whether all results or all gradients are finite that have to be."""
        return not any(m.check == "finite" and m.is_gradient is is_gradient for m in self.misses)


def hold(
    values: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor], want: Reference
) -> Held:
    """Compare results and gradients with what they have to be; nothing if shapes differ."""
    if [value.shape for value in values] != [aim.exact.shape for aim in want.values]:
        return Held(0.0, 0.0, [])
    value_error, value_misses = _all(values, want.values, False)
    gradient_error, gradient_misses = _all(gradients, want.gradients, True)
    return Held(value_error, gradient_error, value_misses + gradient_misses)


def _all(
    got: Sequence[torch.Tensor], want: Sequence[Target], is_gradient: bool
) -> tuple[float, list[Miss]]:
    worst, misses = 0.0, []
    for result, aim in _pairs(got, want):
        error, found = compare(result, aim, is_gradient)
        worst = max(worst, error)
        misses += found
    return worst, misses


def _pairs(
    got: Sequence[torch.Tensor], want: Sequence[Target]
) -> Iterator[tuple[torch.Tensor, Target]]:
    for result, aim in zip(got, want, strict=False):
        if result.shape == aim.exact.shape:
            yield result, aim
