"""On which side of 0 numbers are for certain, and how far from it at most, by how they are made."""

from __future__ import annotations

import math
from collections.abc import Sequence

import libcst as cst

from amp_lint.amp.operations import Operation, Operations
from amp_lint.flow.values import literal
from amp_lint.syntax.names import Binding
from amp_lint.vocabulary.expressions import CASTS, SELECTS

_NOT_BELOW = frozenset(
    {"abs", "cdist", "exp", "norm", "pdist", "relu", "sigmoid", "softmax", "softplus", "sqrt",
     "square", "std", "var", "vector_norm"}
)  # fmt: skip
"""Operations whose result is not below 0."""
_KEEPING = SELECTS | CASTS | {"clone", "cpu", "cuda", "mean", "sum"}
"""Operations whose result is on the side of 0 on which all that they are applied to is."""
_OPERATORS = {
    cst.Add: "add",
    cst.Subtract: "sub",
    cst.Multiply: "mul",
    cst.Divide: "div",
}
_MAX_STEPS = 12
_VALUED = ("assign", "unpack")
"""Kinds of bindings that hold the same whoever calls."""
_UNIT = frozenset(
    {"cos", "cosine_similarity", "normalize", "sigmoid", "sin", "softmax", "softmin", "tanh"}
)
"""Operations whose results are within -1 and 1."""
_NO_FURTHER = (
    SELECTS | CASTS | {"abs", "amax", "amin", "clone", "cpu", "cuda", "mean", "neg", "relu"}
)
"""Operations whose results are no further from 0 than what they are applied to."""


