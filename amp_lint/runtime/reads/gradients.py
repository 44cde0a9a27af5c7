"""What the user does with scaled gradients: seen only while there are any, and at no other time."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from amp_lint.runtime.frames import here
from amp_lint.runtime.patches import Function, Patches
from amp_lint.runtime.reads import modes
from amp_lint.vocabulary.meaning import Kind, Role
from amp_lint.vocabulary.table import methods, rows
from amp_lint.vocabulary.training import MEASURES, SAME_NUMBERS

if TYPE_CHECKING:
    from amp_lint.runtime.protocol import Protocol

_GRAD = torch.Tensor.grad
_DATA = torch.Tensor.data
_SAME = SAME_NUMBERS | {"__getitem__", "cat", "concat", "stack"}
_PRODUCTS = frozenset({"mul", "__mul__", "__rmul__", "dot", "vdot"})
"""The same numbers, if both factors are gradients."""
_MEASURES = MEASURES | {"__pow__", "linalg_norm", "linalg_vector_norm", "_foreach_norm"}
_LIMITS = methods(Role.GRADIENT, rows(Kind.GRADIENT_READ))
_DEEP = 8
"""How many tensors of a list stand for all."""


class GradientReads:
    """Watches gradients from a scaled backward on until something divides them."""

    def __init__(self, protocol: Protocol, patches: Patches) -> None:
        self._protocol = protocol
        self._local = _Local()
        self._patches = patches
        self.ends: list[Callable[[], object]] = []
        """Who else looks no longer once something is compiled."""
        self.possible = modes.can_be_watched()
        """Also whether nothing is compiled: compiled code asks which modes there are."""

    def install(self) -> None:
        """Replace what ends the watching of reads."""
        self._patches.function(torch, "compile", self._compile)

    def begin(self) -> None:
        """Look at what is done with gradients from here on, if some are scaled."""
        if self._local.mode is None and self.possible and self._protocol.are_scaled():
            if modes.is_compiled():
                self.possible = False
                return
            mode = self._local.mode = self._local.spare or _Mode(self._protocol, self._patches)
            modes.insert(mode)

    def end(self) -> bool:
        """Look no longer: gradients are about to change, or another forward begins.

        True if somebody has looked until now.
        """
        mode = self._local.mode
        if mode is None or not modes.remove(mode):
            return False
        self._local.mode, self._local.spare = None, mode
        mode.forget()
        return True

    def _compile(self, old: Function) -> Function:
        def compile_(*args: Any, **keywords: Any) -> Any:  # noqa: ANN401
            self.possible = False
            self.end()
            for end in self.ends:
                end()
            return old(*args, **keywords)

        return compile_


class _Mode(modes.Listening):
    """Sees what is done with the gradients that were asked for while it is on."""

    def __init__(self, protocol: Protocol, patches: Patches) -> None:
        super().__init__(patches)
        self._protocol = protocol
        self._known: dict[int, tuple[weakref.ref[torch.Tensor], int]] = {}
        """Tensors that hold the numbers of a gradient, and of which parameter."""

    def forget(self) -> None:
        """Nobody has the gradients of before any more."""
        if self._known:
            self._known.clear()

    def called(self, func: Any, name: str, args: tuple[Any, ...], given: object) -> None:  # noqa: ANN401
        """Gradients were asked for, or a scale, or something was done with them."""
        if name == "__get__" and func.__self__ is _GRAD:
            self._know(given, id(args[0]))
            return
        for scale, scaler in self._protocol.scales():
            if any(each is scale for each in args):
                self._protocol.asked(scaler)
        if self._known:
            self._happens(func, name, args, given)

    def _happens(self, func: Any, name: str, args: tuple[Any, ...], given: object) -> None:  # noqa: ANN401
        param = self._param(args[0])
        if param is None:
            return
        if name in _LIMITS:
            self._protocol.after_clip(self._protocol.read({param}, here(2), name))
        elif _writes(name):
            self._protocol.written({param}, here(2), partial(_factor, name, args))
        elif name in _MEASURES:
            self._protocol.read({param}, here(2), name)
        elif self._is_same(func, name, args):
            self._know(given, param)

    def _is_same(self, func: Any, name: str, args: tuple[Any, ...]) -> bool:  # noqa: ANN401
        """Whether a function of gradients gives their numbers, or products of them."""
        if name == "__get__":
            return func.__self__ is _DATA
        factors = name in _PRODUCTS and len(args) > 1
        return name in _SAME or (factors and self._param(args[1]) is not None)

    def _know(self, given: object, param: int) -> None:
        if isinstance(given, torch.Tensor):
            self._known[id(given)] = weakref.ref(given), param

    def _param(self, given: object) -> int | None:
        """The parameter whose gradient these are the numbers of, or one of those."""
        for tensor in _tensors(given):
            known = self._known.get(id(tensor))
            if known is not None and known[0]() is tensor:
                return known[1]
        return None


class _Local(threading.local):
    mode: _Mode | None = None
    spare: _Mode | None = None
    """One that is not on, for the next time."""


def _tensors(given: object) -> Iterator[torch.Tensor]:
    if isinstance(given, torch.Tensor):
        yield given
    elif isinstance(given, (list, tuple)):
        yield from (each for each in given[:_DEEP] if isinstance(each, torch.Tensor))


def _writes(name: str) -> bool:
    """Whether a function changes its argument: ``mul_``, ``/=``, ``x.data = y``."""
    if name.startswith("__"):
        changes = name.startswith("__i") and name not in ("__index__", "__int__", "__invert__")
        return changes or name in ("__set__", "__setitem__")
    return name.endswith("_")


def _factor(name: str, args: tuple[Any, ...]) -> float | None:
    """By what a function multiplies gradients; None if it does something else."""
    by = args[1] if len(args) > 1 else None
    if isinstance(by, torch.Tensor) and by.numel() == 1:
        by = by.item()
    if not isinstance(by, (int, float)) or not by:
        return None
    kind = name.strip("_").removeprefix("foreach_").removeprefix("i")
    return float(by) if kind == "mul" else 1 / by if kind in ("div", "truediv") else None
