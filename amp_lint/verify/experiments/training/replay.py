"""Training steps on a small problem, with torch's own scalers, optimizers, clips and regions."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn import utils

from amp_lint.verify.experiments.literals import Unknown, bound
from amp_lint.verify.obligations import Autocast, Construct, Event, Program, Trace
from amp_lint.vocabulary import training
from amp_lint.vocabulary.amp import BY_INVERSE, BY_SCALE, DEFAULT_DTYPES, GRAD_SCALER, SCALE
from amp_lint.vocabulary.meaning import Kind, Part
from amp_lint.vocabulary.table import BY_NAME

Tensor = torch.Tensor
Losses = Callable[[Tensor, int, float], Tensor]
"""``(parameter, which loss, size) -> loss``, of dtype float32 or float64."""

REPLAYED = frozenset(
    row.word
    for row in (
        training.CLIP_NORM, training.CLIP_VALUE, training.CLIP_WITH_NORM, training.TOTAL_NORM
    )
)  # fmt: skip
"""The clips of which it is known what they do, by their words."""
UNKNOWN_LIMIT = 1.0
DIRECTION = (0.5, -0.5, 0.5, 0.25, -0.25, 0.25, 0.25)
"""Unequal powers of two of norm 1: scaled by one, they stay exact in every dtype."""


@dataclass(frozen=True, slots=True)
class ReplayCase:
    """What settings that are not literals are taken to be. Both programs get the same."""

    dtype: str = "float16"
    """The dtype of regions of which it is not known."""
    enabled: bool = True
    """Whether regions are enabled of which it is not known."""
    flags: tuple[tuple[str, bool], ...] = ()
    """By its text, each ``enabled`` of a scaler that is not known."""


@dataclass(frozen=True, slots=True)
class ReplayProblem:
    """What is trained."""

    loss: Losses
    dtype: torch.dtype = torch.float32
    """Of the parameters."""
    start: tuple[float, ...] = (0.0,) * len(DIRECTION)
    learning_rate: float = 1.0
    joint: Callable[[Sequence[Tensor], float], Tensor] | None = None
    """Instead of the sum of ``loss`` over the optimizers: one that couples their parameters."""
    is_cast: bool = False
    """Whether autocast makes a difference to its losses."""


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """What came of a program."""

    weights: tuple[Tensor, ...] = ()
    """After each repetition, in float64: those of all optimizers in a row."""
    raised: str = ""
    """The error that ended it."""
    at: int = 0
    """Which event raised it."""
    round: int = 0
    """The repetition that raised it, from 1."""
    norms: tuple[float, ...] = ()
    """The norms of the gradients, wherever the program reads them."""


def linear(parameter: Tensor, which: int, size: float) -> Tensor:
    """A loss whose gradient has norm ``size``, in float32 whatever the region is."""
    return (parameter.to(_wide(parameter)) * direction(which, parameter)).sum() * size


def direction(which: int, like: Tensor) -> Tensor:
    """The gradient of the loss of that number at size 1."""
    count = len(DIRECTION)
    row = [DIRECTION[(i + which) % count] * (-1) ** (which * i) for i in range(count)]
    return torch.tensor(row, dtype=_wide(like), device=like.device)


def _wide(like: Tensor) -> torch.dtype:
    return torch.float64 if like.dtype is torch.float64 else torch.float32


def region(
    autocast: Autocast | None, case: ReplayCase, device: str
) -> contextlib.AbstractContextManager[object]:
    """A context with the arguments of the user's one, on another device."""
    if autocast is None:
        return contextlib.nullcontext()
    return torch.autocast(
        torch.device(device).type,
        dtype=region_dtype(autocast, case),
        enabled=is_enabled(autocast, case),
        cache_enabled=autocast.cache_enabled,
    )


def region_dtype(autocast: Autocast, case: ReplayCase) -> torch.dtype:
    """The dtype that a region casts to."""
    name = case.dtype if autocast.dtype is None else autocast.dtype
    if not name:
        name = DEFAULT_DTYPES.get(autocast.device or "", "float16")
    found: torch.dtype = getattr(torch, name)
    return found


def is_enabled(autocast: Autocast | None, case: ReplayCase) -> bool:
    """Whether a region is on."""
    if autocast is None:
        return False
    return case.enabled if autocast.enabled is None else autocast.enabled


def scaler_arguments(construct: Construct | None) -> dict[str, Any]:
    """The arguments of a scaler's constructor but the device; an `Unknown` where not literal.

    Raises:
        TypeError: the constructor does not take them.
    """
    construct = construct or Construct("")
    row = BY_NAME.get(construct.name, GRAD_SCALER)
    made = torch.cuda.amp.GradScaler if row.device else torch.amp.GradScaler
    given = bound(made, construct.args, construct.keywords)
    return {name: found for name, found in given.items() if name != row.keyword(Part.DEVICE)}


