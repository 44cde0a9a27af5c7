"""Expressions of user code as plain data: what is lifted from a file and run by the verifier.

A term holds torch operations, literals and *inputs*: whatever the verifier does not know, such as
``self.head(x)`` or ``cfg.temperature``, is an input, and the same text is the same input. A term
is data; evaluating it runs torch operations of an allow-list and nothing of the user's.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

WHEN = "@"
"""Stands for the keyword of an operation that says when it asked, where the answer may change."""
Value = None | bool | int | float | str


SMALL = 1e-3
"""The largest constant that is taken for a guard."""
EPS_NAME = re.compile(r"(^|[._ ])(eps|epsilon|tiny)$", re.IGNORECASE)
"""What the inputs are called that are taken for guards."""
AS_EPS = " as eps"
"""Behind the name of one that is a guard by its default."""


class Form(enum.Enum):
    """How an operation is written."""

    FUNCTION = "function"
    """``torch.nn.functional.softmax(x, 1)``: `Op.name` is the qualified name."""
    METHOD = "method"
    """``x.softmax(1)``: `Op.name` is the method, the first argument the receiver."""
    MODULE = "module"
    """``nn.Softmax(dim=1)``: `Op.name` is the qualified class. Called, it is an APPLY of it."""
    APPLY = "apply"
    """``m(x)``: the first argument is what is called, `Op.name` is ""."""
    OPERATOR = "operator"
    """``x + y``, ``-x``, ``x[i]``, ``x < y``: the name of the function of the standard module
    ``operator``: ``add``, ``neg``, ``getitem``, ``truediv``, ``matmul``, ``pow``, ``lt``."""
    ATTRIBUTE = "attribute"
    """``x.T``, ``x.shape``: `Op.name` is the attribute, the only argument its owner."""
    OTHER = "other"
    """Not an operation: a choice, a loop's result, a call of unknown code, a display of a dict.
    It is compared, never evaluated; `Op.name` says what it is."""


@dataclass(frozen=True, slots=True, eq=False)
class Const:
    """A literal number, string, bool or None. Equal are those that are written alike.

    ``1``, ``1.0`` and ``True`` are three: an index or a dimension is another thing by each.
    """

    value: Value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Const):
            return NotImplemented
        return _is_alike(self.value, other.value)

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


@dataclass(frozen=True, slots=True)
class Global:
    """Something of an imported module, by its qualified name: ``torch.float32``."""

    name: str


@dataclass(frozen=True, slots=True)
class Input:
    """A value that is not known. ``key`` is the text that stands for it."""

    key: str
    at: int = 0
    """When it is read: how much was done before that may have changed it."""


@dataclass(frozen=True, slots=True)
class Seq:
    """A tuple, list or slice of terms."""

    kind: str
    """``tuple``, ``list``, ``slice`` (of three items)."""
    items: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Op:
    """An operation applied to terms."""

    form: Form
    name: str
    args: tuple[Term, ...] = ()
    keywords: tuple[tuple[str, Term], ...] = ()
    """Sorted by name."""

    @property
    def last(self) -> str:
        """The name without where it is from: ``softmax`` of ``torch.nn.functional.softmax``."""
        return self.name.rpartition(".")[2]


Term = Const | Global | Input | Seq | Op


def _is_alike(one: Value, other: Value) -> bool:
    """Whether two literals are of one type and value; 0.0 is not -0.0."""
    if type(one) is not type(other):
        return False
    return repr(one) == repr(other) if isinstance(one, float) else one == other


def mapped(term: Term, change: Callable[[Term], Term]) -> Term:
    """The term with each of its parts changed."""
    match term:
        case Seq(kind, items):
            return Seq(kind, tuple(map(change, items)))
        case Op(form, name, args, keywords):
            by_name = tuple((key, change(value)) for key, value in keywords)
            return Op(form, name, tuple(map(change, args)), by_name)
    return term


def children(term: Term) -> tuple[Term, ...]:
    """The terms right below one."""
    if isinstance(term, Op):
        return (*term.args, *(value for _, value in term.keywords))
    return term.items if isinstance(term, Seq) else ()


IN_ORDER = "in this order"
"""Around a call whose arguments are computed in the order in which they are written."""


def called(term: Term) -> Term:
    """A call without what says in which order its arguments are computed."""
    ordered = isinstance(term, Op) and term.form is Form.OTHER and term.name == IN_ORDER
    return term.args[0] if isinstance(term, Op) and ordered else term


def show(term: Term) -> str:
    """A term as Python, for messages."""
    match term:
        case Const(value):
            return repr(value)
        case Global(name):
            return name
        case Input(key):
            return key
        case Seq("slice", items):
            return ":".join("" if item == Const(None) else show(item) for item in items)
        case Seq(kind, items):
            inner = ", ".join(map(show, items))
            return f"({inner})" if kind == "tuple" else f"[{inner}]"
        case Op():
            return _show_op(term)


_SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "matmul": "@", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
    "and_": "&", "or_": "|", "xor": "^",
}  # fmt: skip
_PREFIXES = {"neg": "-", "pos": "+", "invert": "~", "not_": "not "}


def _show_op(op: Op) -> str:
    given = [show(arg) for arg in op.args]
    given += [f"{name}={show(value)}" for name, value in op.keywords if name != WHEN]
    if op.form is Form.OPERATOR:
        if op.name in _PREFIXES:
            return f"{_PREFIXES[op.name]}{given[0]}"
        if op.name == "getitem":
            return f"{given[0]}[{given[1]}]"
        return f"({given[0]} {_SIGNS.get(op.name, op.name)} {given[1]})"
    if op.form is Form.ATTRIBUTE:
        return f"{given[0]}.{op.name}"
    if op.form is Form.METHOD:
        return f"{given[0]}.{op.name}({', '.join(given[1:])})"
    if op.form is Form.APPLY:
        return f"{given[0]}({', '.join(given[1:])})"
    return f"{op.name}({', '.join(given)})"


def times(term: Term) -> dict[str, frozenset[int]]:
    """When each input of a term is read."""
    found: dict[str, set[int]] = {}
    for part in walk(term):
        if isinstance(part, Input):
            found.setdefault(part.key, set()).add(part.at)
    return {key: frozenset(at) for key, at in found.items()}


def walk(term: Term) -> Iterator[Term]:
    """A term and all below it."""
    yield term
    for child in children(term):
        yield from walk(child)
