"""What the user does with a scaled loss after the update: seen only while somebody keeps one."""

from __future__ import annotations

import ast
import linecache
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from amp_lint.mistake import At, Mistake
from amp_lint.runtime.frames import Place, here
from amp_lint.runtime.patches import Patches
from amp_lint.runtime.reads import modes
from amp_lint.runtime.record import Numbers
from amp_lint.vocabulary.training import READING, SAME_NUMBERS

if TYPE_CHECKING:
    from amp_lint.runtime.findings import Findings
    from amp_lint.runtime.reads.gradients import GradientReads

_SAME = SAME_NUMBERS | {"mean", "sum", "squeeze", "_to_copy"}
"""What gives the numbers of a loss, or their sum, times the same factor."""
_NUMBERS = READING | {"__float__"}
_QUOTIENTS = frozenset({"__truediv__", "div", "true_divide", "divide"})
_ROUNDS, _AGAIN = 20, 1000
"""Rounds that are watched where a scaled loss is kept: at first, and after the scale was asked for
between an update and the next loss. Each function of torch that is called costs something then."""
_NOTHING = nullcontext()
_MOST = 16
"""Losses that are remembered, and numbers that were read of them."""


@dataclass(slots=True, eq=False)
class _Scaled:
    """A loss that a scaler has multiplied, while somebody has it."""

    loss: weakref.ref[torch.Tensor]
    scaler: weakref.ref[torch.amp.GradScaler]
    place: Place
    factor: torch.Tensor | None = None
    """By what, once the scaler has been updated."""


class _Number(NamedTuple):
    """A number of Python's that was read of a scaled loss, after the update."""

    of: _Scaled
    place: Place


class _Scale(NamedTuple):
    """A scale that the user has asked for, after the update."""

    value: float
    place: Place


class LossReads:
    """Sees a scaled loss that is divided by the scale of the next step."""

    def __init__(self, findings: Findings, patches: Patches, reads: GradientReads) -> None:
        self._findings = findings
        self._patches = patches
        self._reads = reads
        self._scaled: deque[_Scaled] = deque(maxlen=_MOST)
        self._mode: _Mode | None = None
        self._left = _ROUNDS
        self._is_late = False
        """Whether a scaler was updated since the last loss."""
        self._numbers: deque[_Number] = deque(maxlen=_MOST)
        self._asked: dict[int, _Scale] = {}
        """By the ids of scalers."""
        self._quotients: dict[tuple[Place, Place], Place | None] = {}

    def scaled(self, scaler: torch.amp.GradScaler, loss: object, place: Place) -> None:
        """A scaler has multiplied a loss: another round begins."""
        self.end()
        self._is_late = False
        if self._scaled and (self._scaled[-1].factor is not None or not self._scaled[-1].loss()):
            self._scaled.clear()
        if isinstance(loss, torch.Tensor):
            self._scaled.append(_Scaled(weakref.ref(loss), weakref.ref(scaler), place))

    def updating(self, scaler: torch.amp.GradScaler) -> None:
        """A scaler is about to be updated."""
        for each in self._kept(scaler):
            if each.factor is None and scaler._scale is not None:
                each.factor = scaler._scale.clone()

    def updated(self, scaler: torch.amp.GradScaler) -> None:
        """It was: what is read of the scale now is that of the next step."""
        self._is_late = True
        if self._mode is not None or not self._left or not self._reads.possible:
            return
        kept = [*self._kept(scaler)]
        if kept and not modes.is_compiled():
            self._left -= 1
            self._mode = _Mode(self, self._patches, kept)
            modes.insert(self._mode)

    def end(self) -> None:
        """Another forward begins."""
        if self._mode is not None and modes.remove(self._mode):
            self._mode = None
            self._numbers.clear()
            self._asked.clear()

    def aside(self) -> AbstractContextManager[None]:
        """What is called here is nothing that anybody does with a loss."""
        return _NOTHING if self._mode is None else _without(self._mode)

    def asked(self, scaler: torch.amp.GradScaler, value: object, place: Place) -> None:
        """The user has asked for the scale."""
        if self._is_late:
            self._left = _AGAIN
        if self._mode is not None and isinstance(value, float):
            scale = self._asked[id(scaler)] = _Scale(value, place)
            for number in self._numbers:
                if number.of.scaler() is scaler:
                    self._divided(number, scale)

    def read(self, of: _Scaled, place: Place) -> None:
        """A number was read of a scaled loss."""
        number = _Number(of, place)
        self._numbers.append(number)
        scale = self._scale(of)
        if scale is not None:
            self._divided(number, scale)

    def quotient(self, of: _Scaled, by: object, place: Place) -> None:
        """A scaled loss was divided by something."""
        scale, scaler = self._scale(of), of.scaler()
        if scale is not None and isinstance(by, float) and by == scale.value:
            self._see(of, scale.value, place)
        elif scaler is not None and isinstance(by, torch.Tensor) and by is scaler._scale:
            self._see(of, float(by), place)

    def _kept(self, scaler: torch.amp.GradScaler) -> Iterator[_Scaled]:
        """The losses that it has scaled, and that somebody has."""
        for each in self._scaled:
            if each.scaler() is scaler and each.loss() is not None:
                yield each

    def _scale(self, of: _Scaled) -> _Scale | None:
        scaler = of.scaler()
        return None if scaler is None else self._asked.get(id(scaler))

    def _divided(self, number: _Number, scale: _Scale) -> None:
        """See whether a number is divided by a scale; which only the text can tell."""
        key = number.place, scale.place
        if key not in self._quotients and len(self._quotients) < _MOST:
            self._quotients[key] = _quotient(*key)
        place = self._quotients.get(key)
        if place is not None:
            self._see(number.of, scale.value, place)

    def _see(self, of: _Scaled, now: float, place: Place) -> None:
        then = now if of.factor is None else float(of.factor)
        if then != now:
            numbers: Numbers = {"then": then, "now": now, "times": then / now}
            places = {At.EVENT: place, At.CAUSE: of.place}
            self._findings.see(Mistake.LATE_SCALE, places, lambda: numbers)