def make_scaler(construct: Construct | None, case: ReplayCase, device: str) -> torch.amp.GradScaler:
    """The user's scaler, that grows at every update: as it would after long enough."""
    given, default = scaler_arguments(construct), scaler_arguments(None)
    flags = dict(case.flags)
    for name, found in given.items():
        if isinstance(found, Unknown):
            is_switch = name == GRAD_SCALER.keyword(Part.ENABLED)
            given[name] = flags.get(found.text, True) if is_switch else default[name]
    scaler = torch.amp.GradScaler(torch.device(device).type, **given)
    if scaler.is_enabled():
        scaler.set_growth_interval(1)
    return scaler


@dataclass
class Rig:
    """A program with its objects, ready to run.

    With ``erased`` the same without scaler and autocast, in float64: what it has to compute.
    """

    program: Program
    problem: ReplayProblem
    case: ReplayCase
    device: str
    keys: tuple[str, ...]
    """The optimizers."""
    losses: tuple[str, ...]
    erased: bool = False
    parameters: dict[str, Tensor] = field(init=False)
    optimizers: dict[str, torch.optim.Optimizer] = field(init=False)
    scalers: dict[str, torch.amp.GradScaler] = field(init=False, default_factory=dict)
    norm: Tensor | None = field(init=False, default=None)
    """What ``get_total_norm`` returned last."""
    norms: list[float] = field(init=False, default_factory=list)
    """What was read of gradients so far."""
    size: float = field(init=False, default=1.0)
    _entry: str = field(init=False, default="")
    _outermost: contextlib.ExitStack = field(init=False, default_factory=contextlib.ExitStack)

    def __post_init__(self) -> None:
        self.parameters = {key: self._parameter(key) for key in self.keys}
        lr = self.problem.learning_rate
        self.optimizers = {
            key: torch.optim.SGD([parameter], lr=lr) for key, parameter in self.parameters.items()
        }

    def _parameter(self, key: str) -> Tensor:
        dtype = torch.float64 if self.erased else parameter_dtype(self.program, key)
        if dtype is torch.float32:
            dtype = self.problem.dtype
        return torch.tensor(self.problem.start, dtype=dtype, device=self.device, requires_grad=True)

    # --- running ------------------------------------------------------------------------------

    def run(self, trace: Trace, sizes: Sequence[float]) -> ReplayOutcome:
        """The trace once for each size of the gradient, on the same objects."""
        weights: list[Tensor] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for count, self.size in enumerate(sizes, 1):
                failed = self._once(trace)
                if failed is not None:
                    return ReplayOutcome(tuple(weights), *failed, count, tuple(self.norms))
                weights.append(self._weights())
        self._leave()
        return ReplayOutcome(tuple(weights), norms=tuple(self.norms))

    def _weights(self) -> Tensor:
        flat = [p.detach().double().flatten() for p in self.parameters.values()]
        return torch.cat(flat).cpu()

    def _once(self, trace: Trace) -> tuple[str, int] | None:
        errors = ((self._failure(event), number) for number, event in enumerate(trace))
        failed = next((each for each in errors if each[0]), None)
        if failed is not None or not any(map(_lasts, trace)):
            self._leave()
        return failed

    def _failure(self, event: Event) -> str:
        try:
            self._apply(event)
        except Exception as error:  # whatever torch raises is the finding
            first, *_ = str(error).splitlines() or [""]
            return f"{type(error).__name__}: {first}"
        return ""

    def _apply(self, event: Event) -> None:
        if event.scaler_is_none and not self.erased:
            name = SCALE.word if event.kind is Kind.BACKWARD else event.kind.value
            raise AttributeError(f"'NoneType' object has no attribute '{name}'")
        act: Callable[[Event], None] = getattr(self, f"_{event.kind.name.lower()}")
        act(event)

    @contextlib.contextmanager
    def _inside(self, autocast: Autocast | None) -> Iterator[None]:
        """A region; regions that were entered as one share a cache of weights until it is left."""
        if self.erased:
            autocast = None
        entry = autocast.entry if autocast is not None else ""
        if entry != self._entry:
            self._leave()
        if entry and not self._entry:
            kind = torch.device(self.device).type
            self._outermost.enter_context(torch.autocast(kind, enabled=False))
            self._entry = entry
        with region(autocast, self.case, self.device):
            yield

    def _leave(self) -> None:
        self._outermost.close()
        self._entry = ""

    # --- events -------------------------------------------------------------------------------

    def _backward(self, event: Event) -> None:
        which = self.losses.index(event.loss or "loss")
        with self._inside(event.forward):
            loss = self._loss(which)
        with self._inside(event.active):
            scaler = self._scaler(event.scaler)
            (loss if scaler is None else scaler.scale(loss)).backward()  # type: ignore[no-untyped-call]

    def _loss(self, which: int) -> Tensor:
        parameters = list(self.parameters.values())
        if self.program.inputs and not self.erased:
            self._feed(parameters)
        if self.problem.joint is not None:
            return self.problem.joint(parameters, self.size)
        return torch.stack([self.problem.loss(p, which, self.size) for p in parameters]).sum()

    def _feed(self, parameters: Sequence[Tensor]) -> None:
        """Give inputs to a layer with these weights: raises where torch does, for their dtypes."""
        dtype: torch.dtype = getattr(torch, self.program.inputs)
        for weight in parameters:
            given = torch.zeros(1, weight.numel(), dtype=dtype, device=self.device)
            torch.nn.functional.linear(given, weight.detach().reshape(1, -1))

    def _scaler(self, key: str | None) -> torch.amp.GradScaler | None:
        if key is None or self.erased:
            return None
        if key not in self.scalers:
            construct = dict(self.program.scalers).get(key)
            self.scalers[key] = make_scaler(construct, self.case, self.device)
        return self.scalers[key]

    def _scale(self, event: Event) -> float:
        """What the scaler of an event, or the only one, multiplies losses by."""
        if self.erased:
            return 1.0
        keys = [event.scaler] if event.scaler else [key for key, _ in self.program.scalers]
        scaler = self._scaler(keys[0] if keys else next(iter(self.scalers), None))
        return 1.0 if scaler is None else scaler.get_scale()

    def _optimizer(self, event: Event) -> torch.optim.Optimizer:
        return self.optimizers[event.optimizer or self.keys[0]]

    def _unscale(self, event: Event) -> None:
        scaler = self._scaler(event.scaler)
        if scaler is not None:
            scaler.unscale_(self._optimizer(event))

    def _step(self, event: Event) -> None:
        scaler, optimizer = self._scaler(event.scaler), self._optimizer(event)
        with self._inside(event.active):
            if scaler is None:
                optimizer.step()
            else:
                scaler.step(optimizer)

    def _update(self, event: Event) -> None:
        scaler = self._scaler(event.scaler)
        if scaler is not None:
            # a number that is given is not known; it is set without a look at what was recorded
            scaler.update(scaler.get_scale() if event.optimizer is not None else None)

    def _construct(self, event: Event) -> None:
        self.scalers.pop(event.scaler or "", None)

    def _zero_grad(self, event: Event) -> None:
        for parameter in self._of(event):
            parameter.grad = None

    def _of(self, event: Event) -> list[Tensor]:
        """The parameters that an event is about: those of its optimizer, else all."""
        if event.optimizer in self.parameters:
            return [self.parameters[event.optimizer]]
        return list(self.parameters.values())

    def _gradient_read(self, event: Event) -> None:
        self.norms.append(float(_norm(self._of(event))))

    def _gradient_repair(self, event: Event) -> None:
        for gradient in _gradients(self._of(event)):
            gradient.nan_to_num_()

    def _gradient_write(self, event: Event) -> None:
        scale = self._scale(event)
        named: Mapping[object, float] = {BY_SCALE: scale, BY_INVERSE: 1 / scale}
        factor = named.get(event.factor, event.factor)
        if isinstance(factor, (int, float)):
            for parameter in self._of(event):
                if parameter.grad is not None:
                    parameter.grad.mul_(factor)

    def _clip(self, event: Event) -> None:
        clip, parameters = event.clip, self._of(event)
        assert clip is not None
        limit = UNKNOWN_LIMIT if clip.limit is None else clip.limit
        limit *= self._scale(event) if clip.times_scale else 1.0
        options: dict[str, Any] = {
            training.CLIP_NORM.keyword(Part.NORM_TYPE): clip.norm_type,
            training.CLIP_NORM.keyword(Part.STRICT): clip.error_if_nonfinite,
        }
        match clip.function:
            case training.CLIP_VALUE.word:
                utils.clip_grad_value_(parameters, limit)
            case training.TOTAL_NORM.word:
                self.norm = utils.get_total_norm(_gradients(parameters), **options)
            case training.CLIP_WITH_NORM.word:
                norm = self.norm if self.norm is not None else _norm(parameters)
                utils.clip_grads_with_norm_(parameters, limit, norm)
            case _ if math.isinf(limit):
                self.norms.append(float(utils.clip_grad_norm_(parameters, limit, **options)))
            case _:
                utils.clip_grad_norm_(parameters, limit, **options)


