"""Casts: of all that a product is made of to float32, and of a model to 16 bits."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from amp_lint.flow.origins import Origins
from amp_lint.flow.reaching import Flow
from amp_lint.flow.values import Values, arguments, literal
from amp_lint.syntax.names import Names, dotted
from amp_lint.syntax.tree import Tree, descendants
from amp_lint.vocabulary.modules import PARAMETER, TO_DTYPE
from amp_lint.vocabulary.operations import CASTS, DTYPES

_FLOAT32 = frozenset({"torch.float", "torch.float32"})
_FUNCTIONS = {
    **{f"torch.{name}": 2 for name in ("bmm", "matmul", "mm", "mv")},
    **{f"torch.nn.functional.conv{n}d": 2 for n in (1, 2, 3)},
    "torch.nn.functional.linear": 2,
    "torch.nn.functional.scaled_dot_product_attention": 3,
}
"""Functions that autocast runs in low precision, with the number of tensors they start with."""
_EINSUM = frozenset({"torch.einsum"})
_METHODS = frozenset({"bmm", "matmul", "mm", "mv"})
_INTEGERS = re.compile(r"mask|label|target|ind(ex|ices)|ids?$|one_?hot|valid|count", re.IGNORECASE)
"""In the names of what is no floating-point number before the cast."""
_VIEWS = frozenset(
    {
        "contiguous", "expand", "flatten", "movedim", "permute", "reshape", "squeeze", "t",
        "transpose", "unsqueeze", "view",
    }
)  # fmt: skip


_BY_ELEMENTS = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide)
_LOW = frozenset({"bfloat16", "float16"})
_MAX_STEPS = 10  # from a factor back to its cast
_MAX_CALLS = 20


@dataclass(frozen=True, slots=True, eq=False)
class CastProduct:
    """A product of tensors that were all cast to float32 for it, or are parameters in float32."""

    node: cst.Call | cst.BinaryOperation
    casts: tuple[cst.Call, ...]


class Casts:
    """Finds products of explicit casts; a cast of one factor may be there for an integer."""

    def __init__(
        self, tree: Tree, names: Names, values: Values, flow: Flow, origins: Origins
    ) -> None:
        self.tree = tree
        self.names = names
        self.values = values
        self.flow = flow
        self.origins = origins

    @functools.cached_property
    def products(self) -> list[CastProduct]:
        """Every product whose factors are casts to float32, names that hold one, or parameters."""
        nodes: list[cst.Call | cst.BinaryOperation] = [
            *self.tree.nodes(cst.Call), *self.tree.nodes(cst.BinaryOperation)
        ]  # fmt: skip
        found = []
        for node in sorted(nodes, key=self.tree.order):
            casts = self._casts_of(self.factors(node))
            if casts:
                found.append(CastProduct(node, casts))
        return found

    def _casts_of(self, factors: list[cst.BaseExpression]) -> tuple[cst.Call, ...]:
        """The casts of a product's factors; none where one of these may be something else."""
        casts = [self._cast(factor) for factor in factors]
        rest = [f for f, made in zip(factors, casts, strict=True) if made is None]
        found = tuple(made for made in casts if made is not None)
        if len(factors) < 2 or not all(map(self._is_parameter, rest)):
            return ()
        return found if not rest or not any(map(_is_of_integers, found)) else ()

    def _is_parameter(self, node: cst.BaseExpression) -> bool:
        """Whether an attribute is a parameter of its module, made without a dtype."""
        while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            if node.func.attr.value not in _VIEWS:
                return False
            node = node.func.value
        made = self.values.attribute_values(node) if isinstance(node, cst.Attribute) else []
        return any(
            isinstance(value, cst.Call)
            and self.names.is_any(value.func, PARAMETER)
            and not any(_says_dtype(part) for part in descendants(value))
            for value in made
        )

    def factors(self, node: cst.Call | cst.BinaryOperation) -> list[cst.BaseExpression]:
        """What a product that autocast runs in low precision multiplies; [] for another node."""
        if isinstance(node, cst.BinaryOperation):
            is_product = isinstance(node.operator, cst.MatrixMultiply)
            return [node.left, node.right] if is_product else []
        given = arguments(node).positional
        for name in self.names.qualified(node.func):
            if name in _FUNCTIONS:
                return list(given[: _FUNCTIONS[name]])
            if name in _EINSUM:
                return list(given[1:])
        return list(self._of_method(node, given))

    def _of_method(
        self, call: cst.Call, given: tuple[cst.BaseExpression, ...]
    ) -> Iterator[cst.BaseExpression]:
        function = call.func
        if not isinstance(function, cst.Attribute) or self.names.qualified(function):
            return
        if function.attr.value in _METHODS:
            yield function.value
            yield from given[:1]

    def _cast(self, node: cst.BaseExpression, steps: int = _MAX_STEPS) -> cst.Call | None:
        """``x.float()``, ``x.to(torch.float32)``, or what holds or views one, or computes with it.

        That is arithmetic by elements of casts and numbers; a parameter, where all that calls give
        for it is one.
        """
        match node:
            case _ if steps <= 0:
                return None
            case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name(value=method))):
                if self._is_cast(node, method):
                    return node
                return self._cast(owner, steps - 1) if method in _VIEWS else None
            case cst.BinaryOperation(left=left, operator=sign, right=right):
                if not isinstance(sign, _BY_ELEMENTS):
                    return None
                casts = [self._cast(side, steps - 1) for side in (left, right)]
                plain = [literal(side) is not ... for side in (left, right)]
                known = all(made or number for made, number in zip(casts, plain, strict=True))
                return (casts[0] or casts[1]) if known else None
            case cst.UnaryOperation(operator=cst.Minus(), expression=inner):
                return self._cast(inner, steps - 1)
            case cst.Subscript(value=whole):
                return self._cast(whole, steps - 1)
            case cst.Name():
                binding = self.flow.held(node)
                value = binding.value if binding is not None else self._unless_none(node)
                if value is not None:
                    return self._cast(value, steps - 1)
                return self._given(node, steps - 1)
        return None

    def _unless_none(self, name: cst.Name) -> cst.BaseExpression | None:
        """What a name is given under ``if x is not None``: else no product is made of it."""
        (given, *others) = self.flow.reaching(name) or (None,)
        block = self.tree.ancestor(given.node, cst.IndentedBlock) if given and others else None
        test = self.tree.parent(block) if block is not None else None
        if given is None or not isinstance(test, cst.If) or test.orelse is not None:
            return None
        asked = "".join(self.tree.source(test.test).split())
        return given.value if asked == f"{name.value}isnotNone" else None

    def _given(self, name: cst.Name, steps: int) -> cst.Call | None:
        """The cast of the first that calls give for a parameter, if they give nothing else."""
        if any(each.kind != "parameter" for each in self.flow.reaching(name)):
            return None
        casts = [self._cast(each, steps) for each in self.origins.given(name)[:_MAX_CALLS]]
        return casts[0] if casts and all(casts) else None

    def _is_cast(self, call: cst.Call, method: str) -> bool:
        if method == "float":
            return not call.args
        given = arguments(call)
        dtype = given.get(0, "dtype") if method in ("to", "type") else None
        return dtype is not None and self.names.is_only(dtype, _FLOAT32)


def _is_of_integers(made: cst.Call) -> bool:
    """Whether what is cast is called like something that has no fractions."""
    assert isinstance(made.func, cst.Attribute)
    return any(
        _INTEGERS.search((dotted(part) or "").rpartition(".")[2])
        for part in descendants(made.func.value)
        if isinstance(part, (cst.Name, cst.Attribute))
    )


def _says_dtype(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value == "dtype"


def cast_to_low(names: Names, values: Values, call: cst.Call) -> str | None:
    """The dtype of 16 bits to which a method casts what it is called on, or may."""
    method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    if not call.args:
        return CASTS[method] if CASTS.get(method) in _LOW else None
    given = (arg.value for arg in call.args if method in TO_DTYPE)
    return next(filter(None, (low_dtype(names, values, each) for each in given)), None)


def low_dtype(names: Names, values: Values, given: cst.BaseExpression) -> str | None:
    """The dtype of 16 bits that an expression is, or may be."""
    named = (name for each in values.alternatives(given) for name in names.qualified(each))
    return next((DTYPES[name] for name in named if DTYPES.get(name) in _LOW), None)
