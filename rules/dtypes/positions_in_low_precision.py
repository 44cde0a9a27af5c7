"""AMP315: positions in a dtype that does not have all whole numbers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.mistake import Account, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Diagnostic, Severity, quoted
from amp_lint.vocabulary import written
from amp_lint.vocabulary.operations import EXACT, VIEWS, operations

from ._low import LOWERING, REGIONS, elsewhere, first, shown

if TYPE_CHECKING:
    from amp_lint.amp.dtypes import Run, Value
    from amp_lint.model import Model
    from amp_lint.syntax.facts import Facts

_LOWERED = ("einsum", "matmul", "bmm", "half", "float16", "bfloat16", "dtype", "type_as")
"""In code that makes positions low, or that multiplies them."""

_HELP = "keep them in float32, with autocast off where they are multiplied"
_SCALED = VIEWS | {"mul", "div", "neg"}
"""What is done to the numbers of frequencies before they become exponents."""
_LIMITS = " and ".join(f"{dtype} to {most}" for dtype, most in EXACT.items())


class PositionsInLowPrecision(Rule):
    """``torch.arange(n, dtype=torch.bfloat16)``, and positions in a product under autocast."""

    code = "AMP315"
    name = "positions-in-low-precision"
    severity = Severity.WARNING
    preview = True
    observed = (
        Account(
            Mistake.ROUNDED_POSITIONS,
            "{values:g} positions are {kept:g} values in {dtype}",
            "count and multiply them in float32, and cast what comes of it",
        ),
    )
    requires = (LOWERING | {"forward", "dtype"}, frozenset({"arange"}))
    pattern = written.look(_LOWERED, r"\b", r"\b") | written.pattern(r"[\w\])] ?@ ?[\w(]", "@")
    elsewhere = REGIONS

    def may(self, facts: Facts) -> bool:
        """Whether there may be anything low, or a range in the dtype of something else."""
        words = facts.words | facts.linked
        return not words.isdisjoint(LOWERING | {"forward"}) or any(
            keyword.arg == "dtype" and isinstance(keyword.value, ast.Attribute)
            for call in facts.calls.get("arange", ())
            for keyword in call.keywords
        )

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Judge what is made or cast, and every product of positions."""
        for node in (*model.tree.nodes(cst.Call), *model.tree.nodes(cst.BinaryOperation)):
            yield from first(model, node, self._judge, node, supposing=True)

    def _judge(self, model: Model, run: Run, node: cst.BaseExpression) -> Diagnostic | None:
        value = run.of(node)
        if value.counts and value.low and _is_new(run, node):
            if value.most is None and _is_of_fractions(model, node):
                return None
            return self._diagnose(model, run, node, value, frozenset(value.low), value.most)
        if value.counts and value.follows and _counts_pairs(model, run, node, value.follows):
            where = f"where {quoted(value.follows)} is low: exact are {_LIMITS}"
            message = f"positions are rounded {where}"
            return self.report(model, node, message, help=_HELP)
        factor = _factor(model, run, node)
        state = run.state(node)
        if factor is None or state is None:
            return None
        return self._diagnose(model, run, node, value, state.dtypes, factor.most)

    def _diagnose(
        self,
        model: Model,
        run: Run,
        node: cst.BaseExpression,
        value: Value,
        dtypes: frozenset[str],
        most: float | None,
    ) -> Diagnostic | None:
        bad = [d for d in sorted(dtypes) if d in EXACT and (most is None or most > EXACT[d] + 1)]
        if not bad:
            return None
        message = (
            f"positions are rounded to {bad[0]} here, which is not exact from {EXACT[bad[0]]} on"
            f"{elsewhere(run)}"
        )
        return self.report(model, node, message, shown(model, run, value), help=_HELP)


def _is_of_fractions(model: Model, node: cst.BaseExpression) -> bool:
    """Whether a range counts no positions: it is divided by its end, or becomes an exponent.

    Fractions are as exact as their dtype, and there are as few frequencies as a vector is long.
    """
    home = model.tree.ancestor(node, cst.FunctionDef) or model.tree.module
    exponents = (
        each.right
        for each in model.tree.below(home, cst.BinaryOperation)
        if isinstance(each.operator, cst.Power)
    )
    made_of = (part for each in exponents for part in model.sources.of(each, _SCALED))
    return _is_divided_by_its_end(model, node) or any(part is node for part in made_of)


def _is_divided_by_its_end(model: Model, node: cst.BaseExpression) -> bool:
    """``arange(n) / n``, ``arange(n) / (n - 1)``."""
    from amp_lint.flow.values import arguments

    quotient = model.tree.parent(node)
    if not isinstance(node, cst.Call) or not isinstance(quotient, cst.BinaryOperation):
        return False
    given, right = arguments(node), quotient.right
    end = given.get(1, "end") or given.get(0, "end")
    divisor = right.left if isinstance(right, cst.BinaryOperation) else right
    if end is None or right is node or not isinstance(quotient.operator, cst.Divide):
        return False
    return model.tree.source(end) == model.tree.source(divisor)


def _counts_pairs(model: Model, run: Run, node: cst.BaseExpression, owner: str) -> bool:
    """Whether a range ends at a product of sizes, as of all elements of an image."""
    from amp_lint.flow.values import literal
    from amp_lint.syntax.names import dotted

    if not isinstance(node, cst.Call) or not any(_named(arg, "dtype") for arg in node.args):
        return False
    read = (each for each in model.tree.below(run.function, cst.Attribute))
    if not any(dotted(each) == f"{owner}.shape" for each in read):
        return False
    given = [arg.value for arg in node.args if arg.keyword is None and not arg.star]
    end = [arg.value for arg in node.args if _named(arg, "end")] or given[-1:][: len(given) < 3]
    return any(
        isinstance(product.operator, cst.Multiply)
        and {literal(product.left), literal(product.right)} == {...}
        for one in end
        for value in model.values.alternatives(one)
        for product in (value, *model.tree.below(value, cst.BinaryOperation))
        if isinstance(product, cst.BinaryOperation)
    )


def _named(arg: cst.Arg, name: str) -> bool:
    return arg.keyword is not None and arg.keyword.value == name


def _is_new(run: Run, node: cst.BaseExpression) -> bool:
    """Whether positions become low at a node: what it is made of is not."""
    if not isinstance(node, cst.Call):
        return False
    owner = node.func.value if isinstance(node.func, cst.Attribute) else None
    before = run.of(owner)
    return not (before.counts and before.low) and run.of(node).why is not None


def _factor(model: Model, run: Run, node: cst.BaseExpression) -> Value | None:
    """The positions in float32, or their frequencies, that autocast casts for a product."""
    from amp_lint.amp.dtypes import all_off_cuda

    state = run.state(node)
    if state is None or not state.is_on:
        return None
    operands: list[cst.BaseExpression] = []
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.MatrixMultiply):
        operands = [node.left, node.right]
    elif isinstance(node, cst.Call):
        known = model.dtypes.operation(node, run)
        if known is None or operations().policies.get(state.device, {}).get(known[0]) != "low":
            return None
        operands = [known[1], *(arg.value for arg in node.args)]
    values = [run.of(operand) for operand in operands]
    if state.device == "cuda" and all_off_cuda(values):
        return None
    return next((v for v in values if v.locates and "float32" in v.dtypes), None)
