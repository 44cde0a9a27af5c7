"""The autocast regions of each thread: which are open, in which order, and what happens in them."""

from __future__ import annotations

import inspect
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import Any, NamedTuple

import torch

from amp_lint.mistake import At, Mistake
from amp_lint.runtime import marks
from amp_lint.runtime.findings import Findings
from amp_lint.runtime.frames import Place, here, is_of_project
from amp_lint.runtime.patches import CALLER, Function, Patches
from amp_lint.runtime.record import Numbers
from amp_lint.vocabulary.amp import AUTOCAST
from amp_lint.vocabulary.meaning import Part

_HALVES = (torch.float16, torch.bfloat16)
_ENABLED = AUTOCAST.keyword(Part.ENABLED)
_NONE: frozenset[str] = frozenset()
_SURE = 2
"""Rounds in which a region was thrown away, after which nobody only looked what there is."""


class _Step(NamedTuple):
    """A step of an optimizer, after which casts of its old weights are kept."""

    place: Place
    moment: int
    """See `marks.now`."""


@dataclass(slots=True, eq=False)
class Open:
    """A region that is open."""

    region: torch.autocast
    place: Place
    steps: dict[str, _Step] = field(default_factory=dict)
    """Key of an optimizer -> its last step since casts are kept: in the outermost region."""
    generator: int | None = None
    """The frame that has entered it, by its id, if that is of a generator which a loop asks."""


class _Stack(threading.local):
    def __init__(self) -> None:
        self.open: list[Open] = []
        self.left: Open | None = None
        """The outermost region that was left last, if there was a step in it."""

    @property
    def keeping(self) -> Open | None:
        """The region whose casts the last forward has used: open, or left after a step in it."""
        return self.open[0] if self.open else self.left


class _Made(NamedTuple):
    """A region that nobody has used yet."""

    place: Place
    ref: weakref.ref[torch.autocast]
    backwards: int
    """How many there had been when it was made."""


class _Body(NamedTuple):
    """A region around a function whose body runs later."""

    ref: weakref.ref[torch.autocast]
    place: Place
    what: str
    """What the function gives."""


@dataclass(slots=True)
class _Thrown:
    """Regions of one place that nobody entered."""

    rounds: set[int] = field(default_factory=set)


