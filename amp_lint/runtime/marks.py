"""Which scaler has scaled a loss: a mark on the node of the graph that multiplied it."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Container, Iterable
from typing import Any

import torch

_MARK = "amp_lint.scaled"
_NEAR = 48
"""Nodes between a loss and the product with the scale: sums, means, gathers."""
_LEAF = 2**64 - 1
"""The number of a node that only adds to the gradient of a parameter."""
_FAR = 400
"""Nodes that are looked at for an operation in half precision."""


def mark(outputs: object, scaler: torch.amp.GradScaler) -> None:
    """Remember the scaler of what it has multiplied: a tensor, or containers of them."""
    if isinstance(outputs, torch.Tensor):
        if outputs.grad_fn is not None:
            _metadata(outputs.grad_fn)[_MARK] = scaler
    elif isinstance(outputs, Iterable):
        for each in outputs:
            mark(each, scaler)


def scaler_of(losses: Iterable[torch.Tensor]) -> torch.amp.GradScaler | None:
    """The scaler that has scaled one of these losses."""
    losses = [loss for loss in losses if loss.grad_fn is not None]
    for loss in losses:  # most often it is the product itself
        found = _metadata(loss.grad_fn).get(_MARK)
        if found is not None:
            return found
    for node in _nodes(losses, _NEAR):
        found = _metadata(node).get(_MARK)
        if found is not None:
            return found
    return None


def _metadata(node: Any) -> dict[str, torch.amp.GradScaler]:  # noqa: ANN401
    """What a node of the graph carries; torch declares it as a method, and it is none."""
    carried: dict[str, torch.amp.GradScaler] = node.metadata
    return carried


def ran_in(losses: Iterable[torch.Tensor], dtypes: Container[torch.dtype], since: int = 0) -> bool:
    """Whether an operation in one of these is near in the graph of some losses.

    ``since``: what `now` gave at a moment before which it does not count.
    """
    for node in _nodes(losses, _FAR):
        is_recent = not since or since <= _number(node) < _LEAF
        if is_recent and any(dtype in dtypes for dtype in _dtypes_of(node)):
            return True
    return False


def _dtypes_of(node: Any) -> set[torch.dtype]:  # noqa: ANN401
    """In which dtypes a node gets gradients; of an older torch, in which it has saved tensors."""
    told = getattr(node, "_input_metadata", None)
    if told is not None:
        return {given.dtype for given in told}
    saved = set[torch.dtype]()
    for name in dir(node):
        if name.startswith("_saved_"):
            with contextlib.suppress(RuntimeError):  # it is given up after backward
                value = getattr(node, name)
                saved |= {value.dtype} if isinstance(value, torch.Tensor) else set()
    return saved


def _number(node: Any) -> int:  # noqa: ANN401
    """In which order it was made; -1 where torch does not say."""
    number: Callable[[], int] | None = getattr(node, "_sequence_nr", None)
    return -1 if number is None else number()


def now() -> int:
    """The number of the node that the graph of this thread gets next; 0 where torch has none."""
    number: Callable[[], int] | None = getattr(torch.autograd, "_get_sequence_nr", None)
    return 0 if number is None else number()


def _nodes(losses: Iterable[torch.Tensor], most: int) -> Iterable[Any]:
    """The first nodes of a graph, breadth first."""
    waiting = deque(loss.grad_fn for loss in losses if loss.grad_fn is not None)
    known = {id(node): node for node in waiting}  # which keeps them, and so their ids
    while waiting and most:
        node = waiting.popleft()
        most -= 1
        yield node
        for following, _ in node.next_functions:
            if following is not None and id(following) not in known:
                known[id(following)] = following
                waiting.append(following)
