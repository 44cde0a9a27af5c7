"""What has to be shown of a change. Closed data: lifted from two texts, judged by experiments.

Nothing here refers to a file, a syntax tree or torch, so that an obligation can be handed to a
worker process and stored in a record.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from amp_lint.verify.terms import Term
from amp_lint.vocabulary.meaning import Kind


@dataclass(frozen=True, slots=True)
class Place:
    """Where it stands: lines of both texts, and the text of the old one."""

    before: int
    after: int
    function: str = ""


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression became another one. It must compute the same function, without the failures."""

    place: Place
    before: Term
    after: Term
    contexts: tuple[tuple[Term, Term], ...] = ()
    """The expressions around both, from the inside out: what they make of the difference."""
    given_to: str = ""
    """The call that it is an argument of, if nothing is known of that call and other code, which
    became another one too, uses its result: what it makes of the difference cannot be told."""
    absent: tuple[str, ...] = ()
    """The inputs that are None where nobody gives them."""


@dataclass(frozen=True, slots=True)
class Use:
    """How code uses something of torch's AMP interface."""

    kind: str
    """A `amp_lint.syntax.references.Role`; of tests, ``exact type`` for all but ``isinstance``."""
    name: str
    """Qualified, through imports: ``torch.cuda.amp.autocast``."""
    args: tuple[Term, ...] = ()
    """Those that are given by place; of a test, the classes that it is for."""
    keywords: tuple[tuple[str, Term], ...] = ()
    starred: bool = False
    """Whether there are ``*args`` or ``**kwargs``, so that arguments are unknown."""


@dataclass(frozen=True, slots=True)
class Object:
    """A use of the interface became another one. Both must give equal objects."""

    place: Place
    before: Use
    after: Use
    nested: bool = False
    """Whether it runs inside another autocast region, whose dtype it may take over."""
    made: tuple[tuple[Use, Use], ...] = ()
    """For a test of a type: how instances are made that it may be asked about, before and after."""


@dataclass(frozen=True, slots=True)
class Autocast:
    """An autocast region, as far as literals tell."""

    device: str | None = "cuda"
    """None if not a literal."""
    dtype: str | None = None
    """``float16``, ``bfloat16``, ``float32``; "" for the default of the device, None if unknown."""
    enabled: bool | None = True
    """None if not a literal."""
    cache_enabled: bool | None = None
    entry: str = ""
    """Names the entering of the outermost region around it, where that is known: equal names are
    entered once, and share one cache of cast weights."""
    lasting: bool = False
    """Whether that region stays open when the trace is repeated: it is around the loop."""


@dataclass(frozen=True, slots=True)
class Clip:
    """A call that limits or measures gradients."""

    function: str
    """``clip_grad_norm_``, ``clip_grad_value_``, ``clip_grads_with_norm_``, ``get_total_norm``."""
    limit: float | None
    """The literal limit; None if it is not one."""
    times_scale: bool = False
    """Whether the limit is multiplied by ``scaler.get_scale()``."""
    norm_type: float = 2.0
    error_if_nonfinite: bool = False
    of: str = ""
    """The object whose parameters it is about, where that can be named."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a training step, with the literal arguments of the user's code.

    Objects are named by keys: equal keys are the same object.
    """

    kind: Kind
    line: int
    source: str
    """The user's text of the call."""
    scaler: str | None = None
    """backward: what scaled the loss; step: what steps, None if the optimizer does it itself."""
    optimizer: str | None = None
    loss: str | None = None
    """backward: what the loss is, in the user's words."""
    forward: Autocast | None = None
    """backward: the region in which the loss was computed."""
    active: Autocast | None = None
    """The region that is active at the event itself."""
    clip: Clip | None = None
    factor: str | float | None = None
    """gradient write: gradients are multiplied by this: a number, ``scale`` or ``1/scale``."""
    scaler_is_none: bool = False
    """Whether the path knows that the scaler is None, so that the call raises."""
    scaler_is_on: bool | None = None
    """Whether the scaler was made to be on, where the path knows."""
    idle: str | None = None
    """backward: the scaler that was given the loss, where the path knows that it is off."""


