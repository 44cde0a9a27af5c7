"""AMP404: mixed precision by apex."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Diagnostic, Severity
from amp_lint.vocabulary.settings import APEX_AMP, APEX_SCALING

if TYPE_CHECKING:
    from amp_lint.model import Model

_CALLS = frozenset({APEX_AMP, APEX_SCALING})
_MESSAGE = "`apex.amp` is deprecated in favour of torch's own mixed precision, and fixed no more"
_HELP = "use `torch.autocast` around the forward pass, and `torch.amp.GradScaler`"


class ApexAmp(Rule):
    """``amp.initialize(model, optimizer)``."""

    code = "AMP404"
    name = "apex-amp"
    severity = Severity.INFO
    requires = (frozenset({"apex"}), frozenset(name.rpartition(".")[2] for name in _CALLS))
    calls = _CALLS

    def visit_call(self, call: cst.Call, name: str, model: Model) -> Iterator[Diagnostic]:
        """Report where a training is set up so, not only with a torch that has no autocast yet.

        Or where a file scales losses for one that others set up.
        """
        imported = [each.node for each in model.names.every_binding() if _is_apex(each.qualified)]
        if imported and all(_asks_for_version(model, node) for node in imported):
            return
        if name != APEX_AMP and any(_is_set_up(model, each) for each in model.tree.nodes(cst.Call)):
            return
        yield replace(self.report(model, call, _MESSAGE, help=_HELP), deprecated=name)


def _is_set_up(model: Model, call: cst.Call) -> bool:
    return model.names.is_any(call.func, {APEX_AMP})


def _is_apex(name: str | None) -> bool:
    return (name or "").partition(".")[0] == APEX_AMP.partition(".")[0]


def _asks_for_version(model: Model, node: cst.CSTNode) -> bool:
    """Whether a test of the version of torch decides about a place."""
    from amp_lint.flow.branches import arms

    return any("torch.__version__" in model.tree.source(test) for test, _ in arms(model.tree, node))
