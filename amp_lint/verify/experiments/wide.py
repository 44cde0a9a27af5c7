"""Expressions in float64 with a wider exponent: what is positive is kept as its logarithm.

In plain float64 the logarithm of a softmax is -inf from a gap of 745 between two logits on, and an
exponential overflows at 710. There the old code would be no reference for the new one. Here each
exponential stays a logarithm until something needs the number itself, by identities that hold for
all numbers: ``log(exp(x)) = x``, ``exp(x) * exp(y) = exp(x + y)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from amp_lint.verify.experiments import operations
from amp_lint.verify.experiments.names import MOVES
from amp_lint.verify.experiments.operations import Environment, Program, Setting, Torch
from amp_lint.verify.terms import Form, Input, Op, Seq, Term, walk

_SAME = MOVES - {"cat", "diag", "masked_fill", "stack", "where"} | {"amax", "amin", "double", "to"}
"""Operations that move or choose numbers, whichever they are: what they do to logarithms is right.

Not those that bring in numbers of their own.
"""


@dataclass(frozen=True, slots=True)
class Log:
    """Positive numbers."""

    log: torch.Tensor
    rest: torch.Tensor | None = None
    """The logarithm of 1 minus the numbers, where it is known better than by subtraction."""


def build(term: Term, setting: Setting) -> Program:
    """A term as a function of its tensor inputs, as `operations.build` makes one."""
    run = _build(term, setting)
    return lambda environment: _plain(run(environment))


def _plain(value: Torch | Log) -> Torch:
    """The numbers themselves."""
    if isinstance(value, Log):
        return value.log.exp()
    if isinstance(value, (tuple, list)) and any(isinstance(item, (Log, list)) for item in value):
        return type(value)(map(_plain, value))
    return value


def _build(term: Term, setting: Setting) -> Program:
    if isinstance(term, Seq) and term.kind != "slice":
        items = [_build(item, setting) for item in term.items]
        make = tuple if term.kind == "tuple" else list
        return lambda environment: make([item(environment) for item in items])
    if not isinstance(term, Op) or operations.is_module(term):
        return operations.build(term, setting)
    return _operation(term, setting)


def _operation(op: Op, setting: Setting) -> Program:
    """An operation by its rule, if it has one that fits what it is given; else on the numbers."""
    applied = op.args[0] if op.form is Form.APPLY else op
    assert isinstance(applied, Op)
    name = applied.last
    args = [_build(arg, setting) for arg in op.args]
    keywords = {key: _build(value, setting) for key, value in op.keywords}
    on_values = operations.build(_with_inputs(op), setting)

    def run(environment: Environment) -> Torch | Log:
        given = [arg(environment) for arg in args]
        named = {key: value(environment) for key, value in keywords.items()}
        found = _RULES[name](given, named) if name in _RULES else None
        if found is not None:
            return found
        values = {_KEY.format(at): value for at, value in (*enumerate(given), *named.items())}
        if name in _SAME and isinstance(given[0], Log):
            moved = on_values({**environment, **values, _KEY.format(0): given[0].log})
            if isinstance(moved, (tuple, list)):
                return tuple(map(Log, moved))
            if moved.dtype is given[0].log.dtype:
                return Log(moved)
        return on_values({**environment, **{key: _plain(v) for key, v in values.items()}})

    return run


_KEY = "argument {} of an operation"


def _with_inputs(op: Op) -> Op:
    """An operation with an input for each argument that is computed."""

    def visit(at: int | str, term: Term) -> Term:
        computed = any(isinstance(part, Op) for part in walk(term))
        return Input(_KEY.format(at)) if computed and not operations.is_module(term) else term

    args = tuple(visit(at, arg) for at, arg in enumerate(op.args))
    return Op(op.form, op.name, args, tuple((key, visit(key, v)) for key, v in op.keywords))


# --- rules --------------------------------------------------------------------------------------

_Given = Sequence[Any]
_Named = Mapping[str, Any]
_Rule = Callable[[_Given, _Named], Torch | Log | None]


def _log_of(value: Torch | Log) -> torch.Tensor | None:
    """The logarithm of what is positive; None for what is not, or may not be."""
    if isinstance(value, Log):
        return value.log
    if isinstance(value, (bool, int, float)):
        return torch.tensor(math.log(value), dtype=torch.float64) if value > 0 else None
    if isinstance(value, torch.Tensor) and value.is_floating_point() and bool((value > 0).all()):
        return value.log()
    return None


def _number(value: Torch | Log) -> torch.Tensor | None:
    """A tensor of floats; None if it is none."""
    plain = _plain(value)
    is_float = isinstance(plain, torch.Tensor) and plain.is_floating_point()
    return plain if is_float else None


def _exponential(factor: float) -> _Rule:
    def rule(given: _Given, named: _Named) -> Log | None:
        number = _number(given[0])
        return None if number is None or named else Log(number * factor)

    return rule


def _softmax(sign: float) -> _Rule:
    def rule(given: _Given, named: _Named) -> Log | None:
        owner, *rest = given
        if isinstance(owner, torch.nn.Module):
            dim, number = getattr(owner, "dim", None), _number(rest[0])
        else:
            dim, number = named.get("dim", rest[0] if rest else None), _number(owner)
        if number is None or not isinstance(dim, int):
            return None
        return Log(torch.log_softmax(sign * number, dim))

    return rule


def _sigmoid(given: _Given, named: _Named) -> Log | None:
    number = _number(given[-1])
    if number is None or named:
        return None
    one, other = (torch.nn.functional.logsigmoid(sign * number) for sign in (1, -1))
    return Log(one, other)


def _logarithm(base: float) -> _Rule:
    def rule(given: _Given, named: _Named) -> Torch | None:
        return given[0].log / math.log(base) if isinstance(given[0], Log) else None

    return rule


def _log1p(given: _Given, named: _Named) -> Torch | None:
    if not isinstance(given[0], Log):
        return None
    return torch.logaddexp(given[0].log, torch.zeros_like(given[0].log))


def _power(exponent: float) -> _Rule:
    def rule(given: _Given, named: _Named) -> Log | None:
        return Log(given[0].log * exponent) if isinstance(given[0], Log) else None

    return rule


def _pow(given: _Given, named: _Named) -> Log | None:
    base, exponent = (*given, *named.values())[:2]
    if isinstance(base, Log) and isinstance(exponent, (int, float)):
        return Log(base.log * exponent)
    return None


def _combined(combine: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> _Rule:
    """Of two positive numbers, one of them kept as its logarithm."""

    def rule(given: _Given, named: _Named) -> Log | None:
        if len(given) != 2 or named or not any(isinstance(value, Log) for value in given):
            return None
        one, other = map(_log_of, given)
        return None if one is None or other is None else Log(combine(one, other))

    return rule


def _difference(given: _Given, named: _Named) -> Log | None:
    """``1 - sigmoid(x)``."""
    if len(given) != 2 or named or not isinstance(given[1], Log) or given[1].rest is None:
        return None
    is_one = isinstance(given[0], (int, float)) and given[0] == 1
    return Log(given[1].rest, given[1].log) if is_one else None


def _sum(given: _Given, named: _Named) -> Log | None:
    return _reduced(given, named, mean=False)


def _mean(given: _Given, named: _Named) -> Log | None:
    return _reduced(given, named, mean=True)


def _reduced(given: _Given, named: _Named, mean: bool) -> Log | None:
    owner, *rest = given
    if not isinstance(owner, Log) or len(rest) > 2:
        return None
    dims = named.get("dim", named.get("axis", rest[0] if rest else None))
    keep = bool(named.get("keepdim", rest[1] if len(rest) > 1 else False))
    if dims is None:
        dims = tuple(range(owner.log.dim()))
    total = torch.logsumexp(owner.log, dims, keepdim=keep)
    count = owner.log.numel() / max(1, total.numel())
    return Log(total - math.log(count) if mean else total)


def _item(given: _Given, named: _Named) -> Torch | Log | None:
    """One of several results."""
    owner, at = given
    return owner[at] if isinstance(owner, (tuple, list)) else None


_PRODUCT = _combined(torch.add)
_QUOTIENT = _combined(torch.sub)
_SUM = _combined(torch.logaddexp)
_RULES: dict[str, _Rule] = {
    "exp": _exponential(1.0),
    "exp2": _exponential(math.log(2)),
    "softmax": _softmax(1.0),
    "Softmax": _softmax(1.0),
    "softmin": _softmax(-1.0),
    "Softmin": _softmax(-1.0),
    "sigmoid": _sigmoid,
    "expit": _sigmoid,
    "Sigmoid": _sigmoid,
    "log": _logarithm(math.e),
    "log2": _logarithm(2.0),
    "log10": _logarithm(10.0),
    "log1p": _log1p,
    "sqrt": _power(0.5),
    "rsqrt": _power(-0.5),
    "square": _power(2.0),
    "reciprocal": _power(-1.0),
    "pow": _pow,
    "mul": _PRODUCT,
    "multiply": _PRODUCT,
    "truediv": _QUOTIENT,
    "div": _QUOTIENT,
    "divide": _QUOTIENT,
    "true_divide": _QUOTIENT,
    "add": _SUM,
    "sub": _difference,
    "sum": _sum,
    "mean": _mean,
    "getitem": _item,
}
