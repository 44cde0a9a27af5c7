"""Which assignments reach a use, whether a value changes on the way, and under which tests."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from amp_lint.model.names import Binding, Names, dotted
from amp_lint.tree import Tree, descendants

_SUITES = (cst.IndentedBlock, cst.SimpleStatementSuite, cst.Module)
_LOOPS = (cst.For, cst.While)
_TARGETS = (cst.AssignTarget, cst.AugAssign, cst.AnnAssign, cst.Del)
_OPAQUE = (cst.Lambda, cst.Await, cst.Yield, cst.NamedExpr, cst.ListComp, cst.SetComp,
           cst.DictComp, cst.GeneratorExp)  # fmt: skip

CHEAP = frozenset(
    {
        "clamp", "contiguous", "detach", "diagonal", "double", "expand", "expand_as", "flatten",
        "float", "gather", "half", "index_select", "movedim", "permute", "reshape", "size",
        "squeeze", "swapaxes", "t", "to", "transpose", "type_as", "unsqueeze", "view", "view_as",
    }
)  # fmt: skip
"""Tensor operations that may be computed later, or a second time, without anybody noticing."""


@dataclass(frozen=True, slots=True)
class Guard:
    """A test that decides whether a place is reached."""

    test: cst.BaseExpression
    holds: bool

    def normal(self) -> tuple[cst.BaseExpression, bool]:
        """The test without ``not`` around it, and whether it must hold."""
        test, holds = self.test, self.holds
        while isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            test, holds = test.expression, not holds
        return test, holds


class Flow:
    """Order of assignments inside one scope. Exceptions are not followed."""

    def __init__(self, tree: Tree, names: Names) -> None:
        self.tree = tree
        self.names = names

    # --- which assignment reaches a use -------------------------------------------------------

    def reaching(self, name: cst.Name) -> list[Binding]:
        """Every binding that a use may see, the nearest first; [] when it cannot be told."""
        bindings = self.names.bindings(name)
        if not bindings or not self._same_scope(name, bindings[0]):
            return bindings if len(bindings) == 1 else []
        at = self.tree.order(name)
        earlier = [b for b in bindings if self._order(b) < at and not self._computes(b, name)]
        seen: list[Binding] = []
        last: Binding | None = None
        for binding in sorted(earlier, key=self._order, reverse=True):
            if not self.exclusive(binding.node, name):
                seen.append(binding)
                if self._dominates(binding, name):
                    last = binding
                    break
        later = [b for b in bindings if b not in earlier and self._comes_round(b, name, last)]
        return seen + later

    def held(self, node: cst.BaseExpression) -> Binding | None:
        """The binding whose value a local name certainly still has, unchanged in place."""
        if not isinstance(node, cst.Name):
            return None
        found = self.reaching(node)
        if len(found) != 1 or found[0].kind != "assign" or found[0].value is None:
            return None
        if not self._same_scope(node, found[0]) or not self._dominates(found[0], node):
            return None
        for path, at in self._writes_between(found[0].node, node):
            if path == node.value and at is not found[0].node and not self.tree.contains(at, node):
                return None
        return found[0]

    def readers(self, binding: Binding) -> list[cst.Name]:
        """The uses of a name that may see this binding."""
        scope = self.names.scope(binding.node).node
        return [
            node
            for node in descendants(scope)
            if isinstance(node, cst.Name)
            and node.value == binding.name
            and self._is_read(node)
            and binding in self.names.bindings(node)
            and (not self._same_scope(node, binding) or binding in self.reaching(node))
        ]

    def exclusive(self, first: cst.CSTNode, second: cst.CSTNode) -> bool:
        """Whether the two stand in different arms of one ``if``, so that not both are reached."""
        arms = {id(test): holds for test, holds in self._arms(first)}
        return any(arms.get(id(test), holds) != holds for test, holds in self._arms(second))

    def _order(self, binding: Binding) -> int:
        return self.tree.order(binding.node)

    def _same_scope(self, name: cst.Name, binding: Binding) -> bool:
        if binding.kind == "parameter":
            parents = self.tree.ancestors(binding.node)
            holder = next(
                (p for p in parents if isinstance(p, (cst.FunctionDef, cst.Lambda))), None
            )
            return holder is not None and self.names.scope(name) is self.names.scope_of(holder)
        return self.names.scope(name) is self.names.scope(binding.node)

    def _computes(self, binding: Binding, name: cst.Name) -> bool:
        """Whether the use is part of what the binding computes its value from (``x = f(x)``)."""
        node = binding.node
        inside = node.iter if isinstance(node, cst.For) else node
        return not isinstance(node, cst.CompFor) and self.tree.contains(inside, name)

    def _dominates(self, binding: Binding, use: cst.CSTNode) -> bool:
        if binding.kind == "parameter":
            return True
        return self.tree.contains(self._suite(binding.node), use)

    def _suite(self, node: cst.CSTNode) -> cst.CSTNode:
        """The innermost block all of whose statements run if ``node`` does."""
        for holder in self.tree.ancestors(node):
            if isinstance(holder, _SUITES) and not isinstance(self.tree.parent(holder), cst.With):
                return holder
        return self.tree.module

    def _comes_round(self, binding: Binding, use: cst.Name, last: Binding | None) -> bool:
        """Whether a loop carries a later binding back to the use."""
        return any(
            isinstance(holder, _LOOPS)
            and self.tree.contains(holder, binding.node)
            and binding.node is not holder
            and (last is None or not self.tree.contains(holder, last.node) or last.node is holder)
            for holder in self.tree.ancestors(use)
        )

    def _is_read(self, name: cst.Name) -> bool:
        parent = self.tree.parent(name)
        if isinstance(parent, cst.Attribute):
            return parent.value is name
        if isinstance(parent, cst.Arg):
            return parent.value is name
        if isinstance(parent, (cst.AssignTarget, cst.Param, cst.ImportAlias)):
            return False
        return not (
            isinstance(parent, (cst.AnnAssign, cst.NamedExpr, cst.For, cst.CompFor))
            and parent.target is name
        )

    # --- whether an expression still means the same -------------------------------------------

    def movable(self, node: cst.BaseExpression, also: frozenset[str] = frozenset()) -> bool:
        """Whether ``node`` may be computed later, or twice: `CHEAP` operations, and ``also``."""
        for part in descendants(node):
            if isinstance(part, _OPAQUE):
                return False
            if isinstance(part, cst.Call):
                name = dotted(part.func) or (
                    part.func.attr.value if isinstance(part.func, cst.Attribute) else ""
                )
                if name.rpartition(".")[2] not in CHEAP | also:
                    return False
        return True

    def changed(self, node: cst.BaseExpression, since: cst.CSTNode, until: cst.CSTNode) -> bool:
        """Whether a name or attribute in ``node`` may be written between two places."""
        read = {path for part in descendants(node) if (path := self._path_read(part))}
        if any(_related(path, other) for path, _ in self._writes_between(since, until)
               for other in read):  # fmt: skip
            return True
        owners = {path.rpartition(".")[0] for path in read if "." in path}
        return any(path in owners for path in self._calls_between(since, until))

    def _path_read(self, node: cst.CSTNode) -> str | None:
        """``a.b.c`` for the outermost attribute of a chain; None inside one."""
        if not isinstance(node, (cst.Name, cst.Attribute)):
            return None
        parent = self.tree.parent(node)
        if isinstance(parent, cst.Attribute):
            return None
        if isinstance(parent, cst.Arg) and parent.keyword is node:
            return None
        if isinstance(parent, cst.Call) and parent.func is node and isinstance(node, cst.Attribute):
            return dotted(node.value)
        return dotted(node)

    def _writes_between(
        self, since: cst.CSTNode, until: cst.CSTNode
    ) -> Iterator[tuple[str, cst.CSTNode]]:
        first, last = self._stretch(since, until)
        for at, path, node in self._writes:
            if first <= at < last:
                yield path, node

    def _calls_between(self, since: cst.CSTNode, until: cst.CSTNode) -> Iterator[str]:
        """The objects whose methods are called between two places."""
        first, last = self._stretch(since, until)
        for call in self.tree.nodes(cst.Call):
            if first <= self.tree.order(call) < last and isinstance(call.func, cst.Attribute):
                yield dotted(call.func.value) or ""

    def _stretch(self, since: cst.CSTNode, until: cst.CSTNode) -> tuple[int, int]:
        """The ranks of nodes that may run between two places, loops around the second included."""
        last = self.tree.order(until)
        for holder in self.tree.ancestors(until):
            if isinstance(holder, _LOOPS) and not self.tree.contains(holder, since):
                last = max(self.tree.order(node) for node in descendants(holder)) + 1
        return self.tree.order(since), last

    @functools.cached_property
    def _writes(self) -> list[tuple[int, str, cst.CSTNode]]:
        """Every assignment to a name, attribute or element, every call of an in-place method."""
        found = [(self._order(b), b.name, b.node) for b in self.names.every_binding()]
        for kind in (cst.Attribute, cst.Subscript):
            for target in self.tree.nodes(kind):
                holder = self.tree.parent(target)
                if isinstance(holder, _TARGETS) and holder.target is target:
                    found.append((self.tree.order(target), _base_path(target), target))
        for call in self.tree.nodes(cst.Call):
            function = call.func
            if isinstance(function, cst.Attribute) and _in_place(function.attr.value):
                found.append((self.tree.order(call), _base_path(function.value), call))
        return found

    # --- tests around a place -----------------------------------------------------------------

    def guards(self, node: cst.CSTNode) -> list[Guard]:
        """The tests of ``if`` statements and conditional expressions around a place."""
        return [Guard(test, holds) for test, holds in self._arms(node)]

    def _arms(self, node: cst.CSTNode) -> Iterator[tuple[cst.BaseExpression, bool]]:
        child = node
        for holder in self.tree.ancestors(node):
            if isinstance(holder, (cst.If, cst.IfExp)) and child is not holder.test:
                yield holder.test, child is holder.body
            if isinstance(holder, (cst.FunctionDef, cst.Lambda)):
                return
            child = holder

    def contradict(self, first: cst.CSTNode, second: cst.CSTNode) -> bool:
        """Whether the tests around two places exclude each other, judged by their text."""
        wanted = {self._text(g): g.normal()[1] for g in self.guards(first)}
        return any(wanted.get(self._text(g), g.normal()[1]) != g.normal()[1]
                   for g in self.guards(second))  # fmt: skip

    def _text(self, guard: Guard) -> str:
        return "".join(self.tree.source(guard.normal()[0]).split())


def _in_place(method: str) -> bool:
    return method.endswith("_") and not method.startswith("_")


def _base_path(node: cst.BaseExpression) -> str:
    """``a.b`` for ``a.b[i].c``: the part of a target up to its first subscript or call."""
    path = dotted(node)
    while path is None:
        if isinstance(node, (cst.Attribute, cst.Subscript)):
            node = node.value
        elif isinstance(node, cst.Call):
            node = node.func
        else:
            return ""
        path = dotted(node)
    return path


def _related(first: str, second: str) -> bool:
    """Whether one path is the other or begins with it."""
    return (first + ".").startswith(second + ".") or (second + ".").startswith(first + ".")
