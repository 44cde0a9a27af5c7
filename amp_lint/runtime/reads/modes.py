"""Modes of torch functions: one of ours stands below those of the user, and comes and goes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import overrides
from torch._C import _len_torch_function_stack
from torch.overrides import TorchFunctionMode
from torch.utils._device import DeviceContext

if TYPE_CHECKING:
    from amp_lint.runtime.patches import Patches


class Listening(TorchFunctionMode):
    """Is told of every function of torch that the user's thread calls."""

    def __init__(self, patches: Patches) -> None:
        super().__init__()
        self._patches = patches

    def __torch_function__(
        self,
        func: Any,  # noqa: ANN401
        types: Any,  # noqa: ANN401
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        given: object = func(*args, **(kwargs or {}))
        if args and self._patches.active and not self._patches.inside.depth:
            self.called(func, getattr(func, "__name__", ""), args, given)
        return given

    def called(self, func: Any, name: str, args: tuple[Any, ...], given: object) -> None:  # noqa: ANN401
        """A function was called, and gave something; in subclasses."""
        raise NotImplementedError


def insert(mode: TorchFunctionMode) -> None:
    """Put a mode below all others, but above that of a default device, which has to be last.

    The end of ``with torch.device(...)`` takes off what is on top, whatever that is.
    """
    if not _len_torch_function_stack():  # most often
        _put_back([mode])
        return
    above = _taken()
    if above and isinstance(above[-1], DeviceContext) and above[-1] is _default_device():
        _put_back([above.pop()])
    _put_back([*above, mode])


def _default_device() -> object:
    """The mode that `torch.set_default_device` has made in this thread."""
    return getattr(getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None), "device_context", None)


def remove(mode: TorchFunctionMode) -> bool:
    """Take a mode out from among others; False if torch itself has it off for a moment."""
    taken = _taken()
    if len(taken) == 1 and taken[0] is mode:  # most often
        return True
    others = [each for each in taken if each is not mode]
    _put_back(others)
    return len(others) < len(taken)


def _taken() -> list[Any]:
    """All modes of this thread, the innermost first, taken off."""
    pop: Callable[[], Any] = overrides._pop_mode
    return [pop() for _ in range(_len_torch_function_stack())]


def _put_back(modes: list[Any]) -> None:
    push: Callable[[Any], None] = overrides._push_mode
    for mode in reversed(modes):
        push(mode)


@cache
def can_be_watched() -> bool:
    """Whether this torch has what it takes, by trying it."""
    try:
        mode = TorchFunctionMode()
        insert(mode)
        remove(mode)
    except (AttributeError, TypeError):
        return False
    return True


def is_compiled() -> bool:
    """Whether something was compiled before the run was watched."""
    frames = sys.modules.get("torch._dynamo.eval_frame")
    backends = getattr(frames, "cached_backends", {})
    return any(map(callable, backends.values()))