def is_read(event: Event) -> bool:
    """Whether an event measures gradients, as a clip without limit does."""
    unlimited = event.clip is not None and event.clip.limit == math.inf
    return unlimited or event.kind is Kind.GRADIENT_READ


def _lasts(event: Event) -> bool:
    """Whether the region of an event is left only when all is done."""
    return any(region is not None and region.lasting for region in (event.forward, event.active))


def _gradients(parameters: list[Tensor]) -> list[Tensor]:
    return [p.grad for p in parameters if p.grad is not None]


def _norm(parameters: list[Tensor]) -> Tensor:
    """As ``get_total_norm`` computes it, which a torch before 2.6 does not have."""
    norms = [torch.linalg.vector_norm(gradient) for gradient in _gradients(parameters)]
    norm: Tensor = torch.linalg.vector_norm(torch.stack(norms))
    return norm


def parameter_dtype(program: Program, key: str) -> torch.dtype:
    """The dtype of an optimizer's parameters, after the casts of the program."""
    if program.half and (key in program.half or "*" in program.half):
        found: torch.dtype = getattr(torch, program.half_dtype)
        return found
    return torch.float32


def is_finite(weights: Tensor) -> bool:
    """Whether every weight is."""
    return bool(torch.isfinite(weights).all()) and not math.isnan(float(weights.sum()))
