"""Numerics in a small language: expressions that fail, and what computes the same without failing.

``log(1 - sigmoid(x))`` stands for all its spellings: functions, methods, modules, operators. Names
of variables stand for any expression, the same one for the same name; ``*settings`` for all the
further arguments of a call.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

ALIASES = {
    "clip": "clamp", "divide": "div", "expit": "sigmoid", "multiply": "mul", "negative": "neg",
    "subtract": "sub", "true_divide": "div",
}  # fmt: skip
"""What is called in another way -> as it is called here."""
WORDLESS = frozenset({"add", "div", "mul", "neg", "pow", "rdiv", "rsub", "sqrt", "square", "sub"})
"""Operations that operators may stand for."""
CLASSES = {
    "binary_cross_entropy": "BCELoss", "binary_cross_entropy_with_logits": "BCEWithLogitsLoss",
    "log_softmax": "LogSoftmax", "sigmoid": "Sigmoid", "softmax": "Softmax",
    "softplus": "Softplus",
}  # fmt: skip
"""Operation -> the module of ``torch.nn`` that applies it."""
LIMITS = {"cosine_similarity": "CosineSimilarity", "softmin": "Softmin", "tanh": "Tanh"}
"""The same for operations that are no part of an expression here, and limit what goes into one."""
TAKES_MORE = frozenset({"binary_cross_entropy", "cosine_similarity"})
"""Those of which the module takes more than one tensor."""
SETTINGS = {"logsumexp": ("dim", "keepdim"), "sum": ("dim", "keepdim"), "unsqueeze": ("dim",),
            "vector_norm": ("dim", "keepdim")}  # fmt: skip
"""What the further arguments of an operation are called, in order; others are not understood."""
RENAMED = {"axis": "dim", "keepdims": "keepdim"}
"""What NumPy calls them."""
_FUNCTIONAL = "torch.nn.functional"
HOMES = {
    "binary_cross_entropy_with_logits": (_FUNCTIONAL,),
    "flatten": ("torch",),
    "log_softmax": ("torch", _FUNCTIONAL, "torch.special"),
    "logsumexp": ("torch", "torch.special"),
    "softmax": (_FUNCTIONAL, "torch", "torch.special"),
    "softplus": (_FUNCTIONAL,),
    "vector_norm": ("torch.linalg",),
}
"""The modules that have a function, the usual one first."""
METHODS = frozenset({"flatten", "log_softmax", "logsumexp", "softmax"})
"""Those that tensors have as well."""
SELECTS = frozenset(
    {
        "contiguous", "detach", "diag", "diagonal", "expand", "flatten", "gather", "getitem",
        "index_select", "movedim", "permute", "reshape", "select", "squeeze", "swapaxes", "t",
        "take_along_dim", "transpose", "unsqueeze", "view",
    }
)  # fmt: skip
"""What rearranges or picks elements, so that it may as well be done after the logarithm."""
FLOORS = frozenset({"add", "clamp", "clamp_min"})
CASTS = frozenset({"double", "float", "to", "type_as"})
BETWEEN = SELECTS | FLOORS | CASTS
"""What may stand between two operations of an expression."""
SIGNS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Pow: "pow"}
"""Operators as Python's own tree has them."""


@dataclass(frozen=True, slots=True)
class Pair:
    """An expression that fails, and what computes the same without failing.

    Equality of the two is what has to be shown of a fix.
    """

    before: str
    after: str
    """"" where there is none that is sure to do."""
    sure: bool = True
    """Whether it fails for what code is likely to give it."""


