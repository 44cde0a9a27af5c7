"""CUDA's autocast where there is no CUDA: its lists of casts, and names of it that scripts use."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from amp_lint.runtime.patches import Function, Patches
from amp_lint.verify.experiments import cuda_policy
from amp_lint.vocabulary import amp
from amp_lint.vocabulary.meaning import Meaning, Part

if TYPE_CHECKING:
    from types import TracebackType

_CUDA, _CPU = "cuda", "cpu"
_STATES = (
    "is_autocast_enabled",
    "get_autocast_dtype",
    "set_autocast_enabled",
    "set_autocast_dtype",
)
"""Functions of torch about autocast whose first argument is a device; the first one may lack it."""


class CudaPolicy:
    """From ``with`` to its end autocast on the CPU casts as CUDA's does, and that of CUDA is it.

    Scalers of CUDA are scalers of the CPU, and a region that names no dtype is float16. Tensors
    stay where they are, `torch.cuda.is_available` stays false, and kernels are the CPU's.
    """

    def __init__(self) -> None:
        self._patches = Patches()
        self._threads = threading.local()
        self._dtype = torch.get_autocast_dtype(_CPU)

    def __enter__(self) -> None:
        self._dtype = torch.get_autocast_dtype(_CPU)
        self._threads = threading.local()
        self._begin()
        cuda_policy.install()
        for owner, row in ((torch.autocast, amp.AUTOCAST), (torch.amp.GradScaler, amp.GRAD_SCALER)):
            self._patches.method(owner, "__init__", partial(_made, row, self._begin))
        for row in (amp.CUSTOM_FWD, amp.CUSTOM_BWD):
            self._patches.function(torch.amp, row.word, partial(_decorator, row))
        for name in _STATES:
            self._patches.function(torch, name, _state)
        self._patches.rebind()

    def _begin(self) -> None:
        """Set the dtype of regions that name none, which torch keeps for each thread."""
        if not hasattr(self._threads, "begun"):
            self._threads.begun = True
            torch.set_autocast_dtype(_CPU, getattr(torch, amp.DEFAULT_DTYPES[_CUDA]))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._patches.undo()
        cuda_policy.remove()
        torch.set_autocast_dtype(_CPU, self._dtype)


def is_needed() -> bool:
    """Whether there is no CUDA, whose own lists would be used."""
    return not torch.cuda.is_available()


def _made(row: Meaning, begin: Callable[[], None], old: Function) -> Function:
    """A constructor of an object that is CUDA's, unless a device is named."""
    name = row.keyword(Part.DEVICE)

    def __init__(self: object, *args: Any, **keywords: Any) -> None:  # noqa: ANN401
        begin()
        if args:
            args = (_moved(args[0]), *args[1:])
        elif row is amp.GRAD_SCALER or name in keywords:
            keywords[str(name)] = _moved(keywords.get(str(name), _CUDA))
        old(self, *args, **keywords)

    return __init__


def _decorator(row: Meaning, old: Function) -> Function:
    name = str(row.keyword(Part.DEVICE))

    def decorator(*args: Any, **keywords: Any) -> Any:  # noqa: ANN401
        if name in keywords:
            keywords[name] = _moved(keywords[name])
        return old(*args, **keywords)

    return decorator


def _state(old: Function) -> Function:
    def state(*args: Any) -> Any:  # noqa: ANN401
        given = args or (_CUDA,)
        return old(_moved(given[0]), *given[1:])

    return state


def _moved(device: object) -> object:
    return _CPU if device == _CUDA else device
