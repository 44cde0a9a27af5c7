"""Names and attributes that are a scaler in one of two texts, and something else in the other.

That a scaler is made is erased, and so is what it does: whatever else reads its name in both texts
would get another object.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_lint.flow.values import arguments, literal
from amp_lint.syntax.names import dotted
from amp_lint.syntax.references import is_read
from amp_lint.verify.compare.regions import shown
from amp_lint.verify.compare.side import Side
from amp_lint.verify.compare.units import name_of

_BY_TEXT = frozenset(
    {"builtins.delattr", "builtins.getattr", "builtins.hasattr", "operator.attrgetter"}
)
_SCOPES = frozenset({"builtins.dir", "builtins.locals", "builtins.vars"})
"""What gives all names of a function, where it is given nothing."""
_CODE = frozenset({"builtins.eval", "builtins.exec"})
_OWN = ("self", "cls")
_SLOTS, _SETTER, _FROZEN = "__slots__", "__setattr__", "frozen"
_FIXED = frozenset({"typing.NamedTuple"})
_LATER = (cst.For, cst.While, cst.FunctionDef, cst.Lambda)
Target = cst.Name | cst.Attribute


def reasons(before: Side, after: Side) -> Iterator[str]:
    """What reads a scaler that it did not read before, or reads it no more."""
    for one, other in ((after, before), (before, after)):
        for target in bound(one, other):
            for use in _uses(one, target):
                if _had_meaning(other, one, use, target):
                    code = shown(one, use)
                    yield f"line {one.line(use)}: `{code}` is the scaler in one of both texts alone"
    for target in bound(after, before):
        line, code = after.line(target), shown(after, target)
        if _is_asked_by_text(after, target):
            yield f"line {line}: `{code}` may be asked for by its text"
        if isinstance(target, cst.Attribute) and _may_fail(after, target):
            yield f"line {line}: whether `{code}` can be set is not known"


def bound(side: Side, other: Side) -> Iterator[Target]:
    """What a text binds a scaler to in functions where the other one does not."""
    known = {_key(other, target) for target in _targets(other)}
    yield from (target for target in _targets(side) if _key(side, target) not in known)


def _targets(side: Side) -> Iterator[Target]:
    for call in side.model.roles.scaler_calls:
        holder = side.model.tree.parent(call)
        for each in holder.targets if isinstance(holder, cst.Assign) else ():
            if isinstance(each.target, (cst.Name, cst.Attribute)):
                yield each.target


def _key(side: Side, target: Target) -> tuple[str, str]:
    return name_of(side.model, target), side.model.tree.source(target)


def word(target: Target) -> str:
    """The last name of what is bound."""
    return target.attr.value if isinstance(target, cst.Attribute) else target.value


# --- what reads it ------------------------------------------------------------------------------


def _uses(side: Side, target: Target) -> Iterator[Target]:
    """Where what is bound may be read."""
    tree = side.model.tree
    for each in tree.named(word(target)):
        holder = tree.parent(each)
        is_member = isinstance(holder, cst.Attribute) and holder.attr is each
        use = holder if is_member else each
        if isinstance(target, cst.Name):
            may_be = not is_member and _may_see(side, target, each)
        else:
            may_be = isinstance(use, cst.Attribute) and _is_same(side, use, target)
        if may_be and isinstance(use, (cst.Name, cst.Attribute)) and is_read(tree, use):
            yield use


def _may_see(side: Side, target: cst.Name, use: cst.Name) -> bool:
    """Whether a name may stand for what another place binds it to."""
    bindings = side.model.names.bindings(use)
    seen = any(side.model.tree.contains(each.node, target) for each in bindings)
    return seen and use is not target and _comes_later(side, target, use)


def _is_same(side: Side, one: cst.Attribute, other: cst.Attribute) -> bool:
    """Whether two attributes are written alike, and are of one class where they are ``self``'s."""
    enclosing, source = side.model.values.enclosing_class, side.model.tree.source
    own = dotted(other.value) in _OWN
    return source(one) == source(other) and (not own or enclosing(one) is enclosing(other))


def _comes_later(side: Side, target: cst.Name, use: cst.Name) -> bool:
    """Whether a place may run after a name was bound: behind it, in its loop, in what is called."""
    tree = side.model.tree
    if tree.order(use) > tree.order(target):
        return True
    around = tree.ancestor(use, *_LATER)
    return around is not None and not (
        isinstance(around, cst.FunctionDef) and around is tree.ancestor(target, cst.FunctionDef)
    )


