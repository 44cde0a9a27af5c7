"""Obligations in words, for reports and records."""

from __future__ import annotations

from amp_lint.verify.obligations import (
    Autocast,
    Cast,
    Event,
    Expression,
    Import,
    Object,
    Obligation,
    Policy,
    Program,
    State,
    Step,
    Unbound,
    Use,
)
from amp_lint.verify.terms import show
from amp_lint.vocabulary.meaning import Kind

COST: dict[type[Obligation], int] = {
    Unbound: 0, State: 1, Object: 1, Policy: 2, Step: 3, Expression: 4, Import: 5,
    Cast: 6,
}  # fmt: skip
"""The order of work: what is quickly judged comes first, and last what says least."""


def subject(obligation: Obligation) -> str:
    """What kind of thing the obligation is about."""
    return "name" if isinstance(obligation, Unbound) else type(obligation).__name__.lower()


def texts(obligation: Obligation) -> tuple[str, str]:
    """The old and the new code, as they were lifted."""
    match obligation:
        case Expression():
            return show(obligation.before), show(obligation.after)
        case Object():
            return _use(obligation.before), _use(obligation.after)
        case Step():
            return _program(obligation.before), _program(obligation.after)
        case Policy():
            term = show(obligation.term)
            return _within(term, obligation.before), _within(term, obligation.after)
        case Unbound():
            return "", obligation.name
        case Import(module=module, name=name):
            return "", f"from {module} import {name}" if name else f"import {module}"
        case Cast():
            return obligation.before, obligation.after
        case State():
            return "", f"{obligation.load}({obligation.save}())"


def _use(use: Use) -> str:
    given = [show(arg) for arg in use.args]
    given += [f"{name}={show(value)}" for name, value in use.keywords]
    given += ["..."] * use.starred
    if use.kind == "partial":
        return f"partial({', '.join((use.name, *given))})"
    return f"{use.name}({', '.join(given)})" if use.kind == "call" else use.name


def _program(program: Program) -> str:
    """Every different path once, in order."""
    return " | ".join(dict.fromkeys("; ".join(map(_event, trace)) for trace in program.traces))


def _event(event: Event) -> str:
    what = event.clip.function if event.clip else event.kind.value
    by = f"{event.scaler}." if event.scaler and event.kind is not Kind.CLIP else ""
    of = event.optimizer if event.kind in (Kind.UNSCALE, Kind.STEP, Kind.ZERO_GRAD) else ""
    inside = " in autocast" if event.active and event.active.enabled is not False else ""
    return f"{by}{what}({of or ''}){inside}"


def _within(term: str, region: Autocast | None) -> str:
    if region is None:
        return f"{term} without autocast"
    values = (region.device, region.dtype, region.enabled)
    given = ", ".join("?" if value is None else str(value) for value in values if value != "")
    return f"{term} in autocast({given})"
