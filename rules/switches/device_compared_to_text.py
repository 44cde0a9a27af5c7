"""AMP213: a torch.device that is compared with a text decides about AMP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.edit import edits
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Fix, Severity, quoted
from amp_lint.vocabulary import written
from amp_lint.vocabulary.meaning import Role
from amp_lint.vocabulary.operations import CASTS, DTYPES
from amp_lint.vocabulary.table import words

if TYPE_CHECKING:
    from amp_lint.model import Model
    from amp_lint.syntax.names import Binding

_MESSAGE = "{} is always {}{}: a `torch.device` equals no text"
_DEVICE = frozenset({"torch.device"})
_TEXT = r"[\"'][a-z]{2,5}(?::\d+)?[\"']"
_LOW = frozenset({"float16", "bfloat16"})
_DTYPES = frozenset(name for name, dtype in DTYPES.items() if dtype in _LOW)
_CASTS = frozenset(method for method, dtype in CASTS.items() if dtype in _LOW)
_CHOSEN = _CASTS | {name.rpartition(".")[2] for name in _DTYPES}
_MAX_STEPS = 3
"""Calls, one inside the other, that a device is followed into."""
_MOST = 64
"""Expressions that are followed back from one switch."""


class DeviceComparedToText(Rule):
    """``enabled=device == "cuda"``, which is False where device is a ``torch.device``."""

    code = "AMP213"
    name = "device-compared-to-text"
    severity = Severity.WARNING
    preview = True
    fixes = (Applicability.SUGGEST,)
    requires = (words(Role.REGION, Role.SCALER) | _CHOSEN, frozenset({"device"}))
    pattern = (
        written.pattern(rf"[=!]=\s*{_TEXT}", "==", "!=")
        | written.pattern(rf"{_TEXT}\s*[=!]=", "==", "!=")
        | written.pattern(rf"\bin\s*[(\[{{]\s*{_TEXT}", "in")
    )

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Judge every comparison that a region, a scaler or a low precision is switched by."""
        switching = {id(part): part for each in _switches(model) for part in _parts(model, each)}
        for comparison in sorted(switching.values(), key=model.tree.order):
            if model.tree.is_own(comparison):
                yield from self._judge(model, comparison)

    def _judge(self, model: Model, comparison: cst.Comparison) -> Iterator[Diagnostic]:
        sides = _sides(comparison)
        device = next((each for each in sides if _is_device(model, each)), None)
        chosen = next((each for each in sides if _is_by_default(model, each)), None)
        held = device or chosen
        texts = [text for each in sides if each is not held for text in _texts(each)]
        if held is None or not texts:
            return
        differs = isinstance(comparison.comparisons[0].operator, (cst.NotEqual, cst.NotIn))
        source = model.tree.source(held)
        message = _MESSAGE.format(
            quoted(model.tree.source(comparison)),
            differs,
            f" where {quoted(source)} is not given" if device is None else "",
        )
        is_type = not any(":" in text for text in texts)
        if device is None:  # which may be a text as well
            wanted = f"torch.device({source})"
            wanted = f"{wanted}.type" if is_type else f"str({wanted})"
            yield self.report(model, comparison, message, help=f"compare {quoted(wanted)}")
            return
        wanted = f"{source}.type" if is_type else f"str({source})"
        edit = edits.replace_node(model.tree, device, wanted)
        fix = Fix(f"Compare {quoted(wanted)}", (edit,), Applicability.SUGGEST)
        yield self.report(model, comparison, message, fix=fix, help=f"compare {quoted(wanted)}")


def _switches(model: Model) -> Iterator[cst.BaseExpression]:
    """What decides whether a region is entered, or a scaler made, and whether they are on.

    And whether something is cast to, or made in, a dtype of 16 bits.
    """
    from amp_lint.flow.branches import deciding

    placed = [(region.node, region.enabled) for region in model.regions.all]
    placed += [(call, model.roles.switch(call)) for call in model.roles.scaler_calls]
    placed += [(node, None) for node in _low(model)]
    for node, enabled in placed:
        if enabled is not None:
            yield enabled
        yield from (test for test, _ in deciding(model.tree, node))


