"""Backward passes of the CPU in a thread of the engine's own, where those of CUDA always run.

There is no code of the user's on the stack of such a thread, but for that of hooks and of custom
functions, and what Python keeps for each thread is not there. On the CPU the engine takes a thread
from its pool where backward passes are nested 60 deep, which is what is made of each of them here.
"""

from __future__ import annotations

import threading
from typing import Any

import torch

_DEPTH = 61
"""One more than ``MAX_DEPTH`` of the engine (``torch/csrc/autograd/engine.cpp``)."""


def install() -> None:
    """Have all backward passes of this process run in other threads than their callers'."""
    for module in (torch.autograd, torch.autograd.graph):
        setattr(module, RUN, in_pool)


RUN = "_engine_run_backward"
"""Of `torch.autograd` and `torch.autograd.graph`: what all backward passes go through."""
_run = getattr(torch.autograd.graph, RUN)
_asked = threading.local()


class _Nested(torch.autograd.Function):
    """Its backward pass is within another one, down to that which is asked for."""

    @staticmethod
    def forward(ctx: Any, one: torch.Tensor, depth: int) -> torch.Tensor:  # noqa: ANN401
        ctx.depth = depth
        return one.view_as(one)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:  # noqa: ANN401
        _nest(ctx.depth - 1)
        return None, None


def _nest(depth: int) -> None:
    if not depth:
        args, keywords = _asked.call
        _asked.result = _run(*args, **keywords)
        return
    with torch.enable_grad(), torch._C._DisableTorchDispatch():
        leaf = torch.zeros((), requires_grad=True)
        start = _Nested.apply(leaf, depth)  # type: ignore[no-untyped-call]
    # keeps no graph, makes none, and reaches all leaves
    _run((start,), (torch.ones(()),), False, False, (), True, True)


def in_pool(*args: Any, **keywords: Any) -> Any:  # noqa: ANN401
    """A backward pass, in a thread from the pool."""
    if torch._C._current_graph_task_id() >= 0 or torch._C._functorch.peek_interpreter_stack():
        return _run(*args, **keywords)
    _asked.call = args, keywords
    try:
        _nest(_DEPTH)
        return _asked.result
    finally:
        _asked.__dict__.clear()  # else the loss stays
