"""AMP301: the logarithm of a softmax, taken in two steps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.edit import edits
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Edit, Fix, Severity

from ._fuse import fuse, respell

if TYPE_CHECKING:
    from amp_lint.amp.operations import Operation
    from amp_lint.model import Model
    from amp_lint.syntax.facts import Facts

_SOFTMAX = frozenset({"softmax", "Softmax"})
_SELECT = {
    "contiguous", "detach", "diagonal", "expand", "flatten", "gather", "getitem", "index_select",
    "movedim", "permute", "reshape", "select", "squeeze", "swapaxes", "t", "take_along_dim",
    "transpose", "unsqueeze", "view",
}  # fmt: skip
"""What rearranges or picks elements, so that it may as well be done after the logarithm."""
_FLOORS = {"add", "clamp", "clamp_min", "clip"}
_CASTS = {"double", "float", "to", "type_as"}
_LARGEST_EPS = 1e-3
_EPS_NAME = re.compile(r"(^|_|\.)(eps|epsilon|tiny|smallest_normal)(_|$|\d)", re.IGNORECASE)
_DIM_NAME = re.compile(r"(^|_|\.)(dim|axis)(_|$|\d)", re.IGNORECASE)


_PLAIN = (
    "log(softmax) is -inf 104 below the top logit, its gradient NaN 88.7 below (float16: 17.3 and "
    "11.1)"
)
_WITH_FLOOR = (
    "the floor under log(softmax) hides the -inf: what lies below it is wrong and gets no gradient"
)


class LogSoftmax(Rule):
    """``log(softmax(x))`` is -inf, and its gradient NaN, where ``log_softmax(x)`` is right."""

    code = "AMP301"
    name = "log-softmax"
    severity = Severity.ERROR
    fixes = (Applicability.SAFE, Applicability.UNSAFE)
    requires = (_SOFTMAX, frozenset({"log"}))
    anchors = (frozenset({"log", "LOG", "Log"}),)

    def may(self, facts: Facts) -> bool:
        """Whether what something named log is given may be a softmax."""
        through = _SELECT | _FLOORS | _CASTS | {"log"}
        names = (name for name in facts.calls if "log" in name.lower())
        logs = (facts.calls[name] for name in names if facts.may_be(name, {"log"}))
        return any(facts.leads(call, _SOFTMAX, through) for calls in logs for call in calls)

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Judge every call of something named log."""
        from ._choices import Choices

        for call in model.tree.nodes(cst.Call):
            function = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
            if isinstance(function, cst.Name) and "log" in function.value.lower():
                steps = _steps(model, call)
                if steps and not (
                    model.part(Choices).is_compared(call)
                    or _is_bounded_entropy(model, call, steps)
                    or model.part(Choices).picks_likely(steps[1:-1], steps[-1])
                ):
                    yield self._diagnose(model, call, steps)

    def _diagnose(self, model: Model, call: cst.Call, steps: list[Operation]) -> Diagnostic:
        message = _WITH_FLOOR if any(_is_floor(model, step) for step in steps) else _PLAIN
        apart = any(step.via for step in steps) and not steps[-1].elsewhere
        related = [(steps[-1].node, "the softmax")] if apart else []
        fix = _fix(model, call, steps)
        return self.report(model, call, message, related, fix, help="use `log_softmax`")


def _steps(model: Model, call: cst.Call) -> list[Operation]:
    """The operations from the log down to the softmax it is of; [] if it is of none."""
    steps: list[Operation] = []
    for step in model.operations.chain(call):
        steps.append(step)
        if len(steps) == 1 and (step.name != "log" or step.args.keywords or step.args.positional):
            return []
        if step.name == "softmax":
            return steps if _is_softmax(model, step) else []
        if len(steps) > 1 and step.name not in _SELECT | _CASTS and not _is_floor(model, step):
            return []
    return []


def _is_bounded_entropy(model: Model, call: cst.Call, steps: list[Operation]) -> bool:
    """``p * log(p + eps)`` is right to within eps, however small ``p`` is."""
    weights = [through.binding for step in steps for through in step.via]
    return any(_is_floor(model, step) for step in steps) and any(
        model.operations.weighted_by(call, weight) for weight in weights
    )


def _is_softmax(model: Model, step: Operation) -> bool:
    """Whether it is torch's: a method's argument must be a dimension, and nothing is ``out=``."""
    if step.args.starred or "out" in step.args.keywords:
        return False
    dim = step.args.get(0, "dim")
    if step.form.name != "METHOD" or "dim" in step.args.keywords:
        return True
    return dim is not None and (
        all(isinstance(value, int) for value in model.values.constants(dim))
        or bool(_DIM_NAME.search(model.tree.source(dim)))
    )


def _is_floor(model: Model, step: Operation) -> bool:
    """Whether it keeps a probability from 0: ``+ eps``, ``.clamp(min=eps)``."""
    lower = step.args.get(0, "min")
    return step.name in _FLOORS and lower is not None and _is_small(model, lower)


def _is_small(model: Model, node: cst.BaseExpression) -> bool:
    values = model.values.constants(node)
    if all(isinstance(value, float) for value in values):
        return all(0 < value <= _LARGEST_EPS for value in values if isinstance(value, float))
    return bool(_EPS_NAME.search(model.tree.source(node)))


def _fix(model: Model, call: cst.Call, steps: list[Operation]) -> Fix | None:
    softmax, between = steps[-1], steps[1:-1]
    hops = [through for step in steps for through in step.via]
    if len(hops) > 1 or softmax.elsewhere or any(step.name in _CASTS for step in between):
        return None
    if any(step.elsewhere and step.name in _SELECT for step in between):
        return None
    if respell(model, softmax, "log_softmax", call) is None:
        return None

    def render(logits: str | None) -> str:
        text = respell(model, softmax, "log_softmax", call, logits) or ""
        for step in reversed(between):
            if step.name in _SELECT and step.input is not None:
                inner = Edit(*model.tree.outer_span(step.input), text)
                text = edits.rewrite(model.tree, step.node, [inner])
        return text

    fused = fuse(model, call, softmax, hops[0] if hops else None, render)
    if fused is None:
        return None
    floored = any(_is_floor(model, step) for step in between)
    picked = fused.keeps and any(step.name in _SELECT for step in between)
    trust = Applicability.UNSAFE if floored or picked else Applicability.SAFE
    return Fix("Replace with `log_softmax`", fused.edits, trust)
