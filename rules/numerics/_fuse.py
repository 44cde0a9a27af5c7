"""Fixes that make one operation of two: ``p = f(x)`` ... ``g(p)`` becomes ``h(x)``."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.edit import edits
from amp_lint.text.diagnostic import Edit

if TYPE_CHECKING:
    from amp_lint.amp.operations import Operation, Through
    from amp_lint.model import Model

Render = Callable[[str | None], str]
"""The text of ``h(x)``; with a text given, of ``h`` applied to that instead."""
_AFTER_BRACKET = re.compile(r"(?<=[(\[{]) ")
_BEFORE_BRACKET = re.compile(r",? (?=[)\]}])")


@dataclass(frozen=True, slots=True)
class Fused:
    """The edits, and whether ``p`` is still computed for other uses."""

    edits: tuple[Edit, ...]
    keeps: bool = False


def fuse(
    model: Model,
    outer: cst.BaseExpression,
    inner: Operation,
    uses: Sequence[Through],
    render: Render,
    cheap: frozenset[str],
) -> Fused | None:
    """Write ``h(x)`` where ``outer`` is ``g(...)``; ``uses`` are those of ``p`` in it.

    ``p = f(x)`` goes if it has no other use. If ``x`` cannot be computed a second time, or
    later, it gets a name first; that of the functions in ``cheap`` can. None if all this is not
    certain to keep the meaning.
    """
    text = _standing(model, outer, render(None))
    if text.count("#") < model.tree.source(outer).count("#"):
        return None  # a comment would be lost
    if not uses:
        return Fused((edits.replace_node(model.tree, outer, text),))
    text, through = _one_line(text), uses[0]
    replace = edits.replace_node(model.tree, outer, text)
    quiet = model.flow.is_quiet(through.binding.node, outer)
    if not _same_context(model, through.binding.node, outer) or not (quiet or _is_fresh(inner)):
        return None
    statement = _assignment(through)
    last_use = statement is not None and _is_last(model, uses)
    steady = quiet and _steady(model, outer, cheap, through)
    if steady or (last_use and _adjacent(model, outer, through)):
        drop = statement if last_use else None
        removal = edits.remove_statement(model.tree, drop, text) if drop is not None else None
        return Fused((replace, removal)) if removal else Fused((replace,), keeps=True)
    return _name_the_input(model, outer, inner, through, render, last_use)


def _standing(model: Model, place: cst.CSTNode, text: str) -> str:
    """``text``, in parentheses if it needs them in the place of an expression."""
    for holder in (place, *model.tree.ancestors(place)):
        bracketed = isinstance(holder, cst.BaseExpression) and holder.lpar
        if bracketed or isinstance(holder, (cst.Arg, cst.BaseElement, cst.SubscriptElement)):
            return text
        if isinstance(holder, cst.BaseSmallStatement):
            break
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return f"({text})"
    return text


def _one_line(text: str) -> str:
    """An expression that comes from elsewhere loses the layout it had there."""
    if "#" in text or '"""' in text or "'''" in text:
        return text
    joined = " ".join(filter(None, map(str.strip, text.split("\n"))))
    return _BEFORE_BRACKET.sub("", _AFTER_BRACKET.sub("", joined))


def _assignment(through: Through) -> cst.Assign | cst.AnnAssign | None:
    """The statement ``p = f(x)``, if it assigns nothing else."""
    node = through.binding.node
    if isinstance(node, cst.AnnAssign):
        return node
    if isinstance(node, cst.Assign) and len(node.targets) == 1:
        return node if isinstance(node.targets[0].target, cst.Name) else None
    return None


def _is_last(model: Model, uses: Sequence[Through]) -> bool:
    """Whether a local variable is read here and nowhere else; a module's may be imported."""
    binding = uses[0].binding
    scope = model.names.scope(binding.node)
    local = isinstance(scope.node, cst.FunctionDef) and binding.name not in scope.foreign
    return local and {*model.flow.readers(binding)} == {use.name for use in uses}


def _same_context(model: Model, first: cst.CSTNode, second: cst.CSTNode) -> bool:
    """Whether no ``with`` (no_grad, autocast), loop or function holds one of two places only."""
    contexts = (cst.With, cst.For, cst.While, cst.FunctionDef, cst.Lambda)
    holders = [
        {id(holder) for holder in model.tree.ancestors(node) if isinstance(holder, contexts)}
        for node in (first, second)
    ]
    return holders[0] == holders[1]


def _is_fresh(inner: Operation) -> bool:
    """Whether what an operation is applied to is a tensor of its own, and no view of another."""
    from amp_lint.vocabulary.purity import PURE_METHODS

    made = inner.input
    if not isinstance(made, cst.Call):
        return False
    name = last_name(made.func)
    return name is not None and name.value not in PURE_METHODS


