"""AMP204: binary cross entropy of probabilities while CUDA autocast is on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.edit import edits
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import (
    Applicability,
    Diagnostic,
    Edit,
    Fix,
    Severity,
    quoted,
)
from amp_lint.vocabulary.amp import IS_ON
from amp_lint.vocabulary.meaning import Role
from amp_lint.vocabulary.table import words
from amp_lint.vocabulary.written import AMP_OPTION

if TYPE_CHECKING:
    from amp_lint.amp.reach import Chain
    from amp_lint.model import Model

_FUNCTION = frozenset({"torch.nn.functional.binary_cross_entropy"})
_MODULE = frozenset({"torch.nn.BCELoss"})
_WITH_LOGITS = frozenset({"torch.nn.BCEWithLogitsLoss"})
_LOGITS = "torch.nn.functional.binary_cross_entropy_with_logits"
_SIGMOID = frozenset({"torch.sigmoid", "torch.nn.functional.sigmoid", "torch.special.expit"})
_MODE = re.compile(AMP_OPTION)
MESSAGE = "{} raises RuntimeError under CUDA autocast, even for float32 inputs"
HELP = "use `binary_cross_entropy_with_logits`, or turn autocast off around it"


class BceInAutocast(Rule):
    """A call that some way through the file reaches with CUDA autocast on."""

    code = "AMP204"
    name = "bce-in-autocast"
    severity = Severity.ERROR
    fixes = (Applicability.SAFE,)
    requires = (words(Role.REGION), frozenset({"BCELoss", "binary_cross_entropy"}))
    elsewhere = words(Role.REGION)

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report every call of the function, or of a module of the class.

        In preview, those too that another file of the project may run in such a region.
        """
        from amp_lint.flow.attempts import is_attempt

        from ._elsewhere import runs_elsewhere

        for call in model.tree.nodes(cst.Call):
            if not _is_loss(model, call) or is_attempt(model.tree, call) or _is_asked(model, call):
                continue
            message = MESSAGE.format(quoted(model.tree.source(call.func)))
            chain = next(model.reach.running(call), None)
            if chain is not None:
                related, option = _related(chain), _option(model, call)
                message = f"{message}; {quoted(option)} chooses it" if option else message
                found = self.report(
                    model, call.func, message, related, _fix(model, call), help=HELP
                )
                yield replace(found, preview=bool(option))
            elif place := runs_elsewhere(model, call):
                message = f"{message}; {place} may run it so"
                found = self.report(model, call.func, message, fix=_fix(model, call), help=HELP)
                yield replace(found, preview=True)


def _is_loss(model: Model, call: cst.Call) -> bool:
    if model.names.is_only(call.func, _FUNCTION):
        return True
    makers = model.origins.makers(call.func)
    return any(
        _makes(model, made, _MODULE) and not _depends_on_mode(model, made) for made in makers
    ) and (not _has_choice(model, call) or bool(_option(model, call)))


def _makes(model: Model, call: cst.Call, names: frozenset[str]) -> bool:
    """Whether a call may make an instance of a class of torch, be it one of several in a table."""
    return any(model.names.is_only(meant, names) for meant in model.origins.meant(call.func))


def _has_choice(model: Model, call: cst.Call) -> bool:
    """Whether the loss may be one of logits: autocast may be what chooses between them."""
    makers = model.origins.makers(call.func)
    return any(_makes(model, made, _WITH_LOGITS) for made in makers)


def _option(model: Model, call: cst.Call) -> str:
    """What chooses this loss among others by a text, as it is written; "" if nothing does."""
    from amp_lint.flow.branches import guards

    if not _has_choice(model, call):
        return ""
    made = [m for m in model.origins.makers(call.func) if _makes(model, m, _MODULE)]
    tables = (each.func for each in made if len(model.origins.meant(each.func)) > 1)
    if (chosen := next(tables, None)) is not None:
        return model.linked.source(chosen)
    tests = (guard.test for each in made for guard in guards(model.linked, each) if guard.holds)
    return next((model.linked.source(test) for test in tests if _compares_text(test)), "")


def _compares_text(test: cst.BaseExpression) -> bool:
    """``kind == "bce"``."""
    match test:
        case cst.Comparison(comparisons=[cst.ComparisonTarget(cst.Equal(), other)]):
            return isinstance(other, cst.SimpleString)
    return False


def _depends_on_mode(model: Model, made: cst.Call) -> bool:
    """Whether a test of whether there is autocast decides which loss is made."""
    from amp_lint.flow.branches import guards

    tests = (model.linked.source(guard.test) for guard in guards(model.linked, made))
    return any(map(_MODE.search, tests))


def _is_asked(model: Model, call: cst.Call) -> bool:
    """Whether the code looks whether autocast is on."""
    from amp_lint.flow.branches import guards

    return any(
        model.names.is_any(other.func, IS_ON)
        for guard in guards(model.linked, call)
        for other in model.tree.below(guard.test, cst.Call)
    )


def _related(chain: Chain) -> list[tuple[cst.CSTNode, str]]:
    found: list[tuple[cst.CSTNode, str]] = [(chain.entered[0].region.node, "autocast is on here")]
    return [*found, *((call, "this runs it") for call in chain.calls)]


def _fix(model: Model, call: cst.Call) -> Fix | None:
    """``binary_cross_entropy(torch.sigmoid(x), t)`` has the logits at hand."""
    from amp_lint.flow.values import arguments

    given = arguments(call)
    probability = None if given.starred else given.get(0, "input")
    if not isinstance(probability, cst.Call) or not model.names.is_only(call.func, _FUNCTION):
        return None
    unwrapped = _without_sigmoid(model, probability)
    renamed = _renamed(model, call)
    if unwrapped is None or renamed is None:
        return None
    title = "Replace with `binary_cross_entropy_with_logits`"
    return Fix(title, (renamed, *unwrapped), Applicability.SAFE)


def _renamed(model: Model, call: cst.Call) -> Edit | None:
    if isinstance(call.func, cst.Attribute):
        return edits.replace_node(model.tree, call.func.attr, _LOGITS.rpartition(".")[2])
    spelling = model.names.spelling_of(call, _LOGITS)
    return edits.replace_node(model.tree, call.func, spelling) if spelling is not None else None


def _without_sigmoid(model: Model, node: cst.Call) -> tuple[Edit, Edit] | None:
    """``torch.sigmoid(x)`` and ``x.sigmoid()`` become ``x``; None where a comment would go."""
    if model.names.is_only(node.func, _SIGMOID):
        if len(node.args) != 1 or node.args[0].keyword is not None or node.args[0].star:
            return None
        logits = node.args[0].value
    elif isinstance(node.func, cst.Attribute) and node.func.attr.value == "sigmoid":
        if node.args or model.names.qualified(node.func):
            return None
        logits = node.func.value
    else:
        return None
    (start, end), (first, last) = model.tree.span(node), model.tree.outer_span(logits)
    lost = model.tree.text[start:first] + model.tree.text[last:end]
    return None if "#" in lost else (Edit(start, first, ""), Edit(last, end, ""))
