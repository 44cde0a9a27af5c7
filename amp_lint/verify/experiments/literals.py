"""Literal arguments of the user's code as Python values."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import Any

import torch

from amp_lint.verify.terms import Const, Form, Global, Op, Seq, Term, show


class Unknown:
    """An argument that is not a literal; equal texts are equal values."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unknown) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return self.text


def value(term: Term) -> object:
    """The value of a literal, of ``torch.float16`` and the like; else an `Unknown`."""
    match term:
        case Const(literal):
            return literal
        case Global(name) if name.startswith("torch."):
            found = getattr(torch, name.removeprefix("torch."), None)
            return found if isinstance(found, torch.dtype) else Unknown(name)
        case Seq("tuple" | "list", items):
            return tuple(value(item) for item in items)
        case _:
            return Unknown(show(term))


_ARITHMETIC: MappingProxyType[str, Callable[..., float]] = MappingProxyType(
    {name: getattr(operator, name) for name in ("add", "sub", "mul", "truediv", "floordiv", "neg")}
)


def number(term: Term) -> float | None:
    """The number that a term is, whatever the inputs are: of ``4 * 16`` too; None if it is none."""
    match term:
        case Const(bool()):
            return None
        case Const(int() | float() as literal):
            return literal
        case Op(Form.OPERATOR, name, args) if name in _ARITHMETIC:
            given = [each for each in map(number, args) if each is not None]
            try:
                return _ARITHMETIC[name](*given) if len(given) == len(args) else None
            except ArithmeticError:
                return None
        case Op(Form.OPERATOR, "pow", (Const(int() as base), Const(int() as power))):
            is_small = abs(base) <= _MOST_BASE and 0 <= power <= _MOST_POWER
            return base**power if is_small else None
    return None


_MOST_BASE, _MOST_POWER = 16, 64


def bound(
    function: Callable[..., Any], args: Iterable[Term], keywords: Iterable[tuple[str, Term]]
) -> dict[str, Any]:
    """The arguments of a call by the names of the parameters, with the defaults.

    Raises:
        TypeError: the call does not fit the signature.
    """
    given = _signature(function).bind(
        *map(value, args), **{name: value(term) for name, term in keywords}
    )
    given.apply_defaults()
    return dict(given.arguments)


@functools.lru_cache(maxsize=256)
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)