def _low(model: Model) -> Iterator[cst.BaseExpression]:
    """The names of dtypes of 16 bits, and the calls that cast to one."""
    names = (name for word in sorted(_CHOSEN) for name in model.tree.named(word))
    for name in names:
        node = model.tree.parent(name)
        whole = node if isinstance(node, cst.Attribute) and node.attr is name else name
        if model.names.is_any(whole, _DTYPES):
            yield whole
    for call in model.tree.nodes(cst.Call):
        func = call.func
        if isinstance(func, cst.Attribute) and func.attr.value in _CASTS and not call.args:
            yield call


def _parts(model: Model, switch: cst.BaseExpression) -> Iterator[cst.Comparison]:
    """The comparisons in a switch, or in what it is called."""
    from amp_lint.syntax.tree import descendants

    todo, seen = [switch], {id(switch)}
    for node in todo:  # grows while it is read
        for part in (node, *descendants(node)):
            if isinstance(part, cst.Comparison):
                yield part
            elif isinstance(part, (cst.Name, cst.Attribute)) and len(seen) < _MOST:
                fresh = [v for v in model.values.alternatives(part) if id(v) not in seen]
                seen.update(map(id, fresh))
                todo += fresh


def _sides(comparison: cst.Comparison) -> list[cst.BaseExpression]:
    """The two sides of a test for equality, or for being one of several."""
    match comparison.comparisons:
        case [cst.ComparisonTarget(cst.Equal() | cst.NotEqual(), other)]:
            return [comparison.left, other]
        case [cst.ComparisonTarget(cst.In() | cst.NotIn(), cst.Tuple() | cst.List() as several)]:
            return [comparison.left, several]
    return []


def _texts(node: cst.BaseExpression) -> list[str]:
    """The text that an expression is, or those that a tuple or list has and nothing else."""
    from amp_lint.flow.values import literal

    if isinstance(node, (cst.Tuple, cst.List)):
        values = [literal(each.value) for each in node.elements]
    else:
        values = [literal(node)]
    texts = [value for value in values if isinstance(value, str)]
    return texts if len(texts) == len(values) else []


def _is_by_default(model: Model, node: cst.BaseExpression) -> bool:
    """Whether a parameter becomes a ``torch.device`` where the call does not give it."""
    bound = model.flow.reaching(node) if isinstance(node, cst.Name) else []
    parameters = [each for each in bound if each.kind == "parameter"]
    made = [each.value for each in bound if each.kind != "parameter"]
    return (
        bool(made)
        and len(parameters) == 1
        and _is_none(parameters[0])
        and all(each is not None and _is_made(model, each) for each in made)
    )


def _is_none(parameter: Binding) -> bool:
    """Whether a parameter is None where the call does not give it."""
    node = parameter.node
    default = node.default if isinstance(node, cst.Param) else None
    return isinstance(default, cst.Name) and default.value == "None"


def _is_device(model: Model, node: cst.BaseExpression) -> bool:
    """Whether an expression is a ``torch.device``: made as one, wherever it comes from."""
    bound = model.flow.reaching(node) if isinstance(node, cst.Name) else []
    if isinstance(node, cst.Name) and [each.kind for each in bound] == ["parameter"]:
        given = model.origins.given(node)
        return bool(given) and all(_is_made(model, each) for each in given)
    held = [each.value for each in bound] or [node]
    return all(each is not None and _is_made(model, each) for each in held)


def _is_made(model: Model, node: cst.BaseExpression, steps: int = _MAX_STEPS) -> bool:
    """Whether an expression is made as one, here or in the function that is called for it."""
    made = [*model.values.alternatives(node)]
    return all(isinstance(each, cst.Call) and _gives(model, each, steps) for each in made)


def _gives(model: Model, call: cst.Call, steps: int) -> bool:
    from amp_lint.syntax.returns import returned

    if model.names.is_any(call.func, _DEVICE):
        return True
    function = model.program.target(call) if steps else None
    results = returned(function) if function is not None else ()
    return bool(results) and all(_is_made(model, each, steps - 1) for each in results)
