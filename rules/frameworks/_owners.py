"""How a framework's object, and what it has instead of a call of torch, are written in a file."""

from __future__ import annotations

import libcst as cst

from amp_lint.amp.events import Event, stepped
from amp_lint.edit import edits
from amp_lint.flow.conditions import text
from amp_lint.flow.values import arguments
from amp_lint.model import Model
from amp_lint.text.diagnostic import Applicability, Fix, quoted
from amp_lint.vocabulary.meaning import Kind, Role
from amp_lint.vocabulary.table import rows

ACCELERATOR_OF_TRAINER = "self.accelerator"


def owner_of(model: Model, step: Event) -> cst.BaseExpression:
    """What prepared the optimizer of a step: ``self.accelerator``."""
    assert isinstance(step.node, cst.Call) and isinstance(step.node.func, cst.Attribute)
    optimizer = stepped(step.node) if step.scaler is not None else None
    prepared = model.roles.frameworks.preparations(optimizer or step.node.func.value)
    made = prepared[0].call.func
    assert isinstance(made, cst.Attribute)
    return made.value


def backward_of(model: Model, bare: Event, role: Role, owner: str) -> str:
    """``accelerator.backward(loss)``, for ``loss.backward()``."""
    call = bare.node
    assert isinstance(call, cst.Call)
    row, *_ = rows(Kind.BACKWARD, Role.ACCELERATOR if role is Role.TRAINER else role)
    loss = model.steps.recognizer.loss(call)
    rest = [] if loss is None or _holds(call, loss) else [model.tree.source(a) for a in call.args]
    given = ([] if loss is None else [text(loss)]) + [each.rstrip(" ,") for each in rest]
    return f"{owner}.{row.word}({', '.join(given)})"


def _holds(call: cst.Call, loss: cst.BaseExpression) -> bool:
    return any(arg.value is loss for arg in call.args)


def instead(
    model: Model, call: cst.CSTNode, owner: str, code: str, trust: Applicability
) -> Fix | None:
    """Write ``code`` in the stead of a call, where the framework's object is known by that name."""
    root, _, _ = owner.partition(".")
    if not model.names.visible(call, root):
        return None
    edit = edits.replace_node(model.tree, call, code)
    return Fix(f"Call {quoted(code)}", (edit,), trust)


def trust_in(model: Model, role: Role, owner: cst.BaseExpression) -> Applicability:
    """Unsafe where a framework's object is made in this file, for a step with every batch."""
    known = not model.roles.frameworks.accumulates(owner, role)
    return Applicability.UNSAFE if known else Applicability.SUGGEST


def _is_optional(model: Model, backward: cst.Call, other: cst.Call) -> bool:
    """Whether a test that asks for the framework's object lets it go backward, and not the rest."""
    assert isinstance(backward.func, cst.Attribute)
    owner = text(backward.func.value)
    tests = (h for h in model.tree.ancestors(backward) if isinstance(h, (cst.If, cst.IfExp)))
    asked = (h for h in tests if not model.tree.contains(h, other))
    kinds = (cst.Name, cst.Attribute)
    parts = (part for h in asked for kind in kinds for part in model.tree.below(h.test, kind))
    return any(text(part) == owner for part in parts)


def clip_of(model: Model, clip: Event, backward: Event) -> tuple[str, Fix | None]:
    """What is to be done in place of a clip of torch's, in a sentence, and its fix."""
    call, made = clip.node, backward.node
    assert isinstance(call, cst.Call) and isinstance(made, cst.Call)
    name, role = text(call.func).rpartition(".")[2], backward.framework
    if role is Role.LIGHTNING or not isinstance(made.func, cst.Attribute):
        return "clip in `on_before_optimizer_step`, which runs after they are unscaled", None
    owner = text(made.func.value)
    if role is Role.FABRIC:
        return f"clip by {quoted(f'{owner}.clip_gradients')}, which unscales them", None
    row = next((row for row in rows(Kind.CLIP, role) if name in row.words), None)
    if row is None:
        return f"call {quoted(f'{owner}.unscale_gradients()')} before", None
    given = arguments(call)
    fits = len(given.positional) <= len(row.order) and given.keywords.keys() <= {*row.order}
    fits = fits and not _is_optional(model, made, call)
    trust = trust_in(model, row.owner or Role.ACCELERATOR, made.func.value)
    fix = instead(model, call.func, owner, f"{owner}.{name}", trust) if fits else None
    return f"clip by {quoted(f'{owner}.{name}')}, which unscales them", fix
