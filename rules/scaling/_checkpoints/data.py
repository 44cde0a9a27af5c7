"""What the finder of incomplete checkpoints speaks of."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from amp_lint.vocabulary.meaning import Role

Unit = cst.FunctionDef | cst.ClassDef | cst.Module


@dataclass(frozen=True, slots=True)
class Load:
    """Where the state of the optimizer is restored."""

    statement: cst.BaseStatement
    """The statement that does it, alone on its lines."""
    loaded: cst.BaseExpression
    """The checkpoint."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What is saved, without the state of the scaler."""

    node: cst.BaseExpression
    """The dict or the call that holds the optimizer's state, or that state where it is added."""
    optimizer: cst.BaseExpression
    steps: cst.Call
    """The constructor of the scaler, or a step of the optimizer by one that is made elsewhere."""
    scaler: str | None
    """How to write the scaler where the checkpoint is made, if that is certain."""
    load: Load | None
    """Where to restore the scaler too, if there is one place and it can be written there."""
    optional: str | None = None
    """What to write instead where one test decides whether there is a scaler."""
    key: str | None = None
    """The key, as it is written, under which a load looks for the scaler's state already."""
    is_given: bool = False
    """Whether a library's checkpointer is given the optimizer, and saves what it is given."""
    is_sure: bool = True
    """Whether an optimizer's state is loaded anywhere that is seen, and no other scaler's saved."""
    is_stepped: bool = True
    """Whether a scaler is seen to step this very optimizer."""


@dataclass(frozen=True, slots=True)
class OfFramework:
    """A framework that scales."""

    role: Role
    scaler: cst.BaseExpression
    """Its object."""
    named: bool
    """Whether the precision in which it scales is named, and not a launcher's or a caller's."""


@dataclass(frozen=True, slots=True)
class OwnScaler:
    """A scaler that a file makes, what it is assigned to, and in what that stands."""

    call: cst.Call
    target: cst.BaseExpression
    unit: Unit


@dataclass(frozen=True, slots=True)
class ScaledStep:
    """``scaler.step(optimizer)``."""

    call: cst.Call
    scaler: cst.BaseExpression
    optimizer: cst.BaseExpression