def _steady(
    model: Model, outer: cst.BaseExpression, cheap: frozenset[str], through: Through
) -> bool:
    """Whether ``f(x)`` means the same, at no cost to speak of, where ``g`` is applied."""
    value, binding = through.binding.value, through.binding.node
    assert value is not None
    return model.flow.movable(value, cheap) and not model.flow.changed(value, binding, outer)


def last_name(function: cst.BaseExpression) -> cst.Name | None:
    if isinstance(function, cst.Attribute):
        return function.attr
    return function if isinstance(function, cst.Name) else None


def _adjacent(model: Model, outer: cst.BaseExpression, through: Through) -> bool:
    """Whether ``g`` is the next thing to be called after ``p = f(x)``."""
    tree = model.tree
    first, second = tree.statement(through.binding.node), tree.statement(outer)
    block = tree.parent(first) if first is not None else None
    if not isinstance(block, (cst.IndentedBlock, cst.Module)):
        return False
    if not isinstance(second, cst.SimpleStatementLine) or second not in block.body:
        return False
    if block.body.index(second) != block.body.index(first) + 1:
        return False
    earlier = tree.between(cst.Call, tree.order(second), tree.order(outer))
    return all(tree.contains(call, outer) for call in earlier)


def _name_the_input(
    model: Model,
    outer: cst.BaseExpression,
    inner: Operation,
    through: Through,
    render: Render,
    last_use: bool,
) -> Fused | None:
    """``logits = x`` before ``p = f(x)`` or in its place, and ``h(logits)`` for ``g(p)``."""
    tree, binding = model.tree, through.binding
    line = tree.statement(binding.node)
    if inner.input is None or not isinstance(line, cst.SimpleStatementLine) or len(line.body) > 1:
        return None
    if isinstance(inner.input, cst.Name) or binding.value is not inner.node:
        return None
    name = next(
        (n for n in ("logits", f"{binding.name}_logits") if model.names.is_free(n, outer)), None
    )
    if name is None or "\n" in tree.source(inner.input):
        return None
    replace = edits.replace_node(tree, outer, _standing(model, outer, render(name)))
    assign = f"{name} = {tree.source(inner.input)}"
    if last_use:
        return Fused((edits.replace_node(tree, line, assign), replace))
    reuse = Edit(*tree.outer_span(inner.input), name)
    return Fused((edits.insert_before(tree, line, assign), reuse, replace), keeps=True)


def respell(
    model: Model, operation: Operation, name: str, at: cst.CSTNode, value: str | None = None
) -> str | None:
    """A call of ``name`` with the arguments of ``operation``, in the caller's own spelling.

    It must do at ``at``; ``value`` replaces the input. None if ``name`` cannot be written there.
    """
    call = operation.node
    if not isinstance(call, cst.Call) or operation.input is None:
        return None
    constructor = operation.constructor
    if constructor is not None and constructor is not call.func:
        return _as_function(model, operation, name, at, value)
    changes = [_renamed(model, operation, name, at)]
    if value is not None:
        changes.append(Edit(*model.tree.outer_span(operation.input), value))
    return edits.rewrite(model.tree, call, [c for c in changes if c]) if all(changes) else None


def _renamed(model: Model, operation: Operation, name: str, at: cst.CSTNode) -> Edit | None:
    """The edit that makes ``F.softmax`` of a call ``F.log_softmax``; for an import, a new one."""
    func: cst.BaseExpression = operation.node.func  # type: ignore[attr-defined]
    if operation.constructor is not None:
        func, name = operation.constructor.func, "".join(map(str.capitalize, name.split("_")))
    if isinstance(func, cst.Attribute):
        return edits.replace_node(model.tree, func.attr, name)
    homes = {qualified.rpartition(".")[0] for qualified in model.names.qualified(func)}
    spelled = [model.names.spelling_of(at, f"{home}.{name}") for home in homes]
    return edits.replace_node(model.tree, func, spelled[0]) if spelled and spelled[0] else None


def _as_function(
    model: Model, operation: Operation, name: str, at: cst.CSTNode, value: str | None
) -> str | None:
    """``self.softmax(x)`` with ``nn.Softmax(dim=1)`` as ``F.log_softmax(x, dim=1)``."""
    assert operation.constructor is not None and operation.input is not None
    settings = operation.constructor.args
    if not all(isinstance(arg.value, (cst.Integer, cst.UnaryOperation)) for arg in settings):
        return None
    homes = ("torch.nn.functional", "torch") if settings else ("torch.nn.functional",)
    given = [model.tree.source(arg).rstrip(", ") for arg in settings]
    text = ", ".join([value or model.tree.source(operation.input), *given])
    spelled = (model.names.spelling_of(at, f"{home}.{name}") for home in homes)
    function = next((s for s in spelled if s is not None), None)
    return f"{function}({text})" if function else None