class Regions:
    """Watches autocast."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self._stack = _Stack()
        self.dtypes: dict[torch.dtype, Place] = {}
        """In which dtypes forwards ran that may go backward, and where the first of each began."""
        self.half: Place | None = None
        """The last float16 region since any optimizer stepped."""
        self.backwards = 0
        self.forwards: list[Callable[[], object]] = []
        """Who is told where a forward begins that may go backward."""
        self._events = 0
        self._made: dict[int, _Made] = {}
        """By their ids, the regions that are there and that nobody has used."""
        self._kept: dict[Place, int] = {}
        """Those that were there for some backward passes, and for how many."""
        self._used: Counter[Place] = Counter()
        self._bodies: dict[int, _Body] = {}
        """By the ids of regions, those around functions whose body runs later."""
        self._thrown: dict[Place, _Thrown] = {}

    def install(self, patches: Patches) -> None:
        """Replace what makes, enters and leaves a region."""
        owner = torch.autocast
        patches.method(owner, "__init__", self._init)
        patches.method(owner, "__enter__", self._enter)
        patches.method(owner, "__exit__", self._exit)
        patches.method(owner, "__call__", self._call)
        patches.function(torch, "clear_autocast_cache", self._clear)

    @property
    def innermost(self) -> Open | None:
        """The region of this thread that was entered last."""
        return self._stack.open[-1] if self._stack.open else None

    # --- what is watched ----------------------------------------------------------------------

    def _init(self, old: Function) -> Function:
        position = AUTOCAST.order.index(_ENABLED)

        def __init__(region: torch.autocast, *args: Any, **keywords: Any) -> None:  # noqa: ANN401
            old(region, *args, **keywords)
            place = here(CALLER)
            self._note(region, place)
            given = args[position] if len(args) > position else keywords.get(_ENABLED)
            if isinstance(given, torch.dtype):
                self.findings.misplaced(place, given, _ENABLED, AUTOCAST.word)

        return __init__

    def _enter(self, old: Function) -> Function:
        def __enter__(region: torch.autocast) -> object:
            place = here(CALLER)
            self._use(region)
            stack = self._stack.open
            outer = next((each for each in stack if each.region is region), None) if stack else None
            if outer is not None:
                places = {At.EVENT: place, At.REGION: outer.place}
                self.findings.see(Mistake.REENTERED_REGION, places, dict)
            given = old(region)
            self._stack.left = None
            stack.append(Open(region, place, generator=_generator(sys._getframe(2))))
            self._entered(region, place)
            return given

        return __enter__

    def _entered(self, region: torch.autocast, place: Place) -> None:
        self._events += 1
        self.findings.reach(place, on=region._enabled)
        body = self._bodies.get(id(region))
        if body is not None and region._enabled:
            places = {At.EVENT: body.place}
            self.findings.see(Mistake.BODY_OUTSIDE, places, lambda: {"what": body.what})
        if region._enabled and torch.is_grad_enabled():
            self.dtypes.setdefault(region.fast_dtype, place)
            for told in self.forwards:
                told()
            if region.fast_dtype is torch.float16:
                self.half = place

    def _exit(self, old: Function) -> Function:
        def __exit__(region: torch.autocast, *error: Any) -> object:  # noqa: ANN401
            stack = self._stack.open
            last = bool(stack) and stack[-1].region is region  # most often
            index = len(stack) - 1 if last else _last_of(region, stack)
            if index is not None:
                left = stack.pop(index)
                self._stack.left = left if left.steps and not stack else None
                if not last and stack[-1].region is not region:
                    places = {
                        At.EVENT: left.place,
                        At.REGION: stack[-1].place,
                        At.STEP: here(CALLER),
                    }
                    self.findings.see(Mistake.REGION_LEFT_LATE, places, dict)
            return old(region, *error)

        return __exit__

    def _call(self, old: Function) -> Function:
        def __call__(region: torch.autocast, function: Any) -> object:  # noqa: ANN401
            self._use(region)
            what = _later(function)
            if what is not None:
                key = id(region)
                ref = weakref.ref(region, lambda _: self._bodies.pop(key, None))
                self._bodies[key] = _Body(ref, here(CALLER), what)
            return old(region, function)

        return __call__

    def _clear(self, old: Function) -> Function:
        def clear() -> None:
            for each in self._stack.open:
                each.steps.clear()
            old()

        return clear

    # --- regions that nobody enters -------------------------------------------------------------

    def _note(self, region: torch.autocast, place: Place) -> None:
        """Remember where a region was made, until it is entered or gone."""
        if not (place.file and region._enabled):
            return
        key = id(region)
        gone = partial(self._gone, key, self._events)
        self._made[key] = _Made(place, weakref.ref(region, gone), self.backwards)

    def _gone(self, key: int, events: int, _: weakref.ref[torch.autocast]) -> None:
        """A region is gone that nobody has used; ``events``: how many there were before it."""
        made = self._made.pop(key)
        place = made.place
        self._note_kept(made)
        if events == self._events and not self._used[place]:
            thrown = self._thrown.setdefault(place, _Thrown())
            thrown.rounds.add(self.backwards)
            if len(thrown.rounds) >= _SURE:
                self.findings.see(Mistake.UNENTERED_REGION, {At.EVENT: place}, dict)

    def _use(self, region: torch.autocast) -> None:
        self._events += 1
        made = self._made.pop(id(region), None)
        if made is not None:
            self._used[made.place] += 1

    def finish(self) -> None:
        """The run is over: a region that was kept, where none was ever entered, was meant to be.

        Where others were, it may be one of what this run did not come to.
        """
        for made in self._made.values():
            self._note_kept(made)
        for place, rounds in () if self._used else self._kept.items():
            numbers: Numbers = {"rounds": rounds}
            self.findings.see(Mistake.UNUSED_REGION, {At.EVENT: place}, partial(dict, numbers))

    def _note_kept(self, made: _Made) -> None:
        """Remember a region that nobody has entered, if it was there while much was trained."""
        rounds = self.backwards - made.backwards
        if rounds >= _SURE:
            self._kept[made.place] = rounds

    # --- what happens in regions ----------------------------------------------------------------

    def backward(self, place: Place, device: str) -> None:
        """A backward begins: autocast had better be off."""
        self.backwards += 1
        self._events += 1
        if torch.is_autocast_enabled(device):
            inner = self.innermost
            places = {At.EVENT: place} | ({At.REGION: inner.place} if inner else {})
            name = str(torch.get_autocast_dtype(device)).rpartition(".")[2]
            self.findings.see(Mistake.BACKWARD_IN_REGION, places, lambda: {"dtype": name})
            self._leaks(place)

    def _leaks(self, place: Place) -> None:
        """See whether a generator that waits has left a region open."""
        for each in self._stack.open:
            if each.generator is not None and each.region._enabled and not _runs(each.generator):
                places = {At.EVENT: each.place, At.STEP: place}
                self.findings.see(Mistake.REGION_LEAKS, places, dict)

    def spoiled(self, losses: Iterable[torch.Tensor]) -> frozenset[str]:
        """The optimizers of whose weights, as they were before a step, these losses use casts.

        Also when the region is over: what was computed in it goes backward with them.
        """
        region = self._stack.keeping
        if region is None or not region.steps:
            return _NONE
        steps = region.steps.items()
        old = (key for key, step in steps if marks.ran_in(losses, _HALVES, step.moment))
        return frozenset(old)

    def fed(self, key: str, place: Place) -> None:
        """A backward through old casts has written gradients of an optimizer."""
        region = self._stack.keeping
        if region is not None and key in region.steps:
            places = {
                At.EVENT: region.steps[key].place,
                At.REGION: region.place,
                At.CAUSE: place,
            }
            self.findings.see(Mistake.STEP_IN_REGION, places, dict)

    def stepped(self, key: str) -> None:
        """An optimizer has changed its parameters."""
        self.half = None
        self._events += 1
        stack = self._stack.open
        on = bool(stack) and any(each.region._enabled for each in stack)
        if on and torch.is_autocast_cache_enabled():
            stack[0].steps[key] = _Step(here(), marks.now())


def _last_of(region: torch.autocast, stack: list[Open]) -> int | None:
    """Where a region was entered last."""
    return max((i for i, each in enumerate(stack) if each.region is region), default=None)


def _later(function: object) -> str | None:
    """What a function gives whose body runs when that is asked; None if it runs at once."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        return "a generator"
    return "a coroutine" if inspect.iscoroutinefunction(function) else None


def _generator(frame: FrameType) -> int | None:
    """The id of the frame of a generator that code of the project asks for its next item."""
    asking = frame.f_back
    if not frame.f_code.co_flags & inspect.CO_GENERATOR or asking is None:
        return None
    return id(frame) if is_of_project(asking.f_code) else None


def _runs(frame: int) -> bool:
    """Whether the frame of this id is running, or waits for what it has called."""
    each: FrameType | None = sys._getframe(1)
    while each is not None and id(each) != frame:
        each = each.f_back
    return each is not None
