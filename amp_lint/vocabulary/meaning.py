"""What a row of the vocabulary says: how a call is written, what it does and with what."""

from __future__ import annotations

import enum
from dataclasses import dataclass

EVERY = "*"
"""The key that stands for all optimizers there are."""


class Kind(enum.Enum):
    """What happens in a training step."""

    __hash__ = object.__hash__  # the one of enums is written in Python, and kinds are asked often

    BACKWARD = "backward"
    UNSCALE = "unscale_"
    CLIP = "clip"
    GRADIENT_READ = "gradient read"
    """The size of gradients is asked for, where they are scaled."""
    GRADIENT_REPAIR = "gradient repair"
    """Numbers are put where gradients are inf or NaN: where they are scaled, an overflow is hid."""
    GRADIENT_WRITE = "gradient write"
    STEP = "step"
    UPDATE = "update"
    ZERO_GRAD = "zero_grad"
    SCHEDULE = "scheduler step"
    LEAVE = "leave"
    """A round or the function is left early, between a scaled backward and its step.

    By the statement that does it; or a test has it that there is no step.
    """
    CONSTRUCT = "construct"
    """A scaler is made again, within a path."""
    RESET = "stages reset"
    """What a scaler notes of each optimizer is set anew by hand: each may be stepped again."""
    OPAQUE = "opaque"
    """A call into code that is not in this file and gets the scaler: anything may happen."""


class Role(enum.Enum):
    """What an object is, or what a call gives."""

    ACCELERATOR = "object of accelerate"
    APEX = "what apex patched"
    FABRIC = "object of Lightning Fabric"
    ENGINE = "engine of DeepSpeed"
    LIGHTNING = "module of Lightning"
    GRADIENT = "gradient"
    LOSS = "loss"
    OPTIMIZER = "optimizer"
    PREPARED = "what a framework gives back for what it was given"
    REGION = "autocast region"
    ROUND = "one round of several that accumulate gradients for a step"
    SCALE = "factor of a scaler"
    SCALED_LOSS = "scaled loss"
    SCALER = "GradScaler"
    SCHEDULER = "learning-rate scheduler"
    STEPPER = "scaler that takes a whole step when it is called"
    TRAINER = "Trainer of transformers"
    TRAINER_OPTIONS = "TrainingArguments of transformers"
    TRAINER_OF_LIGHTNING = "Trainer of Lightning"


class Part(enum.Enum):
    """What an argument is for."""

    ACCUMULATION = enum.auto()
    """What says how batches are accumulated, besides their number."""
    CACHE = enum.auto()
    DEVICE = enum.auto()
    DTYPE = enum.auto()
    ENABLED = enum.auto()
    GRAPH = enum.auto()
    """Whether gradients can be taken of what comes out."""
    INCOMING = enum.auto()
    """The gradient that comes in."""
    INITIAL_SCALE = enum.auto()
    LIMIT = enum.auto()
    LOSS = enum.auto()
    NORM_TYPE = enum.auto()
    MODEL = enum.auto()
    OPTIMIZER = enum.auto()
    OTHER_PRECISION = enum.auto()
    """What excludes `PRECISION`."""
    PRECISION = enum.auto()
    """What a framework trains in, in its own words."""
    ROUNDS = enum.auto()
    """How many batches are accumulated for a step."""
    STRICT = enum.auto()
    """Whether an error is raised where gradients are not finite."""


@dataclass(frozen=True, eq=False)
class Parameter:
    """One parameter of a call."""

    name: str
    part: Part | None = None
    by_keyword: bool = False
    """Whether it cannot be given by position."""


@dataclass(frozen=True, eq=False)
class Meaning:
    """One row: what a function, or a method of objects of one role, does.

    A signature that differs between versions of torch, or between devices, has a row for each.
    """

    names: tuple[str, ...] = ()
    """Qualified names of one function or class."""
    owner: Role | None = None
    methods: tuple[str, ...] = ()
    """Or methods of an object of that role, which all do the same."""
    called: str = ""
    """What the object is called, where nothing else tells its role."""
    unique: bool = False
    """Whether no other object has a method of that name."""
    parameters: tuple[Parameter, ...] = ()
    """In order; the last of a method may be left out, where nobody asks for them."""
    does: tuple[Kind, ...] = ()
    """In order. Nothing, where it only gives something."""
    gives: Role | None = None
    every: bool = False
    """Whether it is done for every optimizer there is."""
    device: str = ""
    """The type of the device that it is for, where its name says that."""
    since: tuple[int, int] | None = None
    """The torch that brought it, where older ones matter."""

    @property
    def kind(self) -> Kind | None:
        """What it does first to the gradients, or else what it reads of them."""
        writes = (kind for kind in self.does if kind is not Kind.GRADIENT_READ)
        return next(writes, self.does[0] if self.does else None)

    @property
    def word(self) -> str:
        """What it is called, by the first of its names."""
        return self.names[0].rpartition(".")[2] if self.names else self.methods[0]

    @property
    def words(self) -> frozenset[str]:
        """The identifiers by which it is called."""
        return frozenset({*(name.rpartition(".")[2] for name in self.names), *self.methods})

    @property
    def order(self) -> tuple[str, ...]:
        """The names of its parameters, those first that can be given by position."""
        return tuple(parameter.name for parameter in self.parameters)

    def place(self, part: Part) -> tuple[int | None, str | None]:
        """Position and keyword of the argument that is for ``part``; None for what it has not."""
        for position, parameter in enumerate(self.parameters):
            if parameter.part is part:
                return None if parameter.by_keyword else position, parameter.name
        return None, None

    def keyword(self, part: Part) -> str:
        """The name of the parameter for ``part``; "" if it has none."""
        return self.place(part)[1] or ""