@dataclass(frozen=True, slots=True)
class Apply:
    """An operation applied to what comes first, and to other operands."""

    name: str
    input: Apply | str
    """A variable by its name."""
    operands: tuple[Apply | str | float, ...] = ()
    settings: tuple[tuple[str, str | float], ...] = ()
    """Further arguments by their names."""
    rest: bool = False
    """Whether any further arguments may follow: ``*settings``."""

    def names(self) -> Iterator[str]:
        """The names of all operations."""
        yield self.name
        for part in (self.input, *self.operands):
            if isinstance(part, Apply):
                yield from part.names()

    def along(self) -> list[str]:
        """The names of those on the spine."""
        return [part.name for part in self.spine()]

    def spine(self) -> Iterator[Apply]:
        """The operations from the last one to the first one, along what comes first."""
        node: Apply | str = self
        while isinstance(node, Apply):
            yield node
            node = node.input

    def spines(self) -> Iterator[list[Apply]]:
        """Its own spine and those of the other operands."""
        yield [*self.spine()]
        for part in self.spine():
            for operand in part.operands:
                if isinstance(operand, Apply):
                    yield from operand.spines()

    @property
    def stage(self) -> Stage:
        """How the operation alone is told where it is written."""
        plain = self.name.removeprefix("r")
        also = {alias for alias, meant in ALIASES.items() if meant == plain}
        power = {"pow", "mul"} if self.name in ("square", "sqrt") else set()
        names = {self.name, plain, CLASSES.get(plain, plain)} | also | power
        constant = self.operands[0] if len(self.operands) == 1 else None
        return Stage(
            frozenset(names), float(constant) if isinstance(constant, (int, float)) else None
        )


@dataclass(frozen=True, slots=True)
class Stage:
    """One operation on the way from the result of an expression to what it is made of."""

    names: frozenset[str]
    """What calls of it, or its operators, are called."""
    constant: float | None = None
    """The other operand, where that has to be a number."""


@functools.cache
def parsed(text: str) -> Apply:
    """An expression of the language."""
    return cast(Apply, _parsed(ast.parse(text, mode="eval").body))


def _parsed(node: ast.expr) -> Apply | str | float:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Constant(value=value):
            return cast(float, value)
        case ast.UnaryOp(operand=operand):
            return Apply("neg", _input(operand))
        case ast.BinOp(left=ast.Constant() as left, right=right):
            name = SIGNS[type(node.op)]
            return canonical(f"r{name}" if name in ("sub", "div") else name, right, left)
        case ast.BinOp(left=left, right=right):
            return canonical(SIGNS[type(node.op)], left, right)
        case ast.Call(func=ast.Name(id=name), args=[first, *more], keywords=keywords):
            rest = any(isinstance(each, ast.Starred) for each in more)
            given = [_parsed(each) for each in more if not isinstance(each, ast.Starred)]
            if name not in SETTINGS:
                return Apply(name, _input(first), tuple(given), (), rest)
            named = [*zip(SETTINGS[name], given, strict=False)]
            named += [(each.arg or "", _parsed(each.value)) for each in keywords]
            return Apply(
                name, _input(first), (), cast(tuple[tuple[str, str], ...], (*named,)), rest
            )
    raise ValueError(ast.unparse(node))


def canonical(name: str, first: ast.expr, second: ast.expr) -> Apply:
    """An operation on two operands; roots and squares are operations of their own."""
    power = root_or_square(name, getattr(second, "value", None))
    return Apply(power, _input(first)) if power else Apply(name, _input(first), (_parsed(second),))


def root_or_square(name: str, exponent: object) -> str:
    """``square`` or ``sqrt`` for a power with that exponent; "" for all else."""
    if name != "pow" or not isinstance(exponent, (int, float)):
        return ""
    return {2.0: "square", 0.5: "sqrt"}.get(float(exponent), "")


def _input(node: ast.expr) -> Apply | str:
    return cast("Apply | str", _parsed(node))


@functools.cache
def stages(pair: Pair, last: frozenset[str]) -> tuple[tuple[Stage, ...], ...]:
    """The ways from one of the operations ``last`` to the first ones, but for signs in front."""
    found = []
    for spine in parsed(pair.before).spines():
        while spine and spine[-1].name == "neg":
            spine.pop()
        starts = [at for at, part in enumerate(spine) if part.stage.names & last]
        if starts and starts[0] + 1 < len(spine):
            found.append(tuple(part.stage for part in spine[starts[0] :]))
    return tuple(dict.fromkeys(found))


def words(name: str) -> frozenset[str]:
    """The identifiers one of which is written where an operation is; none if there is no need."""
    if name in WORDLESS:
        return frozenset()
    other = {alias for alias, meant in ALIASES.items() if meant == name}
    return frozenset({name, CLASSES.get(name, name), *other})
