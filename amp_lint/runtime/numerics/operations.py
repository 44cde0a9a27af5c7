"""A step is looked at operation by operation, below autocast and autograd."""

from __future__ import annotations

import enum
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._C import _len_torch_dispatch_stack
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

from amp_lint.runtime.frames import NOWHERE, Place, here, within
from amp_lint.runtime.numerics.scalars import is_plain
from amp_lint.runtime.patches import Inside
from amp_lint.vocabulary import kernels

_MOST = 50_000
"""Operations of a step that are looked at."""
_OUT = 4
"""Frames between the user's call and the walk over them."""


class Phase(enum.Enum):
    """Where in a step an operation runs."""

    FORWARD = "forward pass"
    SCALING = "scaling of the loss"
    """The loss is multiplied by the scale."""
    ASIDE = "forward pass without gradients"
    """Nothing of it gets a gradient: evaluation, targets, positions."""
    BACKWARD = "backward pass"


@dataclass(frozen=True, slots=True)
class Kernel:
    """What is known of an operation by its schema."""

    name: str
    """Without its overload, and without what marks that it writes in place."""
    is_alias: bool
    is_fresh: bool
    in_place: bool
    is_update: bool
    """Whether it may be a part of what updates a moving average."""
    overwrites: bool
    is_random: bool


@dataclass(slots=True)
class Operation:
    """One that has run."""

    kernel: Kernel
    function: Callable[..., Any]
    args: Sequence[Any]
    keywords: Mapping[str, Any]
    made: Sequence[torch.Tensor]
    """Tensors of real numbers that it gave or wrote."""
    given: Sequence[torch.Tensor]
    """Those that it has read."""
    place: Place
    phase: Phase


