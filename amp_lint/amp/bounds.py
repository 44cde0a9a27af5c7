"""How far from 0 numbers may be, by how they are made."""

from __future__ import annotations

import math

import libcst as cst

from amp_lint.amp.operations import Operation, Operations
from amp_lint.vocabulary.expressions import CASTS, SELECTS

_UNIT = frozenset(
    {"cos", "cosine_similarity", "normalize", "sigmoid", "sin", "softmax", "softmin", "tanh"}
)
"""Operations whose results are within -1 and 1."""
_KEEPING = SELECTS | CASTS | {"abs", "amax", "amin", "clone", "cpu", "cuda", "mean", "neg", "relu"}
"""Operations whose results are no further from 0 than what they are applied to."""
_MOST_STEPS = 12


class Bounds:
    """Asks operations how large what they give can be."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    def largest(self, node: cst.BaseExpression | None, steps: int = _MOST_STEPS) -> float:
        """The largest absolute value that a number, or one of a tensor, can have; or ``inf``."""
        if node is None or steps <= 0:
            return math.inf
        values = self._operations.values.constants(node)
        numbers = [abs(value) for value in values if isinstance(value, (int, float))]
        if numbers and len(numbers) == len(values):
            return float(max(numbers))
        if isinstance(node, cst.Name):
            held = self._operations.flow.held(node)
            return self.largest(held.value, steps - 1) if held is not None else math.inf
        made = self._operations.of(node)
        return self._of_made(made, steps - 1) if made is not None else math.inf

    def _of_made(self, made: Operation, steps: int) -> float:
        if made.name in _UNIT:
            return 1.0
        if made.name in _KEEPING:
            return self.largest(made.input, steps)
        if made.name == "clamp":
            sides = [made.args.get(0, "min"), made.args.get(1, "max")]
            return max(self.largest(side, steps) for side in sides)
        other = made.args.get(0, "other")
        if made.name in ("add", "sub", "rsub"):
            return self.largest(made.input, steps) + self.largest(other, steps)
        if made.name == "mul":
            return _product(self.largest(made.input, steps), self.largest(other, steps))
        if made.name == "div":
            return self._quotient(made.input, other, steps)
        return math.inf

    def _quotient(
        self, left: cst.BaseExpression | None, right: cst.BaseExpression | None, steps: int
    ) -> float:
        """Of a division by a number that is written out."""
        values = self._operations.values.constants(right) if right is not None else []
        numbers = [abs(value) for value in values if isinstance(value, (int, float)) and value]
        known = numbers and len(numbers) == len(values)
        return self.largest(left, steps) / min(numbers) if known else math.inf


def _product(one: float, other: float) -> float:
    return 0.0 if 0.0 in (one, other) else one * other
