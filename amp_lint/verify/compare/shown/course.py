"""What has run wherever a place of a function is reached, and which names have a value there."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import libcst as cst

from amp_lint.syntax.names import Binding
from amp_lint.syntax.tree import descendants
from amp_lint.verify.compare.erase import Eraser

_MAYBE = (
    cst.Assert, cst.BooleanOperation, cst.ClassDef, cst.CompFor, cst.DictComp, cst.ExceptHandler,
    cst.FunctionDef, cst.GeneratorExp, cst.IfExp, cst.Lambda, cst.ListComp, cst.MatchCase,
    cst.SetComp,
)  # fmt: skip
"""What may not run its parts, though its statement runs."""
_BINDING_FOR_GOOD = frozenset({"assign", "augment", "class", "function", "import", "unpack"})
_AT_ONCE = (cst.SimpleStatementLine, cst.FunctionDef, cst.ClassDef)
"""Statements that bind what they bind, whenever they run."""
_LOOPS = (cst.For, cst.While)
_LEAVING = (cst.Return, cst.Continue, cst.Break, cst.Raise, cst.Assert, cst.Yield, cst.Await)
_ENDING = frozenset({"del", "except"})
"""Kinds of bindings that take a name away in the end."""


class Course:
    """The order in which the statements of one function run."""

    def __init__(self, eraser: Eraser, unit: cst.FunctionDef) -> None:
        self.eraser = eraser
        self.unit = unit
        self.model = eraser.model
        self._tree = eraser.model.tree

    # --- statements ---------------------------------------------------------------------------

    def dominates(self, first: cst.CSTNode, then: cst.CSTNode) -> bool:
        """Whether the statement of one place has run, whole, wherever another one is reached."""
        tree = self._tree
        statement, block = tree.statement(first), self._block(first)
        if statement is None or block is None or not tree.contains(block, then):
            return False
        return not tree.contains(statement, then) and tree.order(statement) < tree.order(then)

    def leads(self, first: cst.CSTNode, then: cst.CSTNode) -> bool:
        """Whether a place is reached whenever another one above it was, before any other round."""
        tree, block = self._tree, self._block(then)
        if block is None or not tree.contains(block, first):
            return False
        start, end = tree.order(first), tree.order(then)
        around = [each for each in tree.ancestors(first) if tree.contains(block, each)]
        inner = any(isinstance(each, _LOOPS) and each is not block for each in around)
        leaves = any(tree.between(kind, start, end) for kind in _LEAVING)
        return start < end and not inner and not leaves

    def _block(self, place: cst.CSTNode) -> cst.CSTNode | None:
        """The block whose statements behind a place are reached by way of it; None if none are."""
        tree, statement = self._tree, self._tree.statement(place)
        if statement is None or any(
            isinstance(each, _MAYBE) or _is_chain(each)
            for each in tree.ancestors(place)
            if tree.contains(statement, each)
        ):
            return None
        block = tree.parent(statement)
        while block is not None and isinstance(around := tree.parent(block), cst.With):
            if any(map(self.eraser.swallows, around.items)):
                return None
            block = tree.parent(around)
        return block

    def stretch(self, first: cst.CSTNode, then: cst.CSTNode) -> tuple[int, int]:
        """The ranks of what may run between two places, loops around the second one included."""
        end = self._tree.order(then)
        for around in self._tree.ancestors(then):
            if isinstance(around, _LOOPS) and not self._tree.contains(around, first):
                end = max(end, self._tree.end(around))
        return self._tree.end(self._tree.statement(first) or first), end

    def is_rebound(self, name: cst.Name, start: int, end: int) -> bool:
        """Whether a name is bound in a range of ranks, or by a function that is called there."""
        tree, read = self._tree, self._tree.order(name)
        return self.is_shared(name) or any(
            start <= tree.order(binding.node) < end
            and not (end <= read and tree.contains(binding.node, name))  # computed of it
            for binding in self.model.names.bindings(name)
        )

    def is_written(self, name: cst.Name, start: int, end: int) -> bool:
        """Whether the tensor of a name may get another shape, or memory, in a range of ranks."""
        tree = self._tree
        stored = (
            below
            for each in tree.between(cst.AssignTarget, start, end)
            for below in (each.target, *descendants(each.target))
            if isinstance(below, cst.Attribute) and below.attr.value == "data"
        )
        called = (each.func for each in tree.between(cst.Call, start, end))
        in_place = (
            each
            for each in called
            if isinstance(each, cst.Attribute) and each.attr.value.endswith("_")
        )
        return any(
            isinstance(each, cst.Attribute)
            and isinstance(each.value, cst.Name)
            and each.value.value == name.value
            for each in (*stored, *in_place)
        )

    def is_shared(self, name: cst.Name) -> bool:
        """Whether some function says that it binds a name of those around it."""
        return name.value in self._foreign

    @functools.cached_property
    def _foreign(self) -> frozenset[str]:
        """The names that some function of the file shares with those around it."""
        tree = self._tree
        outer: list[cst.Global | cst.Nonlocal] = [
            *tree.nodes(cst.Global),
            *tree.nodes(cst.Nonlocal),
        ]
        return frozenset(item.name.value for each in outer for item in each.names)

    # --- names --------------------------------------------------------------------------------

    def is_local(self, name: cst.Name) -> bool:
        """Whether it is the function itself that binds a name, and no other function does."""
        own = self.model.names.scope_of(self.unit).bindings.get(name.value)
        return own is not None and self.model.names.bindings(name) is own

    def is_receiver(self, name: cst.Name) -> bool:
        """Whether a name is the object whose method the function is."""
        within = self._tree.ancestor(self.unit, cst.ClassDef, cst.FunctionDef)
        params = (*self.unit.params.posonly_params, *self.unit.params.params)
        first = params[0].name.value if params else None
        return isinstance(within, cst.ClassDef) and name.value == first

    def is_bound(self, name: cst.Name) -> bool:
        """Whether a name has a value wherever it is read here: nothing takes it away."""
        bindings = self.model.names.bindings(name)
        if name.value in self._deleted or not bindings:
            return False
        handlers = [each.node for each in bindings if isinstance(each.node, cst.ExceptHandler)]
        if handlers:
            return any(self._tree.contains(each.body, name) for each in handlers)
        if any(each.kind in _ENDING for each in bindings):
            return False
        if self.is_local(name):
            return any(self._holds(each, name) for each in bindings)
        if bindings is self.model.names.module.bindings.get(name.value):
            return any(map(self._is_made_first, bindings))
        return any(each.kind == "parameter" for each in bindings)

    @functools.cached_property
    def _deleted(self) -> frozenset[str]:
        """The names in what some ``del`` of the file takes away."""
        parts = (part for each in self._tree.nodes(cst.Del) for part in descendants(each))
        return frozenset(part.value for part in parts if isinstance(part, cst.Name))

    def _holds(self, binding: Binding, name: cst.Name) -> bool:
        """Whether a binding of the function has run wherever a name is read."""
        node = binding.node
        if binding.kind == "parameter":
            return True
        if isinstance(node, cst.For):
            return self._tree.contains(node.body, name)
        if isinstance(node, cst.WithItem):
            around = self._tree.parent(node)
            return isinstance(around, cst.With) and self._tree.contains(around.body, name)
        is_sure = binding.kind in _BINDING_FOR_GOOD and not isinstance(node, cst.NamedExpr)
        return is_sure and self.dominates(node, name)

    def _is_made_first(self, binding: Binding) -> bool:
        """Whether the module binds a name, whatever happens, before the function is made."""
        statement = self._tree.statement(binding.node)
        if not isinstance(statement, _AT_ONCE) or isinstance(binding.node, cst.NamedExpr):
            return False
        at_top = self._tree.parent(statement) is self._tree.module
        return at_top and self._tree.order(statement) < self._tree.order(self.unit)

    def reaching(self, name: cst.Name) -> Iterable[Binding]:
        """Every binding whose value a name may have here."""
        every = self.model.names.bindings(name)
        tries = [each for each in self._tree.below(self.unit, cst.Try) if each.handlers]
        tried = any(self._tree.contains(each, one.node) for each in tries for one in every)
        contexts = self._tree.below(self.unit, cst.With)
        ended = (each for each in contexts if any(map(self.eraser.swallows, each.items)))
        if tried or any(self._tree.contains(each, one.node) for each in ended for one in every):
            return every
        return self.model.flow.reaching(name)


def _is_chain(node: cst.CSTNode) -> bool:
    """Whether a comparison is one of three or more, which may end with the first two."""
    return isinstance(node, cst.Comparison) and len(node.comparisons) > 1