class Operations(TorchDispatchMode):
    """Hands every operation of one thread to who looks at it, while it is `on`."""

    def __init__(
        self,
        look: Callable[[Operation], None],
        inside: Inside,
        before: Callable[[Kernel, Sequence[Any]], None] | None = None,
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        """Look at each when it has run, and at updates of averages also ``before`` they do.

        Where that raises, nothing more is looked at, and ``failed`` is told.
        """
        super().__init__()  # type: ignore[no-untyped-call]  # torch declares no types here
        self.on = True
        self.stepping = False
        """Whether an optimizer is at work, of which only its closure is of the training."""
        self._look, self._inside, self._before, self._failed = look, inside, before, failed
        self._count, self._process, self._thread = 0, os.getpid(), threading.get_ident()
        self._lines: dict[int, Place] = {}
        self._pauses, self._is_out = 0, False
        self._has_cuda = torch.cuda.is_available()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """What keeps torch from compiling this takes as long as all the rest; see `Compiled`."""
        return not hasattr(torch.compiler, "set_stance")

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Compiled code stays compiled."""
        return True

    def begin(self) -> bool:
        """Begin; not where another such mode is in place, which would be left in our stead."""
        if _len_torch_dispatch_stack():
            return False
        self.__enter__()  # type: ignore[no-untyped-call]
        return True

    def end(self) -> bool:
        """End; False where it must be tried again, as another mode is above or thread is this."""
        self.on = False
        return self._is_out or self._leave()

    def _leave(self) -> bool:
        ours = threading.get_ident() == self._thread
        if not ours or _get_current_dispatch_mode() is not self:
            return False
        self.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        return True

    def pause(self) -> None:
        """Look at nothing, and be in nobody's way, until as many calls of `resume`."""
        self._pauses += 1
        if self._pauses == 1:
            self.on, self._is_out = False, self._leave()

    def resume(self) -> None:
        """Look again."""
        self._pauses -= 1
        if not self._pauses:
            if self._is_out:
                self.__enter__()  # type: ignore[no-untyped-call]
            self.on, self._is_out = True, False

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401
        types: Any,  # noqa: ANN401
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        keywords = kwargs or {}
        if not self.on or types or self._is_elsewhere():
            return func(*args, **keywords)
        seen = None
        try:
            seen = self._seen(func, args)
        except Exception as error:  # what fails here is none of the training's
            self._give_up(error)
        made = func(*args, **keywords)
        if seen is not None:
            try:
                self._look_at(seen, func, args, keywords, made)
            except Exception as error:  # the memory of a device may be full, say
                self._give_up(error)
        return made

    def _seen(self, func: Any, args: Sequence[Any]) -> tuple[Kernel, Phase, Place] | None:  # noqa: ANN401
        """What an operation is and where, before it runs; None where it is not looked at."""
        backward = torch._C._current_graph_task_id() >= 0
        if self.stepping and not (backward or torch.is_grad_enabled()):
            return None
        kernel = kernel_of(func)
        if backward and kernel.is_alias:
            return None
        phase, place = self._backward() if backward else self._forward()
        if kernel.is_update and self._before is not None and args:
            self._before(kernel, args)
        return None if kernel.is_alias else (kernel, phase, place)

    def _look_at(
        self,
        seen: tuple[Kernel, Phase, Place],
        func: Any,  # noqa: ANN401
        args: Sequence[Any],
        keywords: Mapping[str, Any],
        made: Any,  # noqa: ANN401
    ) -> None:
        """Look at an operation that has run."""
        kernel, phase, place = seen
        self._count += 1
        written = args[0] if kernel.in_place and args else made
        read = [*(args[1:] if kernel.overwrites else args), *keywords.values()]
        real, given = _real(written), _real(read)
        self._look(Operation(kernel, func, args, keywords, real, given, place, phase))

    def _give_up(self, error: Exception) -> None:
        self.on = False
        if self._failed is not None:
            self._failed(error)

    def _is_elsewhere(self) -> bool:
        """In a child that was forked, in a graph that is recorded, or too far."""
        if self._count > _MOST or os.getpid() != self._process:
            return True
        return self._has_cuda and torch.cuda.is_current_stream_capturing()

    def _backward(self) -> tuple[Phase, Place]:
        """Of the operation that it belongs to; the line itself where code of the user's runs."""
        node = torch._C._current_autograd_node()
        if node is None or isinstance(node, torch.autograd.function.BackwardCFunction):
            return Phase.BACKWARD, self._line()
        return Phase.BACKWARD, self._lines.get(node._sequence_nr()) or self._line()

    def _line(self) -> Place:
        """The line that runs; on CUDA, that which waits for the backward pass of other threads."""
        place = here(_OUT + 1) if threading.get_ident() == self._thread else here()
        return place if place is not NOWHERE else within(self._thread)

    def _forward(self) -> tuple[Phase, Place]:
        place = here(_OUT)
        if not torch.is_grad_enabled():
            return Phase.ASIDE, place
        # the node was made before what it stands for runs; later operations make no new one
        self._lines.setdefault(torch.autograd._get_sequence_nr() - 1, place)  # type: ignore[attr-defined]
        return (Phase.SCALING if self._inside.depth else Phase.FORWARD), place


_kernels: dict[int, tuple[Any, Kernel]] = {}
"""By the ids of operations, which are kept."""


def kernel_of(function: Any) -> Kernel:  # noqa: ANN401
    """What is known of an operation."""
    found = _kernels.get(id(function))
    if found is None:
        found = _kernels[id(function)] = function, _described(function)
    return found[1]


def _described(function: Any) -> Kernel:  # noqa: ANN401
    schema = function._schema
    name = schema.name.rpartition("::")[2]
    is_fresh = kernels.FRESH in name
    return Kernel(
        name=name.rstrip("_") if schema.is_mutable else name,
        is_alias=function.is_view or name in kernels.ALIASES,
        is_fresh=is_fresh,
        in_place=schema.is_mutable,
        is_update=schema.is_mutable and name.rstrip("_") in kernels.UPDATES,
        overwrites=name in kernels.OVERWRITES,
        is_random=torch.Tag.nondeterministic_seeded in function.tags,
    )


def usable() -> bool:
    """Whether this torch has what is needed of it, some of which is not public."""
    seen: list[Operation] = []
    try:
        mode = Operations(seen.append, Inside({}))
        if mode.begin():
            torch.ones(1).requires_grad_().exp().sum().backward()  # type: ignore[no-untyped-call]
            mode.end()
    except (AttributeError, TypeError, RuntimeError):
        return False
    return any(each.phase is Phase.BACKWARD for each in seen)


def _real(values: object) -> list[torch.Tensor]:
    """The tensors of real numbers among some values, and in lists of them."""
    if isinstance(values, torch.Tensor):
        return [values] if is_plain(values) else []
    found: list[torch.Tensor] = []
    if isinstance(values, (list, tuple)):
        for each in values:
            if isinstance(each, (torch.Tensor, list, tuple)):
                found += _real(each)
    return found