class _Mode(modes.Listening):
    """Sees what is done with losses that somebody has kept; it keeps none itself."""

    def __init__(self, reads: LossReads, patches: Patches, kept: Iterable[_Scaled]) -> None:
        super().__init__(patches)
        self._reads = reads
        self._known = {id(each.loss()): (each.loss, each) for each in kept}
        """By the ids of losses and of what has the same numbers."""

    def called(self, func: Any, name: str, args: tuple[Any, ...], given: object) -> None:  # noqa: ANN401
        """Something was called, perhaps with a loss."""
        ref, of = self._known.get(id(args[0]), (None, None))
        if ref is None or of is None or ref() is not args[0]:
            return
        if name in _NUMBERS:
            self._reads.read(of, here())
        elif name in _QUOTIENTS and len(args) > 1:
            self._reads.quotient(of, args[1], here())
        elif name in _SAME and isinstance(given, torch.Tensor):
            self._known[id(given)] = weakref.ref(given), of


@contextmanager
def _without(mode: _Mode) -> Iterator[None]:
    """Nothing is told to a mode here."""
    if not modes.remove(mode):
        yield
        return
    try:
        yield
    finally:
        modes.insert(mode)


# --- which numbers a quotient is of -------------------------------------------------------------


def _quotient(number: Place, scale: Place) -> Place | None:
    """Where a number is divided by a scale, by where both were read; None if nowhere."""
    if number.file != scale.file or None in (number.column, scale.column):
        return None
    try:
        tree = ast.parse("".join(linecache.getlines(number.file)))
    except (SyntaxError, ValueError, RecursionError):
        return None
    nodes = [*ast.walk(tree)]
    numbers, scales = _names(nodes, number), _names(nodes, scale)
    for node in nodes:
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div):
            continue
        if _holds(node.left, number, numbers) and _holds(node.right, scale, scales):
            rows = node.lineno, node.col_offset, node.end_lineno, node.end_col_offset
            return Place(number.file, *rows, number.function)
    return None


def _names(nodes: list[ast.AST], place: Place) -> dict[str, int]:
    """The names that the value at a place is given, and the row of the statement."""
    return {
        target.id: node.lineno
        for node in nodes
        if isinstance(node, ast.Assign) and _is_at(node.value, place)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _holds(side: ast.expr, place: Place, names: Mapping[str, int]) -> bool:
    """Whether the value at a place is an operand: it stands there, or its name, some rows below."""
    if isinstance(side, ast.Name) and side.id in names:
        return 0 < side.lineno - names[side.id] <= _MOST
    return _is_at(side, place)


def _is_at(node: ast.AST, place: Place) -> bool:
    spans = (node, *(node.args if isinstance(node, ast.Call) else ()))
    return any(
        (each.lineno, each.col_offset, each.end_lineno, each.end_col_offset) == place[1:5]
        for each in spans
        if isinstance(each, ast.expr)
    )
