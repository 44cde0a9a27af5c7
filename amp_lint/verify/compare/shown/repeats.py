"""What was computed before it is computed again, of the same values."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import libcst as cst

from amp_lint.syntax.tree import descendants
from amp_lint.verify.compare.effect_free import is_opaque
from amp_lint.verify.compare.shown.course import Course
from amp_lint.vocabulary.purity import ASKING

_DOING = (
    cst.Await, cst.DictComp, cst.GeneratorExp, cst.Lambda, cst.ListComp, cst.NamedExpr,
    cst.SetComp, cst.Yield,
)  # fmt: skip
_STORING = (cst.AssignTarget, cst.AugAssign, cst.AnnAssign, cst.Del)
_READING = ("__getattr__", "__getattribute__", "__getitem__", "__missing__", "defaultdict")


class Repeats:
    """What of one function was computed before."""

    def __init__(self, course: Course, done: AbstractSet[str]) -> None:
        self._course, self._done = course, done

    def is_repeated(self, node: cst.BaseExpression) -> bool:
        """Whether the same is computed wherever an expression is reached, and does nothing."""
        parts = (node, *descendants(node))
        if text_of(node) not in self._done or not all(map(self._only_computes, parts)):
            return False
        others = self._course.model.tree.below(self._course.unit, type(node))
        return any(
            each is not node and text_of(each) == text_of(node) and self._is_as_before(each, node)
            for each in others
        )

    def is_used(self, owner: cst.BaseExpression) -> bool:
        """Whether a method of the same object was called wherever an expression is reached."""
        text = text_of(owner)
        return any(
            isinstance(call.func, cst.Attribute)
            and text_of(call.func.value) == text
            and self._is_as_before(call.func.value, owner)
            for call in self._course.model.tree.below(self._course.unit, cst.Call)
        )

    def _only_computes(self, part: cst.CSTNode) -> bool:
        side = self._course.eraser.side
        if isinstance(part, cst.Attribute) and part.attr.value in side.active:
            return False
        if isinstance(part, (cst.Attribute, cst.Subscript)) and side.mentions(*_READING):
            return False
        if isinstance(part, cst.Call):
            term = side.lifter.found.get(id(part))
            return term is not None and not is_opaque(term)
        return not isinstance(part, _DOING)

    def _is_as_before(self, first: cst.BaseExpression, then: cst.BaseExpression) -> bool:
        """Whether one place was passed wherever another is reached, and nothing changed since.

        No name is bound again, no attribute or item of that kind stored, and nobody is given what
        the items are taken from.
        """
        course, tree = self._course, self._course.model.tree
        if not course.dominates(first, then) or self._is_only_target(first):
            return False
        start, end = course.stretch(first, then)
        parts = (then, *descendants(then))
        names = [part for part in parts if isinstance(part, cst.Name)]
        changed = (course.is_rebound, course.is_written)
        if any(asks(name, start, end) for name in names for asks in changed):
            return False
        if any(self._stores(part, start, end) for part in parts):
            return False
        words = {name.value for name in names}
        has_items = any(isinstance(part, (cst.Subscript, cst.Call)) for part in parts)
        calls = tree.between(cst.Call, start, end) if has_items else ()
        return not any(self._is_given(call, words) for call in calls)

    def _is_only_target(self, place: cst.CSTNode) -> bool:
        """Whether a place deletes or declares something, or binds it in rounds that need not be."""
        tree = self._course.model.tree
        for holder in tree.ancestors(place):
            match holder:
                case cst.Del() | cst.AnnAssign(value=None):
                    return True
                case cst.For(target=target) if target is place or tree.contains(target, place):
                    return True
                case cst.BaseStatement():
                    return False
        return False

    def _stores(self, part: cst.CSTNode, start: int, end: int) -> bool:
        """Whether something like an attribute, or an item, is stored or deleted in a range."""
        tree = self._course.model.tree
        if not isinstance(part, (cst.Attribute, cst.Subscript)):
            return False
        word = part.attr.value if isinstance(part, cst.Attribute) else ""
        targets = [
            below
            for kind in _STORING
            for each in tree.between(kind, start, end)
            if isinstance(each, _STORING)
            for below in (each.target, *descendants(each.target))
        ]
        if isinstance(part, cst.Subscript):
            return any(isinstance(each, cst.Subscript) for each in targets)
        return any(isinstance(each, cst.Attribute) and each.attr.value == word for each in targets)

    def _is_given(self, call: cst.Call, words: AbstractSet[str]) -> bool:
        """Whether a call may change what one of some names stands for: its own, or an argument."""
        if self._course.model.names.is_only(call.func, ASKING) or self._only_computes(call):
            return False
        owner = call.func.value if isinstance(call.func, cst.Attribute) else None
        given = [arg.value for arg in call.args] + ([owner] if owner is not None else [])
        named = (part for each in given for part in (each, *descendants(each)))
        return any(isinstance(part, cst.Name) and part.value in words for part in named)


def text_of(part: cst.CSTNode) -> str:
    """The code of a part, by which the same is found again."""
    return cst.Module([]).code_for_node(part)
