"""AMP311: a norm layer whose eps is too small for float16 gradients."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.edit import edits
from amp_lint.mistake import Account, Mistake
from amp_lint.rule import Rule
from amp_lint.syntax.facts import argument
from amp_lint.text.diagnostic import Applicability, Diagnostic, Fix, Severity, quoted
from amp_lint.vocabulary.meaning import Role
from amp_lint.vocabulary.table import words
from amp_lint.vocabulary.written import pattern

if TYPE_CHECKING:
    from amp_lint.model import Model
    from amp_lint.syntax.facts import Facts

_POSITIONS = {
    "torch.nn.LayerNorm": 1,
    "torch.nn.GroupNorm": 2,
    "torch.nn.RMSNorm": 1,
    "torch.nn.functional.layer_norm": 4,
    "torch.nn.functional.group_norm": 4,
    "torch.nn.functional.rms_norm": 3,
    "torch.layer_norm": 4,
    "torch.group_norm": 4,
    "torch.rms_norm": 3,
}
"""Norms, and where each takes its eps when it is given by position."""
_PLACES = {name.rpartition(".")[2]: place for name, place in _POSITIONS.items()}
_PARTIAL = "functools.partial"
_NAMES = frozenset({*_PLACES, "partial"})
_LEAST = 1e-7
_DEFAULT = "1e-5"


def _power(before: str) -> str:
    """A power of what ends so; it begins with plain letters, which `re` looks for quickly."""
    return rf"\*\*(?:(?<={before}\*\*)|(?<={before}\s\*\*)|(?<=\s\s\*\*))"


_INTEGER = r"\d\w*(?![\w.])"
_EXPONENT = r"-0*(?:[7-9]|\d_|[1-9]\d)"
_SMALL_NUMBER = (
    pattern(rf"e{_EXPONENT}", "e-")
    | pattern(rf"E{_EXPONENT}", "E-")
    | pattern(r"\.0[\d_]*[eE]-", ".0")
    | pattern(r"\.0000000", ".0000000")
    | pattern(rf"{_power('[0-9.)]')}[\s(]*-[\s(]*{_INTEGER}", "**")
    | pattern(rf"{_power('[0-9.]')}[\s(+]*{_INTEGER}", "**")
)
"""How a number under `_LEAST` may be written."""


class SmallNormEps(Rule):
    """An eps under 1e-7 lets the gradient of a constant row overflow float16."""

    code = "AMP311"
    name = "small-norm-eps"
    severity = Severity.INFO
    fixes = (Applicability.UNSAFE,)
    observed = (
        Account(
            Mistake.SMALL_NORM_EPS,
            "a norm layer with eps {eps:g} in float16: gradients of constant rows overflow",
            f"use the default eps, {_DEFAULT}",
        ),
    )
    requires = (
        frozenset(_PLACES),
        frozenset({"HalfTensor", "float16", "half"}) | words(Role.SCALER, Role.REGION),
    )
    pattern = _SMALL_NUMBER
    calls = frozenset(_POSITIONS) | {_PARTIAL}

    def may(self, facts: Facts) -> bool:
        """Whether a norm may be given such a number, here or by a file that this one imports."""
        return any(
            facts.may_be(name, _NAMES)
            for name, calls in facts.calls.items()
            if any(_may_be_small(facts, call) for call in calls)
        )

    def visit_call(self, call: cst.Call, name: str, model: Model) -> Iterator[Diagnostic]:
        """Judge the eps of one norm."""
        function = model.values.argument(call, 0, None)
        if name == _PARTIAL and not (function and model.names.is_only(function, _POSITIONS)):
            return
        eps = model.values.argument(call, _POSITIONS.get(name), "eps")
        if eps is None or not _is_small(model, eps) or model.modules.is_pretrained(call):
            return
        shown = model.halves.shown
        if shown is None:
            return
        fix = Fix(
            f"Use eps={_DEFAULT}",
            (edits.replace_node(model.tree, eps, _DEFAULT),),
            Applicability.UNSAFE,
        )
        given, growth = quoted(f"eps={model.tree.source(eps)}"), f"{_growth(model, eps):.2g}"
        message = (
            f"{given} makes gradients of constant rows, as in padding, {growth} times larger: "
            "float16 overflows"
        )
        help = f"use {_DEFAULT}, which leaves room for the loss scale"
        yield self.report(model, eps, message, [(shown, "float16 gradients")], fix, help=help)


def _may_be_small(facts: Facts, call: ast.Call) -> bool:
    """Whether the eps of a norm may be such a number."""
    eps = argument(call, _PLACES.get(facts.name(call)), "eps")
    for end in facts.ends(eps) if eps is not None else ():
        match end:
            case ast.Constant(value=float(value)):
                small = 0 < value < _LEAST
            case ast.Name(id=name) | ast.Attribute(attr=name):
                small = facts.is_linked(facts.imported.get(name, name))
            case _:
                small = isinstance(end, ast.BinOp)
        if small:
            return True
    return False


def _growth(model: Model, eps: cst.BaseExpression) -> float:
    """The most that the gradient of a row without variance grows by: 1/sqrt(eps)."""
    values = model.values.constants(eps)
    return max(1 / math.sqrt(value) for value in values if isinstance(value, float))


def _is_small(model: Model, eps: cst.BaseExpression) -> bool:
    values = model.values.constants(eps)
    return all(isinstance(value, float) and 0 < value < _LEAST for value in values)