Trace = tuple[Event, ...]
"""The events of one feasible path, in order, over all rounds of its loops."""


@dataclass(frozen=True, slots=True)
class Construct:
    """How an object was made, as far as literals tell; arguments that are not known are Inputs."""

    name: str
    """Qualified: ``torch.optim.Adam``, ``torch.amp.GradScaler``; "" if not known."""
    args: tuple[Term, ...] = ()
    keywords: tuple[tuple[str, Term], ...] = ()


@dataclass(frozen=True, slots=True)
class Program:
    """The training steps of one function."""

    traces: tuple[Trace, ...]
    scalers: tuple[tuple[str, Construct], ...] = ()
    optimizers: tuple[tuple[str, Construct], ...] = ()
    half: tuple[str, ...] = ()
    """Keys of the optimizers whose parameters were cast; ("*",) for all of them."""
    half_dtype: str = "float16"
    inputs: str = ""
    """The dtype that what modules are given is cast to, in the user's code; "" if it is not."""


@dataclass(frozen=True, slots=True)
class Step:
    """A training step became another one. Erasing AMP, both must train in the same way."""

    place: Place
    before: Program
    after: Program
    splits: bool = False
    """Whether the new program has a path more, and still all that the old one had."""
    cut: bool = False
    """Whether there are more paths than are held against each other."""
    left: bool = False
    """Whether some of what differs is not among them, or may not be."""
    kept: tuple[Trace, ...] = ()
    """Paths that both have and that clip, or read, at a place where one that differs does."""


@dataclass(frozen=True, slots=True)
class Policy:
    """An expression runs in another autocast state than before. Its result's dtype must stay."""

    place: Place
    term: Term
    """The operation; a call of unknown code is an APPLY of an Input."""
    before: Autocast | None
    after: Autocast | None
    moved: bool = False
    """Whether it left a region that is still there, or came into one that was there before."""
    own: bool = False
    """Whether it is a call of a function of the file, of which more could be known."""


@dataclass(frozen=True, slots=True)
class Unbound:
    """A name that the new code uses and nothing binds any more, or not yet."""

    place: Place
    name: str
    early: bool = False
    """Whether later lines bind it."""


@dataclass(frozen=True, slots=True)
class Import:
    """A member of torch or of Python itself that only the new code imports. It must be there."""

    place: Place
    module: str
    name: str = ""
    """What is imported from it; "" for the module itself."""


@dataclass(frozen=True, slots=True)
class State:
    """What of a scaler is saved and loaded. A run that is continued must go on as it was."""

    place: Place
    save: str
    """The method that gives what is saved: ``state_dict``, ``get_scale``."""
    load: str
    """The method that gets it."""


@dataclass(frozen=True, slots=True)
class Cast:
    """A value has another dtype than before, and nothing else about it differs."""

    place: Place
    before: str
    """In words: ```x` as it is``."""
    after: str


Obligation = Expression | Object | Step | Policy | Unbound | Import | State | Cast


@dataclass(frozen=True, slots=True)
class Covered:
    """A place at which two texts differ without AMP, and what answers for it."""

    place: Place
    before: str
    """The old code; "" where the new text has more."""
    after: str
    owner: str
    """``expression``, ``training step``, ``helper``, ``import``, ``cast``; "" if nothing does."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that has to be shown of a change, and why some of it cannot be compared."""

    obligations: tuple[Obligation, ...]
    reasons: tuple[str, ...] = field(default=())
    """One line for each difference that was not lifted."""
    codes: tuple[str, ...] = field(default=())
    """For each reason a word that stays the same."""
    coverage: tuple[Covered, ...] = field(default=())
    """Every place at which the texts differ without AMP."""
