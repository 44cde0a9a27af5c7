"""AMP317: squares in float16, which end at 255."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amp_lint._lazy import cst
from amp_lint.mistake import Account, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Diagnostic, Severity, quoted
from amp_lint.vocabulary import written
from amp_lint.vocabulary.operations import BOUNDED, ROOTS

from ._low import LOWERING, REGIONS, certain, elsewhere, first, is_somewhere, shown

if TYPE_CHECKING:
    from amp_lint.amp.dtypes import Run
    from amp_lint.model import Model

_MEANS = frozenset({"mean", "sum"})
_PRODUCTS = frozenset({"mul", "multiply"})
_HELP = "cast it before, as by `x.float()`"


class _Square(NamedTuple):
    """A product of a variable with itself."""

    node: cst.BaseExpression
    of: cst.Name


class SquaresOverflow(Rule):
    """``x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps)`` where x is float16."""

    code = "AMP317"
    name = "squares-overflow"
    severity = Severity.WARNING
    preview = True
    requires = (LOWERING | {"forward"}, _MEANS, ROOTS | {"var", "norm", "loss"})
    elsewhere = REGIONS
    reads_models = True
    observed = (
        Account(
            Mistake.SUMMED_SQUARES,
            "{infinite:g} squares of float16 numbers are inf, and summed: their root is inf, too",
            _HELP,
        ),
    )
    pattern = (
        written.pattern(r"\b([A-Za-z_]\w{0,200})\)? ?\* ?\(?\1\b", "*")
        | written.pattern(
            r"\bmul(?:tiply)?\((?:input=)?([A-Za-z_]\w{0,200}), ?(?:other=)?\1\)", "mul"
        )
        | written.pattern(r"\b([A-Za-z_]\w{0,200})\.mul(?:tiply)?\((?:other=)?\1\)", ".mul")
    )
    called_for = pattern

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Judge every square that is summed."""
        for node in (*model.tree.nodes(cst.BinaryOperation), *model.tree.nodes(cst.Call)):
            base = _squared(model, node)
            if base is not None and _is_summed(model, node):
                square = _Square(node, base)
                yield from first(model, node, self._judge, square, supposing=True)

    def _judge(self, model: Model, run: Run, square: _Square) -> Diagnostic | None:
        node, squared = square
        value, base = run.of(node), run.of(squared)
        written = squared.value
        if value.may_be("float16") and certain(run, value):
            message = f"{quoted(model.tree.source(node))} is inf in float16 from 256 on"
            related = shown(model, run, value)
            return self.report(model, node, message + elsewhere(run), related, help=_HELP)
        if base.follows != written or not is_somewhere(model) or not _is_norm(model, node, run):
            return None
        message = f"{quoted(model.tree.source(node))} is inf from 256 on where it is float16"
        return self.report(model, node, message, help=_HELP)


def _squared(model: Model, node: cst.BaseExpression) -> cst.Name | None:
    """What is multiplied by itself and may be large: ``x * x``, ``x.mul(x)``; no power."""
    is_product = isinstance(getattr(node, "operator", None), cst.Multiply)
    if not is_product and _last(getattr(node, "func", None)) not in _PRODUCTS:
        return None
    square = model.operations.of(node)
    base = square.input if square is not None and square.name == "square" else None
    if not isinstance(base, cst.Name):
        return None
    made = (getattr(value, "func", None) for value in model.values.alternatives(base))
    return base if all(_last(func) not in BOUNDED for func in made) else None


def _is_summed(model: Model, node: cst.CSTNode) -> bool:
    """Whether a sum or a mean of it is taken: ``(x * x).mean(-1)``, ``torch.mean(x * x, -1)``."""
    parent = model.tree.parent(node)
    if isinstance(parent, cst.Attribute):
        return parent.attr.value in _MEANS
    call = model.tree.parent(parent) if isinstance(parent, cst.Arg) else None
    return isinstance(call, cst.Call) and _last(call.func) in _MEANS


def _is_norm(model: Model, node: cst.CSTNode, run: Run) -> bool:
    """Whether a module divides by the root of it, as norms do of what they are given."""
    if not isinstance(run.function, cst.FunctionDef) or not model.dtypes.is_of_module(run.function):
        return False
    return any(_last(call.func) in ROOTS for call in model.tree.below(run.function, cst.Call))


def _last(func: cst.CSTNode | None) -> str:
    name = func.attr if isinstance(func, cst.Attribute) else func
    return name.value if isinstance(name, cst.Name) else ""
