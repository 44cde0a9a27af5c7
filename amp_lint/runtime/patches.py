"""Replaces functions of torch while a run is watched, also where they were imported before."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any, NamedTuple

import torch

from amp_lint.runtime.frames import Place

Function = Callable[..., Any]
Wrap = Callable[[Function], Function]
"""Makes what replaces a function of the function itself."""

CALLER = 3
"""The frame that has called a watched function, seen from what calls `here` in its place."""


class Patches:
    """What is replaced, and how it was."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Function, Function]] = []
        self._spaces: list[tuple[dict[str, Any], str, Function, Function]] = []
        self._functions: dict[int, tuple[Function, Function]] = {}
        self.inside = Inside({})
        self.timed: Timed | None = None
        """What measures the calls, while somebody wants to know."""
        self.active = True
        """Until `undo`: what somebody else has kept of it does nothing any more."""

    def method(self, owner: type, name: str, wrap: Wrap) -> None:
        """Replace what a class itself defines; where it inherits, its base is replaced."""
        old = owner.__dict__.get(name)
        if callable(old):
            self._put(owner, name, old, self._made(old, wrap))

    def methods(self, owner: type, name: str, wrap: Wrap) -> None:
        """The same for a class and for all its subclasses."""
        for each in dict.fromkeys(subclasses(owner)):
            self.method(each, name, wrap)

    def function(self, module: Any, name: str, wrap: Wrap) -> None:  # noqa: ANN401
        """Replace a function in its module; see `rebind`."""
        old = getattr(module, name, None)
        if callable(old):
            new = self._made(old, wrap)
            self._put(module, name, old, new)
            self._functions[id(old)] = old, new

    def rebind(self) -> None:
        """Replace functions also in the modules that have imported them by name."""
        for module in [*sys.modules.values()]:
            space = getattr(module, "__dict__", None)
            if not isinstance(space, dict):
                continue
            known = [
                (key, id(value)) for key, value in space.items() if id(value) in self._functions
            ]
            for key, function in known:
                old, new = self._functions[function]
                space[key] = new
                self._spaces.append((space, key, old, new))

    def undo(self) -> None:
        """Put everything back; what somebody else has replaced since does nothing any more."""
        self.active = False
        for owner, name, old, new in reversed(self._undo):
            if owner.__dict__.get(name) is new:
                setattr(owner, name, old)
        for space, name, old, new in self._spaces:
            if space.get(name) is new:
                space[name] = old
        self._undo.clear()
        self._spaces.clear()

    def _put(self, owner: Any, name: str, old: Function, new: Function) -> None:  # noqa: ANN401
        setattr(owner, name, new)
        self._undo.append((owner, name, old, new))

    def _made(self, old: Function, wrap: Wrap) -> Function:
        """What watches the calls that the user makes, and not those that torch makes in them."""
        inner, inside = wrap(old), self.inside

        @functools.wraps(old)
        def watched(*args: Any, **keywords: Any) -> Any:  # noqa: ANN401
            if inside.depth or not self.active:
                return old(*args, **keywords)
            if self.timed is not None:
                return self.timed.call(inside, inner, args, keywords)
            return inner(*args, **keywords)

        return watched


class Backward(NamedTuple):
    """A backward pass that somebody waits for."""

    place: Place
    scaler: torch.amp.GradScaler | None
    """What has scaled its loss."""
    depth: int
    """Watched calls that it is in."""


class Inside(threading.local):
    """Whether this thread is in a call of torch that is watched as one.

    A thread of autograd's engine, where on CUDA all hooks run, is where that is which waits for it.
    """

    own = 0
    """The calls that this thread itself is in."""
    since: float | None = None
    """When it began, while it is measured how long such calls take."""
    seconds = 0.0
    """How long those took that were measured."""

    def __init__(self, running: dict[int, Backward]) -> None:
        """Of one thread; ``running`` is that of all: the backward passes, by who waits for them."""
        self._running = running

    def __enter__(self) -> None:
        self.own += 1
        if self.since is not None and self.own == 1:
            self.since = perf_counter()

    def __exit__(self, *_: object) -> None:
        self.own -= 1
        if self.since is not None and not self.own:
            self.seconds += perf_counter() - self.since

    @property
    def depth(self) -> int:
        """How many watched calls are under way."""
        if self.own or not self._running:
            return self.own
        backward = self.backward
        return 0 if backward is None else backward.depth

    @property
    def backward(self) -> Backward | None:
        """The backward pass that is under way."""
        own = self._running.get(threading.get_ident())
        if own is not None or not is_running() or len(self._running) != 1:
            return own
        return next(iter(self._running.values()), None)

    @contextlib.contextmanager
    def running(self, place: Place, scaler: torch.amp.GradScaler | None) -> Iterator[None]:
        """In a watched call that is a backward pass."""
        thread = threading.get_ident()
        with self:
            outer = self._running.get(thread)
            self._running[thread] = Backward(place, scaler, self.own)
            try:
                yield
            finally:
                if outer is None:
                    del self._running[thread]
                else:
                    self._running[thread] = outer


def is_running() -> bool:
    """Whether this thread runs a backward pass, which may recompute a part of the forward."""
    task = getattr(torch._C, "_current_graph_task_id", None)
    return task is not None and task() >= 0


class Timed:
    """What watching itself takes of the calls that are watched, in seconds."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def call(
        self, inside: Inside, inner: Function, args: Sequence[Any], keywords: Mapping[str, Any]
    ) -> Any:  # noqa: ANN401
        """Call what watches, and measure it without the call of torch in it."""
        before, began = self.seconds, perf_counter()
        torchs, outer, inside.since = inside.seconds, inside.since, began
        try:
            return inner(*args, **keywords)
        finally:  # one in the other counts once
            self.seconds = before + perf_counter() - began - (inside.seconds - torchs)
            inside.since = outer


def subclasses(owner: type) -> Iterator[type]:
    """A class and all that derive from it."""
    yield owner
    derived: list[type] = type.__subclasses__(owner)
    for each in derived:
        yield from subclasses(each)
