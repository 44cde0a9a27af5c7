"""How the scale goes up and down: kept on the device, and read many steps at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from amp_lint.mistake import At, Mistake
from amp_lint.runtime.findings import Findings
from amp_lint.runtime.frames import Place
from amp_lint.runtime.protocol import Protocol, ScalerLog

AT_A_TIME = 50
"""Updates that are read together: waiting for the device is what watching must not do."""
_SETTLED = 25
"""Updates without a fall, after which a scale that is below 1 has found its place."""
_MOST = 1000
"""Scalers of which something is kept."""
_MOST_CHANGES = 10_000
"""Changes of a scale that are kept."""


@dataclass(frozen=True, slots=True)
class _Unchecked:
    """A step of an optimizer on gradients that a scaler has unscaled, and does not step."""

    found: torch.Tensor
    """Whether it has found inf."""
    places: dict[At, Place]
    step: int


@dataclass(slots=True)
class _Low:
    """A scale that has fallen below 1, where a scale makes gradients smaller."""

    step: int
    updates: int = 0
    """Since then."""
    still: int = 0
    """Of those, the last ones that have not made it smaller."""
    told: bool = False

    @property
    def falls(self) -> bool:
        """Whether it falls on; a loss that is too large for float16 has a scale that holds it."""
        return 2 * self.still < min(self.updates, 2 * _SETTLED)


@dataclass(slots=True)
class _Kept:
    """What was not read yet of one scaler, which may be gone."""

    log: ScalerLog
    first: float
    """The scale that it began with."""
    scales: list[torch.Tensor] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    """Of the run, in which each of them was left."""
    skips: list[torch.Tensor] = field(default_factory=list)
    unchecked: list[_Unchecked] = field(default_factory=list)
    updates: int = 0
    last: float = 0.0
    low: _Low | None = None
    """Since the scale is below 1, if it is."""


class Scales:
    """Watches the factor of each scaler."""

    def __init__(self, findings: Findings, protocol: Protocol) -> None:
        self.findings = findings
        self._protocol = protocol
        self._drawn: ScalerLog | None = None
        self._kept: dict[str, _Kept] = {}

    def skipped(self, scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer) -> None:
        """Keep whether a step was skipped that the optimizer itself decides about."""
        found = [*scaler._found_inf_per_device(optimizer).values()]
        if found:
            self._of(scaler).skips.append(found[0])

    def unchecked(
        self,
        scaler: torch.amp.GradScaler,
        optimizer: torch.optim.Optimizer,
        places: dict[At, Place],
    ) -> None:
        """Keep whether there was inf in gradients that an optimizer steps on by itself."""
        kept = self._of(scaler)
        for found in [*scaler._found_inf_per_device(optimizer).values()][:1]:
            kept.unchecked.append(_Unchecked(found, places, self.findings.step))
        if len(kept.unchecked) >= AT_A_TIME:
            self._read(kept)

    def updated(self, scaler: torch.amp.GradScaler) -> None:
        """Keep the scale after an update."""
        scale = scaler._scale
        if scale is not None:
            kept = self._of(scaler)
            kept.scales.append(scale.clone())
            kept.steps.append(self.findings.record.summary.steps)
            if len(kept.scales) >= AT_A_TIME:
                self._read(kept)
                self.findings.save()

    def finish(self) -> None:
        """Read what is left."""
        for kept in self._kept.values():
            self._read(kept, is_last=True)
        self._kept.clear()

    def _of(self, scaler: torch.amp.GradScaler) -> _Kept:
        log = self._protocol.log(scaler)
        found = self._kept.get(log.key)
        if found is None:
            if len(self._kept) >= _MOST:
                self.finish()
            found = self._kept[log.key] = _Kept(log, float(scaler._init_scale))
        return found

    def _read(self, kept: _Kept, *, is_last: bool = False) -> None:
        log, summary = kept.log, self.findings.record.summary
        scales, skips = _values(kept.scales), sum(value > 0 for value in _values(kept.skips))
        self._judge(kept.unchecked)
        log.skips += skips
        summary.skips += skips
        if scales:
            summary.first_scale = summary.first_scale or kept.first
            summary.last_scale = scales[-1]
            self._follow(kept, scales)
            self._add_changes(kept, scales)
            self._judge_fall(kept, is_last=is_last)
        for each in (kept.scales, kept.steps, kept.skips, kept.unchecked):
            each.clear()

    def _follow(self, kept: _Kept, scales: list[float]) -> None:
        """Take note of how a scale moves that is below 1."""
        before = kept.last or kept.first
        for scale, step in zip(scales, kept.steps, strict=True):
            if scale >= 1 or kept.first < 1:
                kept.low = None
            elif kept.low is None:
                kept.low = _Low(step)
            else:
                kept.low.updates += 1
                kept.low.still = 0 if scale < before else kept.low.still + 1
            before = scale

    def _judge_fall(self, kept: _Kept, *, is_last: bool) -> None:
        """See whether a scale is lost, once there was time to find its place or the run is over."""
        low = kept.low
        if low is None or low.told or not (is_last or low.updates >= AT_A_TIME):
            return
        if low.falls:
            low.told = True
            self._collapsed(kept, low.step)

    def _judge(self, unchecked: list[_Unchecked]) -> None:
        for each, value in zip(unchecked, _values([e.found for e in unchecked]), strict=True):
            if value > 0:
                self.findings.see(Mistake.UNCHECKED_STEP, each.places, dict, each.step)

    def _add_changes(self, kept: _Kept, scales: list[float]) -> None:
        """Of the first scaler in use, for the picture."""
        self._drawn = self._drawn or kept.log
        changes = self.findings.record.scales
        for scale in scales:
            kept.updates += 1
            before, kept.last = kept.last, scale
            if kept.log is self._drawn and scale != before and len(changes) < _MOST_CHANGES:
                changes.append((kept.updates, scale))

    def _collapsed(self, kept: _Kept, step: int) -> None:
        log, first, least = kept.log, kept.first, kept.last
        places = {At.EVENT: log.step} if log.step is not None else {}
        if log.made is not None:
            places[At.MADE] = log.made
        self.findings.see(
            Mistake.SCALE_COLLAPSE,
            places,
            lambda: {"first": first, "least": least, "skips": log.skips, "steps": log.steps},
            step,
        )


def _values(kept: list[torch.Tensor]) -> list[float]:
    """What tensors of one element hold, in one transfer."""
    if not kept:
        return []
    found: list[float] = torch.stack([each.reshape(()) for each in kept]).tolist()
    return found
