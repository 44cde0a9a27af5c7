"""Does a run that is stopped and continued go on as one that was not?"""

from __future__ import annotations

from collections.abc import Callable

import torch

from amp_lint.verify.obligations import State
from amp_lint.verify.proof import Failure, Judgement, ProofSettings, Verdict
from amp_lint.vocabulary.amp import GET_SCALE, LOAD_STATE_DICT, STATE_DICT
from amp_lint.vocabulary.meaning import Kind, Role
from amp_lint.vocabulary.table import methods, rows

RESUMED = "resumed"
_STOP, _STEPS = 6, 16
_OVERFLOWS = (1, 2, 9)
"""The steps at which gradients overflow, before the stop and behind it."""
_INTERVAL = 4
"""Steps without an overflow after which the scale grows: the stop is in between."""
_ASKED = {*STATE_DICT.words, *GET_SCALE.words}
_HANDED = LOAD_STATE_DICT.words | methods(Role.SCALER, rows(Kind.UPDATE))

Scaler = torch.amp.GradScaler


def judge(obligation: State, settings: ProofSettings) -> Judgement:
    """Whether the scales after loading are those of the run that goes on."""
    save, load = obligation.save, obligation.load
    if save not in _ASKED or load not in _HANDED:
        return Judgement(Verdict.NOT_COMPARABLE, f"what `{save}` and `{load}` do is not known")

    def restored(old: Scaler, new: Scaler) -> None:
        getattr(new, load)(getattr(old, save)())

    wanted = _scales(lambda old, new: None, fresh=False)
    lost = _different(wanted, _scales(lambda old, new: None, fresh=True))
    try:
        made = _different(wanted, _scales(restored, fresh=True))
    except (TypeError, ValueError, RuntimeError, AssertionError, AttributeError) as error:
        made = Failure("raises", f"{type(error).__name__}: {error}")
    if made is not None and RESUMED not in settings.disabled:
        return Judgement(Verdict.REFUTED, made.text, lost, made)
    text = f"the {_STEPS - _STOP} steps after loading have the scales of a run that goes on"
    return Judgement(Verdict.PROVEN, text, lost)


def _scales(restore: Callable[[Scaler, Scaler], None], *, fresh: bool) -> list[float]:
    """The scale after each step of a run that is stopped once; not if it is not ``fresh``."""
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = _scaler()
    found = []
    for step in range(_STEPS):
        if step == _STOP and fresh:
            new = _scaler()
            new.scale(torch.zeros(()))  # a scaler has no scale before it is used
            restore(scaler, new)
            scaler = new
        optimizer.zero_grad()
        factor = float("inf") if step in _OVERFLOWS else 1.0
        scaler.scale((weight * factor).sum()).backward()  # type: ignore[no-untyped-call]
        scaler.step(optimizer)
        scaler.update()
        found.append(scaler.get_scale())
    return found


def _scaler() -> Scaler:
    return Scaler("cpu", init_scale=1024.0, growth_interval=_INTERVAL)


def _different(wanted: list[float], found: list[float]) -> Failure | None:
    for step, (right, made) in enumerate(zip(wanted, found, strict=True)):
        if right != made:
            text = f"the scale is {made:g} instead of {right:g}, {step - _STOP + 1} steps after"
            return Failure(RESUMED, f"{text} loading")
    return None