class Signs:
    """Asks operations for the sign of what they give; what is unknown may have any."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations
        self._tree = operations.tree.linked
        self._flow = operations.flow
        self._names = operations.names

    def is_never_positive(self, node: cst.BaseExpression) -> bool:
        """Whether a number, or each of a tensor, is at most 0."""
        return self._is(node, -1, _MAX_STEPS)

    def _is(self, node: cst.BaseExpression | None, sign: int, steps: int) -> bool:
        """Whether ``sign`` times a value is at least 0."""
        if node is None or steps <= 0:
            return False
        values = self.operations.values.usual(node)
        if all(isinstance(value, (int, float)) for value in values):
            return all(sign * value >= 0 for value in values if isinstance(value, (int, float)))
        if isinstance(node, cst.Name):
            held = self._flow.held(node)
            return held is not None and self._is(held.value, sign, steps - 1)
        made = self.operations.of(node)
        if made is None:
            return False
        return self._is_made(node, made, sign, steps - 1)

    def _is_made(self, node: cst.BaseExpression, made: Operation, sign: int, steps: int) -> bool:
        if made.name in _NOT_BELOW or self._is_even(made):
            return sign > 0
        if made.name == "neg":
            return self._is(made.input, -sign, steps)
        if made.name in _KEEPING:
            return self._is(made.input, sign, steps)
        name, left, right = self._operands(node, made)
        if left is None or right is None:
            return False
        if name in ("mul", "div"):
            return any(
                self._is(left, one, steps) and self._is(right, sign * one, steps) for one in (1, -1)
            )
        if name == "add":
            return self._is(left, sign, steps) and self._is(right, sign, steps)
        apart = self._is(left, sign, steps) and self._is(right, -sign, steps)
        less, more = (left, right) if sign < 0 else (right, left)
        return apart or (name == "sub" and self._is_ordered(less, more))

    def _is_even(self, made: Operation) -> bool:
        """Whether it is a power by an even number."""
        exponent = literal(made.args.get(0, "exponent")) if made.name == "pow" else None
        return isinstance(exponent, (int, float)) and exponent % 2 == 0

    def _operands(
        self, node: cst.BaseExpression, made: Operation
    ) -> tuple[str, cst.BaseExpression | None, cst.BaseExpression | None]:
        """The operation of two operands that an expression is, with them as they are written."""
        if isinstance(node, cst.BinaryOperation):
            return _OPERATORS.get(type(node.operator), ""), node.left, node.right
        name = made.name if made.name in _OPERATORS.values() and not _is_altered(made) else ""
        return name, made.input, made.args.get(0, "other")

    # --- two variables that were swapped ------------------------------------------------------

    def _is_ordered(self, less: cst.BaseExpression, more: cst.BaseExpression) -> bool:
        """Whether two variables were swapped above unless the one is not above the other."""
        if not isinstance(less, cst.Name) or not isinstance(more, cst.Name):
            return False
        order = self._tree.order
        swaps = (self._tree.ancestor(binding.node, cst.If) for binding in self._flow.reaching(less))
        bound = [
            order(binding.node) for name in (less, more) for binding in self._names.bindings(name)
        ]
        return any(
            swap is not None
            and _is_swap(swap, less.value, more.value)
            and self._runs_before(swap, less)
            and not any(self._tree.end(swap) <= at < order(less) for at in bound)
            for swap in swaps
        )

    def _runs_before(self, swap: cst.If, use: cst.CSTNode) -> bool:
        """Whether what follows a test in its block has the use."""
        block = self._tree.parent(swap)
        inside = block is not None and self._tree.contains(block, use)
        return inside and self._tree.end(swap) <= self._tree.order(use)


def _is_swap(test: cst.If, less: str, more: str) -> bool:
    """``if more < less: more, less = less, more``, and nothing else."""
    match test:
        case cst.If(
            test=cst.Comparison(
                left=cst.Name(value=first),
                comparisons=[
                    cst.ComparisonTarget(operator=operator, comparator=cst.Name(value=second))
                ],
            ),
            body=cst.IndentedBlock(body=[cst.SimpleStatementLine(body=[cst.Assign() as swap])]),
            orelse=None,
        ):
            if isinstance(operator, (cst.GreaterThan, cst.GreaterThanEqual)):
                first, second = second, first
            elif not isinstance(operator, (cst.LessThan, cst.LessThanEqual)):
                return False
            return (first, second) == (more, less) and _swapped(swap) == {less, more}
    return False


def _swapped(assign: cst.Assign) -> set[str]:
    """The two names of ``a, b = b, a``; none for what is no such assignment."""
    match assign:
        case cst.Assign(
            targets=[
                cst.AssignTarget(
                    target=cst.Tuple(
                        elements=[
                            cst.Element(value=cst.Name(value=to)),
                            cst.Element(value=cst.Name(value=other)),
                        ]
                    )
                )
            ],
            value=cst.Tuple(
                elements=[
                    cst.Element(value=cst.Name(value=first)),
                    cst.Element(value=cst.Name(value=second)),
                ]
            ),
        ):
            return {to, other} if (to, other) == (second, first) else set()
    return set()


class Bounds:
    """Asks operations how large what they give can be."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._results = operations.results

    def largest(self, node: cst.BaseExpression | None, steps: int = _MAX_STEPS) -> float:
        """The largest absolute value that a number, or one of a tensor, can have; or ``inf``."""
        if node is None or steps <= 0:
            return math.inf
        values = self._operations.values.constants(node)
        numbers = [abs(value) for value in values if isinstance(value, (int, float))]
        if numbers and len(numbers) == len(values):
            return float(max(numbers))
        if isinstance(node, cst.Name):
            held = self._operations.flow.certain(node)
            return self._of_any([held] if held else self._operations.flow.reaching(node), steps)
        made = self._operations.of(node)
        most = self._of_made(made, steps - 1) if made is not None else math.inf
        if most == math.inf and isinstance(node, cst.Call):
            return self.largest(self._results.of(node), steps - 1)
        return most

    def _of_any(self, bindings: Sequence[Binding], steps: int) -> float:
        """Of all that a name may be bound to; ``inf`` where that is not known."""
        if not bindings or any(each.kind not in _VALUED for each in bindings):
            return math.inf
        return max(self.largest(self._results.bound(each), steps - 1) for each in bindings)

    def _of_made(self, made: Operation, steps: int) -> float:
        if made.name in _UNIT:
            return 1.0
        if made.name in _NO_FURTHER:
            return self.largest(made.input, steps)
        if made.name == "clamp":
            sides = [made.args.get(0, "min"), made.args.get(1, "max")]
            return max(self.largest(side, steps) for side in sides)
        other = made.args.get(0, "other")
        if _is_altered(made):
            return math.inf
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


def _is_altered(made: Operation) -> bool:
    """Whether an operation of two operands is given a factor for one, or rounds its result."""
    return any(made.args.get(None, name) is not None for name in ("alpha", "rounding_mode"))


def _product(one: float, other: float) -> float:
    return 0.0 if 0.0 in (one, other) else one * other