def _had_meaning(side: Side, other: Side, use: Target, target: Target) -> bool:
    """Whether a text has the same read, of something that is there."""
    text = _around(other, use)
    unit = name_of(other.model, use)
    for each in side.model.tree.named(word(target)):
        holder = side.model.tree.parent(each)
        is_member = isinstance(holder, cst.Attribute) and holder.attr is each
        node = holder if is_member else each
        assert isinstance(node, (cst.Name, cst.Attribute))
        alike = is_member is isinstance(target, cst.Attribute) and is_read(side.model.tree, node)
        if alike and name_of(side.model, node) == unit and _around(side, node) == text:
            return _is_there(side, node)
    return False


def _around(side: Side, use: Target) -> str:
    """What is done with what is read: which attribute it is asked for, what it is given to."""
    parent = side.model.tree.parent(use)
    call = side.model.tree.parent(parent) if isinstance(parent, cst.Arg) else None
    return side.model.tree.source(call or parent or use)


def _is_there(side: Side, node: Target) -> bool:
    """Whether something is bound at all: an attribute also where nobody knows all that is."""
    if isinstance(node, cst.Name):
        return bool(side.model.names.bindings(node))
    values = side.model.values
    owner = values.enclosing_class(node) if dotted(node.value) in _OWN else None
    if owner is None:
        return True
    family = [each for heir in (owner, *values.heirs(owner)) for each in values.lineage(heir)]
    scopes = (side.model.names.scope_of(each).bindings for each in family)
    own = any(values.class_attributes(each).get(node.attr.value) for each in family)
    return own or any(node.attr.value in scope for scope in scopes) or not _is_whole(side, owner)


def _is_whole(side: Side, owner: cst.ClassDef) -> bool:
    """Whether all the bases of a class are seen, or are modules of torch."""
    names = side.model.names
    bases = [base.value for each in side.model.values.lineage(owner) for base in each.bases]
    known = {"builtins.object", "torch.nn.Module"}
    return all(
        isinstance(names.definition(base), cst.ClassDef) or names.is_only(base, known)
        for base in bases
    )


# --- how it is set ------------------------------------------------------------------------------


def _is_asked_by_text(side: Side, target: Target) -> bool:
    """``hasattr(self, "scaler")``, ``locals()``."""
    tree, names = side.model.tree, side.model.names
    unit = side.holder(target)
    for call in tree.nodes(cst.Call):
        texts = {literal(arg.value) for arg in call.args if arg.keyword is None}
        if isinstance(target, cst.Attribute):
            if word(target) in texts and names.is_any(call.func, _BY_TEXT):
                return True
        elif tree.contains(unit, call) and isinstance(unit, cst.FunctionDef):
            scope = not call.args and names.is_any(call.func, _SCOPES)
            if scope or names.is_any(call.func, _CODE):
                return True
    return False


def _may_fail(side: Side, target: cst.Attribute) -> bool:
    """Whether an object may not take a new attribute, or do something else with it."""
    values, names = side.model.values, side.model.names
    own = values.enclosing_class(target) if dotted(target.value) in _OWN else None
    owners = [own] if own is not None else side.model.origins.classes(target.value)
    for owner in owners:
        for each in values.lineage(owner):
            scope = names.scope_of(each).bindings
            bound_there = {binding.kind for binding in scope.get(word(target), ())}
            fixed = any(names.is_any(base.value, _FIXED) for base in each.bases)
            frozen = any(_is_frozen(decorator) for decorator in each.decorators)
            slots = _SLOTS in scope and not _has_slot(side, each, word(target))
            if slots or _SETTER in scope or "function" in bound_there or fixed or frozen:
                return True
    return False


def _is_frozen(decorator: cst.Decorator) -> bool:
    made = decorator.decorator
    given = arguments(made).get(None, _FROZEN) if isinstance(made, cst.Call) else None
    return given is not None and literal(given) is not False


def _has_slot(side: Side, owner: cst.ClassDef, name: str) -> bool:
    """Whether a class says that it has an attribute of some name, or any."""
    bindings = side.model.names.scope_of(owner).bindings[_SLOTS]
    texts = (
        literal(text)
        for binding in bindings
        for text in side.model.tree.below(binding.node, cst.SimpleString)
    )
    return not {name, "__dict__"}.isdisjoint(texts)
