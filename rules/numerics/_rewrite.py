"""Writes the second expression of a pair where the first one stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.edit import edits
from amp_lint.text.diagnostic import Applicability, Edit, Fix
from amp_lint.vocabulary.expressions import (
    CASTS,
    HOMES,
    METHODS,
    SELECTS,
    SETTINGS,
    TAKES_MORE,
    Apply,
    parsed,
)

from ._fuse import fuse, last_name, respell

if TYPE_CHECKING:
    from amp_lint.amp.operations import Operation
    from amp_lint.amp.patterns import Match
    from amp_lint.model import Model


def fix(model: Model, match: Match) -> Fix | None:
    """The second expression in the place of the first; None where that is not certain to do.

    Unsafe where a floor is lost, and where elements are picked from what has other uses.
    """
    last = match.steps[-1]
    if any(step.elsewhere and step.name in SELECTS for step in match.between):
        return None
    if last.elsewhere or any(step.name in CASTS for step in match.between):
        return None
    bindings = {id(through.binding) for through in match.hops}
    if len(bindings) > 1 or not match.pair.after or match.chosen:
        return None
    place, shape = _place(model, match)
    if _Writer(model, match, place, None).text(shape) is None:
        return None
    called = (last_name(step.node.func) for step in match.all if isinstance(step.node, cst.Call))
    cheap = frozenset(name.value for name in called if name is not None)

    def render(value: str | None) -> str:
        return _Writer(model, match, place, value).standing(shape)

    fused = fuse(model, place, last, match.hops, render, cheap)
    if fused is None:
        return None
    floored = any(map(model.patterns.is_floor, match.between))
    if fused.keeps and _floor_is_shared(model, match):
        return None
    picked = fused.keeps and any(step.name in SELECTS for step in match.between)
    trust = Applicability.UNSAFE if floored or picked else Applicability.SAFE
    return Fix(f"Replace with `{_title(shape)}`", fused.edits, trust)


def _floor_is_shared(model: Model, match: Match) -> bool:
    """Whether a value that has the floor in it is used for more than such functions of it.

    As in ``s = sigmoid(x) + eps``, ``x * s`` and ``log(s)``: without the floor that is no longer
    the logarithm of what is applied.
    """
    named = next((rank for rank, step in enumerate(match.steps) if step.via), len(match.steps))
    if not any(map(model.patterns.is_floor, match.steps[named:])):
        return False
    outer = match.steps[0].name
    own = {id(through.name) for through in match.hops}
    return any(
        id(reader) not in own and not _goes_into(model, reader, outer)
        for through in match.hops
        for reader in model.flow.readers(through.binding)
    )


def _goes_into(model: Model, reader: cst.CSTNode, outer: str) -> bool:
    """Whether a use is a part of what one operation is applied to, within a statement."""
    statement = model.tree.statement(reader)
    for holder in model.tree.ancestors(reader):
        if holder is statement:
            return False
        made = model.operations.of(holder)
        if made is not None and made.name == outer and made.input is not None:
            return model.tree.contains(made.input, reader)
    return False


def _title(shape: Apply) -> str:
    return next(name for name in shape.names() if name in HOMES)


def _place(model: Model, match: Match) -> tuple[cst.BaseExpression, Apply]:
    """What is replaced and by what: ``-log(sigmoid(x)).mean()`` has no use for two signs."""
    shape = parsed(match.pair.after)
    if shape.name == "neg" and isinstance(shape.input, Apply):
        parent = model.tree.parent(_total(model, match.node))
        if isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Minus):
            return parent, shape.input
    return match.node, shape


def _total(model: Model, node: cst.BaseExpression) -> cst.BaseExpression:
    """``x.mean()`` or ``x.sum()`` around an expression, if it stands in one; else itself."""
    parent = model.tree.parent(node)
    if isinstance(parent, cst.Attribute) and parent.attr.value in ("mean", "sum"):
        call = model.tree.parent(parent)
        if isinstance(call, cst.Call) and call.func is parent:
            return call
    return node


@dataclass(frozen=True, slots=True)
class _Writer:
    """The text of an expression in the words of one place."""

    model: Model
    match: Match
    place: cst.BaseExpression
    value: str | None
    """What the first variable is called instead, if that is not None."""

    def standing(self, shape: Apply) -> str:
        """The text, in parentheses if it needs them where it stands."""
        text = self.text(shape) or ""
        if isinstance(self.place, cst.UnaryOperation) and self.place is not self.match.node:
            inner = Edit(*self.model.tree.outer_span(self.match.node), text)
            return edits.rewrite(self.model.tree, self.place.expression, [inner])
        parent = self.model.tree.parent(self.place)
        if shape.name not in ("neg", "add", "sub") or self.place.lpar:
            return text
        binds = (cst.Attribute, cst.Subscript, cst.Call, cst.BinaryOperation, cst.UnaryOperation)
        if shape.name == "neg" and isinstance(parent, cst.BinaryOperation):
            loose = parent.right is self.place or not isinstance(parent.operator, cst.Power)
            return text if loose else f"({text})"
        return f"({text})" if isinstance(parent, binds) else text

    def text(self, shape: Apply | str | float) -> str | None:
        """An expression; None if a function cannot be called there."""
        if isinstance(shape, str):
            return self._variable(shape)
        if not isinstance(shape, Apply):
            return repr(shape)
        if shape.name == "neg":
            return self._negative(shape.input)
        inner = self.text(shape.input)
        return None if inner is None else self._applied(shape, inner)

    def _variable(self, name: str) -> str | None:
        """What stands for a variable; None for what flows through a module to its last part."""
        first = self.match.steps[-1]
        if name not in self.match.bound:
            return None
        if self.match.bound[name] is not first.input:
            return self.model.tree.source(self.match.bound[name])
        text = self.value or self.model.tree.source(self.match.bound[name])
        return self._picked(text, below=True)

    def _picked(self, text: str, *, below: bool) -> str:
        """A text with what rearranges or picks elements applied to it again.

        That is done ``below`` what reduces rows, if it was done before that; else after it.
        """
        steps = self.match.steps
        reduced = self.match.reduced
        ranks = {id(step): rank for rank, step in enumerate(steps)}
        limit = ranks.get(id(reduced), -1)
        for step in reversed(self.match.between):
            here = id(step) in ranks and (ranks[id(step)] > limit) is below
            if here and step.name in SELECTS and step.input is not None:
                inner = Edit(*self.model.tree.outer_span(step.input), _bracketed(text))
                text = edits.rewrite(self.model.tree, step.node, [inner])
        return text

    def _negative(self, inner: Apply | str) -> str | None:
        """Minus something; of what has a minus already, that is taken away."""
        node = self.match.bound.get(inner) if isinstance(inner, str) else None
        picked = any(step.name in SELECTS for step in self.match.between)
        minus = isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus)
        if minus and self.value is None and not picked:
            return self.model.tree.source(node.expression)  # type: ignore[union-attr]
        text = self.text(inner)
        return None if text is None else f"-{_bracketed(text)}"

    def _applied(self, shape: Apply, inner: str) -> str | None:
        """A call, as the operation is spelled whose settings it takes over."""
        settings = self._settings(shape)
        source = self.match.reduced
        own = source is not None and (shape.rest or bool(shape.settings))
        text = self._respelled(shape.name, source, inner) if own and source else None
        if text is None and settings is not None:
            text = self._called(shape, inner, settings)
        return self._picked(text, below=False) if own and text is not None else text

    def _respelled(self, name: str, source: Operation, inner: str) -> str | None:
        form = source.form.name
        written = {key for key, _ in _settings_of(parsed(self.match.pair.before), source.name)}
        if "keepdim" in written or (form != "METHOD" and not self._has_home(name, source)):
            return None
        if form == "METHOD" and name not in METHODS:
            return None
        value = _bracketed(inner) if form == "METHOD" else inner
        return respell(self.model, source, name, self.place, value)

    def _has_home(self, name: str, source: Operation) -> bool:
        assert isinstance(source.node, cst.Call)
        if source.constructor is not None:
            return source.name not in TAKES_MORE
        homes = {q.rpartition(".")[0] for q in self.model.names.qualified(source.node.func)}
        return homes <= {*HOMES.get(name, ())}

    def _settings(self, shape: Apply) -> list[str] | None:
        """The further arguments of a call, by keyword where it has them in another order."""
        source = self.model.tree.source
        if not shape.rest:
            given = [source(self.match.bound[each]) for each in shape.operands
                     if isinstance(each, str)]  # fmt: skip
            return [*given, *(f"{key}={self._setting(value)}" for key, value in shape.settings)]
        from amp_lint.amp.patterns import named

        if self.match.reduced is None or self.match.reduced.constructor is not None:
            return None
        args = self.match.reduced.args
        found = named(args, SETTINGS.get(self.match.reduced.name))
        if found is None:
            return None
        return [
            source(node) if name.isdigit() else f"{name}={source(node)}"
            for name, node in found.items()
        ]

    def _setting(self, value: str | float) -> str:
        return (
            self.model.tree.source(self.match.bound[value])
            if isinstance(value, str)
            else str(value)
        )

    def _called(self, shape: Apply, inner: str, settings: list[str]) -> str | None:
        first = self.match.steps[-1]
        if first.form.name == "METHOD" and shape.name in METHODS:
            return f"{_bracketed(inner)}.{shape.name}({', '.join(settings)})"
        names = (f"{home}.{shape.name}" for home in HOMES[shape.name])
        spelled = [self.model.names.spelling_of(self.place, name) for name in names]
        function = min(filter(None, spelled), key=len, default=None)
        return f"{function}({', '.join([inner, *settings])})" if function else None


def _settings_of(shape: Apply, name: str) -> tuple[tuple[str, str | float], ...]:
    for part in (shape.input, *shape.operands):
        if isinstance(part, Apply):
            if part.name == name and part.settings:
                return part.settings
            if found := _settings_of(part, name):
                return found
    return ()


def _bracketed(text: str) -> str:
    """A text in parentheses, unless it is one operand as it stands."""
    import ast

    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:
        return f"({text})"
    plain = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)
    return text if isinstance(node, plain) else f"({text})"
