"""Judges uses of torch's AMP interface: the new one must give what the old one gave.

Both are made with torch itself, from the literal arguments of the user's code, for every value
that an argument may have that is not a literal. On a machine without CUDA the classes disable
themselves; so their test for CUDA is told that there is one. No operation runs on it: what is
compared are the settings of the objects, and of torch while a region is entered.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import math
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
import torch.cuda.amp.common
from torch._subclasses.fake_tensor import FakeTensorMode

from amp_lint.verify.experiments.literals import Unknown, value
from amp_lint.verify.experiments.names import DTYPES
from amp_lint.verify.obligations import Object, Use
from amp_lint.verify.proof import Changed, Failure, Judgement, ProofSettings, Verdict
from amp_lint.verify.terms import Const, Form, Global, Input, Op, Term, show
from amp_lint.vocabulary.amp import (
    AUTOCAST,
    CUDA_CUSTOM_BWD,
    CUDA_CUSTOM_FWD,
    CUDA_GRAD_SCALER,
    CUSTOM_BWD,
    CUSTOM_FWD,
    DEPRECATED,
    DEPRECATED_STATE,
    GRAD_SCALER,
    IS_ON,
    SCALE,
)
from amp_lint.vocabulary.meaning import Meaning, Part, Role
from amp_lint.vocabulary.table import BY_NAME
from amp_lint.vocabulary.written import any_of

RAISES, WARNS, EQUAL, INSTANCE = "raises", "warns", "attributes", "isinstance"
MAX_CASES = 32
_CALLED = ("call", "partial")
_NEVER_ASKED = ("annotation", "alias")
"""Uses of a class that say nothing about the objects that it makes."""
_HANDED_ON = ("value", "base")
_TESTS = ("type", "exact type")
_ALLOWED = re.compile(
    r"torch\.((cuda\.|cpu\.)?amp\.(autocast_mode\.|grad_scaler\.)?)?"
    rf"({any_of(row.word for row in DEPRECATED.values())})"
    r"|torch\.(get|set|is)_autocast_\w+"
)
_REPLACED = (FutureWarning, DeprecationWarning)
_HOMES = re.compile(r"\.(autocast_mode|grad_scaler)(?=\.)")
_BACKWARD = (CUSTOM_BWD, CUDA_CUSTOM_BWD)
_DECORATORS = (CUSTOM_FWD, CUDA_CUSTOM_FWD, *_BACKWARD)
_NUMBERS = CUDA_GRAD_SCALER.order[:-1]
_CACHE = AUTOCAST.keyword(Part.CACHE)
_SWITCHES = {GRAD_SCALER.keyword(Part.ENABLED), _CACHE}
_SHOWN_AS = (SCALE.word, "fast_dtype")
_STATE = {*IS_ON, *DEPRECATED_STATE, *(new for new, _ in DEPRECATED_STATE.values())}
"""What asks for the state of autocast, or sets it."""
_ALL = ("cuda", "cpu")
_CAST_INPUTS = CUSTOM_FWD.order[-1]
_DEVICES = {row.keyword(Part.DEVICE) for row in DEPRECATED.values()}
_SETTINGS = {AUTOCAST.keyword(Part.DTYPE), *_NUMBERS, *_SWITCHES, *_DEVICES, _CAST_INPUTS}
"""Arguments that somebody may want to be others."""
_CANDIDATES: dict[str | None, tuple[object, ...]] = {
    AUTOCAST.keyword(Part.DTYPE): (torch.float16, torch.bfloat16),
    _CAST_INPUTS: (torch.float32, torch.float16),
    **dict(zip(_NUMBERS, ((1024.0, 8.0), (2.0, 4.0), (0.5, 0.25), (2000, 1)), strict=True)),
    **dict.fromkeys(_DEVICES, ("cuda", "cpu")),
}
"""Values of an argument that is not a literal, by its parameter; others are True and False."""
_BY_KIND: dict[str, tuple[object, ...]] = {
    "bool": (True, False),
    "device": (torch.device("cuda"), torch.device("cpu")),
}

_WHAT_FORWARD = "what forward"

Values = Mapping[str, object]


@dataclass(frozen=True)
class Seen:
    """What a use gave."""

    attributes: Mapping[str, object] = field(default_factory=dict)
    raised: str = ""
    warned: tuple[str, ...] = ()
    deprecated: str = ""
    """The first warning that it will go away."""


def judge(obligation: Object, settings: ProofSettings) -> Judgement:
    """Whether the new use gives an equal object, without a warning, for all unknown arguments."""
    before, after = obligation.before, obligation.after
    if (before.starred or after.starred) and _given(before) != _given(after):
        return Judgement(Verdict.NOT_COMPARABLE, "arguments are not known (* or **)")
    if (before.kind == "partial") is not (after.kind == "partial"):
        return Judgement(Verdict.NOT_COMPARABLE, "one is the object, the other what makes it")
    if after.kind not in (*_CALLED, before.kind):
        return Judgement(Verdict.NOT_COMPARABLE, "it is used for something else")
    for name in (before.name, after.name):
        if not _ALLOWED.fullmatch(name) and not _is_missing(name):
            return Judgement(Verdict.NOT_COMPARABLE, f"{name} is not an interface of torch.amp")
    is_other = any(was.name != now.name for was, now in obligation.made)
    if after.kind in _HANDED_ON and (is_other or _is_other(before, after)):
        return Judgement(Verdict.NOT_COMPARABLE, "who calls it, and how, is not known")
    with _as_if_cuda(), torch.random.fork_rng(devices=()):
        found = [*_compared(obligation)]
    failures = [(old, new) for old, new in found if _kept(old, settings) or _kept(new, settings)]
    before_fails = next((old for old, _ in failures if _kept(old, settings)), None)
    after_fails = next((new for _, new in failures if _kept(new, settings)), None)
    if after_fails is not None:
        return Judgement(
            Verdict.REFUTED,
            after_fails.text,
            before_fails,
            after_fails,
            changes=_setting(obligation, found),
        )
    if after.kind == "partial" and _next(before) != _next(after):
        return Judgement(Verdict.NOT_COMPARABLE, "what it gets later goes to another parameter")
    what = "no numeric effect: an equal object" if before_fails is None else "an equal object"
    return Judgement(Verdict.PROVEN, f"{what}, for all values of its arguments", before_fails)


def _next(use: Use) -> str:
    """The parameter that the next argument by position would go to."""
    return next(iter(_parameters(use.name)[len(use.args) :]), "")


def _setting(obligation: Object, found: Sequence[Failures]) -> Changed | None:
    """What is another setting, if nothing else is: the device, the dtype, a switch, numbers.

    A class that is deprecated, in the place of one that is not, is one too.
    """
    uses = obligation.before, obligation.after
    before, after = map(_settings_of, uses)
    others = [name for name in {**after, **before} if after.get(name) != before.get(name)]
    failures = [new for _, new in found if new is not None]
    shown = {*others, *_SHOWN_AS, *(["device"] if _DEVICES.intersection(others) else [])}
    renamed = uses[0].name != uses[1].name
    if _CAST_INPUTS in others:
        shown |= {_told(each) for each in failures if each.text.startswith(_WHAT_FORWARD)}
    may_warn = renamed or "device" in shown
    if not _SETTINGS.issuperset(others) or not all(
        may_warn if each.check == WARNS else each.check == EQUAL and _told(each) in shown
        for each in failures
    ):
        return None
    if others:
        return Changed(_given_as(before, others), _given_as(after, others))
    return Changed(*(use.name for use in uses)) if renamed else None


def _told(failure: Failure) -> str:
    """The attribute that a difference is one of."""
    return failure.text.partition(" is ")[0]


def _settings_of(use: Use) -> dict[str, Term]:
    """The arguments of a use by their parameters, with the device of a class that is for one."""
    row = _row(use.name)
    found: dict[str, Term] = {}
    if row is not None and row.gives is not None:
        parameter = (AUTOCAST if row.gives is Role.REGION else GRAD_SCALER).keyword(Part.DEVICE)
        if row.device or row.gives is Role.SCALER:
            found[parameter] = Const(row.device or "cuda")
    return found | dict(_by_name(use))


def _given_as(made: Mapping[str, Term], names: Sequence[str]) -> str:
    given = [f"{name}={show(made[name])}" for name in names if name in made]
    return ", ".join(given) or f"without {', '.join(names)}"


def _by_name(use: Use) -> Iterator[tuple[str, Term]]:
    """The arguments of a use by their parameters."""
    yield from zip(_parameters(use.name), use.args, strict=False)
    yield from use.keywords


def _kept(failure: Failure | None, settings: ProofSettings) -> bool:
    return failure is not None and failure.check not in settings.disabled


def _given(use: Use) -> tuple[object, ...]:
    return use.name, use.args, use.keywords


@contextlib.contextmanager
def _as_if_cuda() -> Iterator[None]:
    """Let classes for CUDA be made where there is none."""
    present = mock.patch.object(
        torch.cuda.amp.common, "amp_definitely_not_available", lambda: False
    )
    bfloat16 = mock.patch.object(torch.cuda, "is_bf16_supported", lambda *_, **__: True)
    with present, bfloat16:
        yield


# --- both sides ---------------------------------------------------------------------------------

Failures = tuple[Failure | None, Failure | None]


def _compared(obligation: Object) -> Iterator[Failures]:
    before, after = obligation.before, obligation.after
    if after.kind not in (*_CALLED, "decorator"):
        yield None, _other_class(obligation)
        return
    meant = _meant(before) if after.kind in _CALLED else before
    for values in _cases(after, before):
        for ambient in _ambients(obligation):
            old, wanted, new = (_seen(use, values, ambient) for use in (before, meant, after))
            given = _shown(values, ambient)
            kept = before.name == after.name  # then it is as deprecated as it was
            fails = _failure_of(old, new if kept else None, given) or _difference_of(old, wanted)
            yield fails, _worse(wanted, new, kept, given)


def _meant(use: Use) -> Use:
    """What somebody meant who did not call the class, or gave arguments to other parameters.

    A bool is meant for ``enabled``, a dtype for ``dtype``, a number for the initial scale, a text
    for the device, which the old classes do not take.
    """
    row = _row(use.name)
    if row is None or row.gives is None or use.starred:
        return use
    if use.kind not in _CALLED:
        return Use("call", use.name, () if row.device else (Const("cuda"),))
    given = dict(use.keywords)
    for name, term in zip(_parameters(use.name), use.args, strict=False):
        part = _part(term)
        meant = DEPRECATED.get(row, row).keyword(part) if part is not None else None
        given[name if meant is None or _fits(meant, name) else meant] = term
    given = {name: _device_type(term) for name, term in given.items()}
    if row.device:
        given = {name: term for name, term in given.items() if name not in _DEVICES}
    elif row.gives is Role.REGION:
        device = next((given.pop(name) for name in sorted(given) if name in _DEVICES), None)
        given[row.order[0]] = device or Const("cuda")
    return Use(use.kind, use.name, (), tuple(sorted(given.items(), key=lambda item: item[0])))


def _device_type(term: Term) -> Term:
    """The type of a device object, which is what autocast takes."""
    if isinstance(term, Op) and term.form is Form.OTHER and term.name == "device":
        return Input(f"{show(term.args[0])}.type")
    return term


def _row(name: str) -> Meaning | None:
    """What the vocabulary says of a use, whatever its spelling."""
    return BY_NAME.get(_HOMES.sub("", name))


def _part(term: Term) -> Part | None:
    """What a literal can only be meant for."""
    match term:
        case Const(bool()) | Op(Form.OTHER, "bool"):
            return Part.ENABLED
        case Const(int() | float()):
            return Part.INITIAL_SCALE
        case Const(str()) | Op(Form.OTHER, "device"):
            return Part.DEVICE
        case Global(name) if name in DTYPES:
            return Part.DTYPE
    return None


def _fits(meant: str, parameter: str) -> bool:
    """Whether a literal is right for a parameter, if the other one is what it may be meant for."""
    alike = next((names for names in (_SWITCHES, _NUMBERS) if meant in names), ())
    return parameter == meant or parameter in alike


def _failure_of(old: Seen, new: Seen | None, given: str) -> Failure | None:
    """How the old use fails; a deprecation does not count if the new one has it as well."""
    if old.raised:
        return Failure(RAISES, old.raised, given)
    if old.deprecated and (new is None or new.deprecated != old.deprecated):
        return Failure(WARNS, old.deprecated, given)
    return None


def _difference_of(old: Seen, wanted: Seen) -> Failure | None:
    """How the old use is another one than what was meant."""
    return None if wanted.raised else _difference(wanted, old, "")


def _worse(wanted: Seen, new: Seen, kept: bool, given: str) -> Failure | None:
    """How the new use fails, or is not what was wanted."""
    if new.raised and new.raised != wanted.raised:
        return Failure(RAISES, new.raised, given)
    if wanted.raised:
        return None
    fresh = [text for text in new.warned if text not in wanted.warned]
    if new.deprecated and not kept:
        fresh.insert(0, new.deprecated)
    if fresh:
        return Failure(WARNS, fresh[0], given)
    return _difference(wanted, new, given)


def _difference(old: Seen, new: Seen, given: str) -> Failure | None:
    for name in dict.fromkeys((*old.attributes, *new.attributes)):
        was, now = old.attributes.get(name), new.attributes.get(name)
        if was != now or type(was) is not type(now):
            return Failure(EQUAL, f"{name} is {now!r} instead of {was!r}", given)
    return None


def _shown(values: Values, ambient: _Ambient) -> str:
    shown = [f"{name}={found}" for name, found in values.items()]
    if ambient.dtype is not None:
        where = "" if ambient.devices == _ALL else f" on {' and '.join(ambient.devices)} alone"
        shown.append(f"autocast={str(ambient.dtype).removeprefix('torch.')}{where}")
    return ", ".join(shown)


# --- arguments ----------------------------------------------------------------------------------


def _cases(*uses: Use) -> list[Values]:
    """Every combination of values for the arguments that are not literals, if there are few."""
    candidates: defaultdict[str, dict[object, None]] = defaultdict(dict)
    for use in uses:
        for parameter, term in _named(use):
            found = value(term)
            if isinstance(found, Unknown):
                kind = term.name if isinstance(term, Op) else ""
                known = _CANDIDATES.get(parameter, (True, False))
                candidates[found.text] |= dict.fromkeys(_BY_KIND.get(kind, known))
    if math.prod(map(len, candidates.values())) <= MAX_CASES:
        rows = [*itertools.product(*candidates.values())]
    else:  # each by itself is all that it may be
        usual = tuple(next(iter(values)) for values in candidates.values())
        rows = [
            (*usual[:at], each, *usual[at + 1 :])
            for at, values in enumerate(candidates.values())
            for each in values
        ]
    return [dict(zip(candidates, row, strict=True)) for row in rows]


def _named(use: Use) -> Iterator[tuple[str, Term]]:
    """The arguments of a use with the names of their parameters."""
    names = [*_parameters(use.name), *[""] * len(use.args)]
    yield from zip(names, use.args, strict=False)
    yield from use.keywords


def _parameters(name: str) -> list[str]:
    try:
        return list(inspect.signature(_resolved(name)).parameters)
    except ValueError:  # it is written in C++: what sets the state is named after that
        what = name.rpartition("_")[2]
        return [what] if name in DEPRECATED_STATE else [AUTOCAST.keyword(Part.DEVICE), what]
    except (AttributeError, TypeError):
        return []


def _resolved(name: str) -> Callable[..., Any]:
    """Something of torch by its name.

    Raises:
        AttributeError: there is no such thing.
    """
    found: Any = torch
    for part in name.split(".")[1:]:
        found = getattr(found, part)
    made: Callable[..., Any] = found
    return made


def _is_missing(name: str) -> bool:
    """Whether torch has nothing of that name, so that using it raises."""
    try:
        _resolved(name)
    except AttributeError:
        return name.startswith("torch.")
    return False


def _filled(term: Term, values: Values) -> object:
    found = value(term)
    return values[found.text] if isinstance(found, Unknown) else found


# --- one side -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Ambient:
    """The region around a use."""

    dtype: torch.dtype | None = None
    """None for no region."""
    devices: tuple[str, ...] = _ALL

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for device in self.devices if self.dtype is not None else ():
                region = torch.autocast(device, dtype=self.dtype)
                stack.enter_context(region)
            yield


def _ambients(obligation: Object) -> Iterator[_Ambient]:
    yield _Ambient()
    if obligation.nested:
        yield _Ambient(torch.float16)
        yield _Ambient(torch.bfloat16)
    if not _STATE.isdisjoint({obligation.before.name, obligation.after.name}):
        for device in _ALL:  # which one is asked shows where autocast is on for the other
            yield _Ambient(torch.float16, (device,))


def _seen(use: Use, values: Values, ambient: _Ambient) -> Seen:
    """What a use gives with these arguments."""
    make = _made(use, values)
    with warnings.catch_warnings(record=True) as caught, ambient.entered(), _restored():
        warnings.simplefilter("always")
        attributes: dict[str, object] = {}
        raised = ""
        try:
            attributes = _attributes(use.name, make())
        except Exception as error:  # whatever torch raises is the finding
            first, *_ = str(error).splitlines() or [""]
            raised = f"{type(error).__name__}: {first}"
    texts = [(warning.category, str(warning.message).splitlines()[0]) for warning in caught]
    deprecated = next((text for category, text in texts if category in _REPLACED), "")
    return Seen(attributes, raised, tuple(text for _, text in texts), deprecated)


@contextlib.contextmanager
def _restored() -> Iterator[None]:
    """Undo what setters do."""
    before = _state()
    try:
        yield
    finally:
        for device in _ALL:
            torch.set_autocast_enabled(device, bool(before[f"enabled on {device}"]))
            dtype = before[f"dtype on {device}"]
            assert isinstance(dtype, torch.dtype)
            torch.set_autocast_dtype(device, dtype)
        torch.set_autocast_cache_enabled(bool(before["cache"]))


def _state() -> dict[str, object]:
    """The settings of autocast that are in force."""
    state: dict[str, object] = {"cache": torch.is_autocast_cache_enabled()}
    for device in _ALL:
        state[f"enabled on {device}"] = torch.is_autocast_enabled(device)
        state[f"dtype on {device}"] = torch.get_autocast_dtype(device)
    return state


def _made(use: Use, values: Values) -> Callable[[], object]:
    """What evaluates a use; for a decorator, what it makes of a function."""
    given = [_filled(term, values) for term in use.args]
    named = {name: _filled(term, values) for name, term in use.keywords}

    def make() -> object:
        function = _resolved(use.name)
        decorated = _backward if _row(use.name) in _BACKWARD else _forward
        if use.kind == "decorator":
            return function(decorated)
        if use.kind not in _CALLED:
            return contextlib.ExitStack().enter_context(function)  # type: ignore[arg-type]
        made = functools.partial(function, *given, **named)()
        return made(decorated) if _is_decorator(use.name) else made

    return make


def _is_decorator(name: str) -> bool:
    return _row(name) in _DECORATORS


def _attributes(name: str, made: object) -> dict[str, object]:
    if isinstance(made, torch.autocast):
        return _of_region(made)
    if isinstance(made, torch.amp.GradScaler):
        return _of_scaler(made)
    if _is_decorator(name):
        return dict(_of_backward(made) if _row(name) in _BACKWARD else _of_forward(made))
    return {"the result": made, **_state()}


def _of_region(region: torch.autocast) -> dict[str, object]:
    """The settings of a region, and those in force inside it. One that is off casts nothing."""
    found: dict[str, object] = {"device": region.device, "enabled": bool(region._enabled)}
    with region:
        state = _state()
    if region._enabled:
        found |= {"dtype": region.fast_dtype, _CACHE: region._cache_enabled, **state}
    else:
        found["enabled inside"] = state[f"enabled on {region.device}"]
    return found


def _of_scaler(scaler: torch.amp.GradScaler) -> dict[str, object]:
    found: dict[str, object] = {"device": scaler._device, "enabled": bool(scaler.is_enabled())}
    if scaler.is_enabled():
        scaler.scale(torch.ones(()))
        growth, backoff = scaler.get_growth_factor(), scaler.get_backoff_factor()
        settings = (scaler.get_scale(), growth, backoff, scaler.get_growth_interval())
        found |= zip(_NUMBERS, settings, strict=True)
    return found


# --- decorators of an autograd function ---------------------------------------------------------


def _forward(context: object, given: torch.Tensor) -> tuple[object, dict[str, object]]:
    """Returns what it got: the dtype, and the settings in force."""
    return given.dtype, _state()


def _backward(context: object, gradient: torch.Tensor) -> tuple[object, dict[str, object]]:
    return gradient.dtype, _state()


def _of_forward(decorated: Any) -> Iterator[tuple[str, object]]:  # noqa: ANN401
    """What a decorated forward gets, with and without a region around it, on each device."""
    with FakeTensorMode():
        for device, enabled in itertools.product(("cuda", "cpu"), (True, False)):
            context = SimpleNamespace()
            given = torch.empty(2, device=device, dtype=torch.bfloat16)
            with torch.autocast(device, dtype=torch.float16, enabled=enabled):
                got = decorated(context, given)
            where = f"on {device} {'in' if enabled else 'outside'} a region"
            yield f"{_WHAT_FORWARD} gets {where}", got
            yield f"what it leaves for backward {where}", sorted(vars(context).items())


def _of_backward(decorated: Any) -> Iterator[tuple[str, object]]:  # noqa: ANN401
    """What a decorated backward gets, after a forward pass with and without a region."""
    with FakeTensorMode():
        for device, enabled in itertools.product(("cuda", "cpu"), (True, False)):
            context = SimpleNamespace(_fwd_used_autocast=enabled, _dtype=torch.bfloat16)
            gradient = torch.empty(2, device=device)
            where = f"on {device} after a forward pass {'in' if enabled else 'outside'} a region"
            yield f"what backward gets {where}", decorated(context, gradient)


# --- classes ------------------------------------------------------------------------------------


def _is_other(before: Use, after: Use) -> bool:
    """Whether two names, both of which there are, stand for two things."""
    return not (_is_missing(after.name) or _is_missing(before.name)) and (
        _resolved(before.name) is not _resolved(after.name)
    )


def _other_class(obligation: Object) -> Failure | None:
    """How the new name raises, or does not say of objects what the old one said."""
    before, after = obligation.before, obligation.after
    try:
        old, new = ([_resolved(name) for name in _classes(use)] for use in (before, after))
        made = [(_resolved(was.name), _resolved(now.name)) for was, now in obligation.made]
    except AttributeError as error:
        return Failure(RAISES, f"AttributeError: {error}", after.name)
    if after.kind not in _TESTS:
        return None  # nobody is asked anything
    for was, now in made or zip(old, old, strict=True):
        answers = _answer(before.kind, was, old), _answer(after.kind, now, new)
        if answers[0] is not answers[1]:
            text = f"isinstance(..., {after.name}) is {answers[1]} instead of {answers[0]}"
            return Failure(INSTANCE, text, f"{now.__module__}.{now.__name__}")
    return None


def _classes(use: Use) -> Iterator[str]:
    """What a use names; of a test, all of them."""
    yield use.name
    if use.kind in _TESTS:
        yield from (each.name for each in use.args if isinstance(each, Global))


def _answer(kind: str, made: Callable[..., Any], classes: Sequence[Callable[..., Any]]) -> bool:
    """What a test says of an instance of ``made``."""
    kinds = tuple(each for each in classes if isinstance(each, type))
    return made in kinds if kind != "type" else isinstance(made, type) and issubclass(made, kinds)
