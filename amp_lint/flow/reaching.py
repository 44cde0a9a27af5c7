"""Which assignments reach a use, whether a value changes on the way, and under which tests."""

from __future__ import annotations

import bisect
import functools
import itertools
import operator
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from amp_lint.flow.branches import Guard, arms
from amp_lint.flow.conditions import is_mode_test, text
from amp_lint.syntax.assignments import assigned
from amp_lint.syntax.memo import per_node
from amp_lint.syntax.names import Binding, Names, Scope, dotted
from amp_lint.syntax.tree import Tree, descendants
from amp_lint.vocabulary.purity import PURE_METHODS, is_pure_function

_SUITES = (cst.IndentedBlock, cst.SimpleStatementSuite, cst.Module)
_LOOPS = (cst.For, cst.While)
_TARGETS = (cst.AssignTarget, cst.AugAssign, cst.AnnAssign, cst.Del)
_PACKED = (cst.Element, cst.StarredElement, cst.Tuple, cst.List)
_MAY_BE_IN_PLACE = (cst.Attribute, cst.Subscript, cst.Call, cst.AugAssign, cst.Del)
"""What writes to more than a name, as `Flow` keeps it."""
_OPAQUE = (cst.Lambda, cst.Await, cst.Yield, cst.NamedExpr, cst.ListComp, cst.SetComp,
           cst.DictComp, cst.GeneratorExp)  # fmt: skip

CHEAP = frozenset(
    {
        "clamp", "contiguous", "detach", "diag", "diagonal", "double", "expand", "expand_as",
        "flatten", "float", "gather", "half", "index_select", "movedim", "permute", "reshape",
        "size", "squeeze", "swapaxes", "t", "to", "transpose", "type_as", "unsqueeze", "view",
        "view_as",
    }
)  # fmt: skip
"""Tensor operations that may be computed later, or a second time, without anybody noticing."""
MAX_REACHING = 64
"""Bindings that a use may see, beyond which nothing is said of them."""


@dataclass(frozen=True, slots=True)
class _Ranked:
    """The bindings of one name, in source order."""

    ranks: list[int]
    bindings: list[Binding]
    members: frozenset[int]
    """Ids of the bindings."""

    @classmethod
    def of(cls, bindings: list[Binding], tree: Tree) -> _Ranked:
        ranked = sorted(bindings, key=lambda binding: tree.order(binding.node))
        ranks = [tree.order(binding.node) for binding in ranked]
        return cls(ranks, ranked, frozenset(map(id, ranked)))

    def before(self, rank: int) -> Iterator[Binding]:
        """Those before a place, the nearest first."""
        for index in range(bisect.bisect_left(self.ranks, rank) - 1, -1, -1):
            yield self.bindings[index]

    def between(self, first: int, last: int) -> list[Binding]:
        """Those in a range of source order."""
        start = bisect.bisect_left(self.ranks, first)
        return self.bindings[start : bisect.bisect_left(self.ranks, last)]


class Flow:
    """Order of assignments inside one scope. Exceptions are not followed."""

    def __init__(self, tree: Tree, names: Names) -> None:
        self.tree = tree
        self.names = names
        self._ranked: dict[int, _Ranked] = {}
        self._read_by: dict[int, dict[int, list[cst.Name]]] = {}

    # --- which assignment reaches a use -------------------------------------------------------

    def reaching(self, name: cst.Name) -> list[Binding]:
        """Every binding that a use may see, the nearest first; [] when it cannot be told."""
        bindings = self.names.bindings(name)
        if not bindings or not self._same_scope(name, bindings[0]):
            return bindings if len(bindings) == 1 else []
        ranked = self._rank(bindings)
        seen: list[Binding] = []
        last: Binding | None = None
        for binding in ranked.before(self.tree.order(name)):
            if not self._computes(binding, name) and not self.exclusive(binding.node, name):
                seen.append(binding)
                if self._dominates(binding, name):
                    last = binding
                    break
                if len(seen) > MAX_REACHING:
                    return []
        return seen + self._carried(ranked, name, last)

    def _rank(self, bindings: list[Binding]) -> _Ranked:
        """The bindings of one name of one scope, sorted once."""
        if id(bindings) not in self._ranked:
            self._ranked[id(bindings)] = _Ranked.of(bindings, self.tree)
        return self._ranked[id(bindings)]

    def _carried(self, ranked: _Ranked, use: cst.Name, last: Binding | None) -> list[Binding]:
        """The bindings that a loop carries back to a use, past ``last``, which always runs."""
        loop = self._loop_to(use, last)
        if loop is None:
            return []
        at = self.tree.order(use)
        return [
            binding
            for binding in ranked.between(self.tree.order(loop), self.tree.end(loop))
            if binding.node is not loop
            and (self._order(binding) >= at or self._computes(binding, use))
        ]

    def _loop_to(self, use: cst.Name, last: Binding | None) -> cst.CSTNode | None:
        """The outermost loop around a use that ``last`` does not run in each round of."""
        loops = [
            holder
            for holder in self.tree.ancestors(use)
            if isinstance(holder, _LOOPS)
            and (last is None or last.node is holder or not self.tree.contains(holder, last.node))
        ]
        return loops[-1] if loops else None

    def held(self, node: cst.BaseExpression) -> Binding | None:
        """The assignment whose value a local name certainly still has, unchanged in place."""
        found = self.certain(node)
        assigned = found is not None and found.kind == "assign" and found.value is not None
        return found if assigned else None

    def certain(self, node: cst.BaseExpression) -> Binding | None:
        """The only binding that a local name can have here, if what it is bound to is unchanged."""
        if not isinstance(node, cst.Name):
            return None
        found = self.reaching(node)
        if len(found) != 1:
            return None
        if not self._same_scope(node, found[0]) or not self._dominates(found[0], node):
            return None
        for path, at in self._writes_between(found[0].node, node, node.value):
            elsewhere = self.tree.contains(at, node) or self.exclusive(at, node)
            if path == node.value and at is not found[0].node and not elsewhere:
                return None
        return found[0]

    def is_rebound(self, name: cst.Name, until: cst.CSTNode) -> bool:
        """Whether all ways from a use of a name to a place below it bind the name again."""
        child: cst.CSTNode = name
        for holder in self.tree.ancestors(name):
            if isinstance(holder, _SUITES):
                behind = (s for s in holder.body if self.tree.order(s) > self.tree.order(child))
                between = (s for s in behind if self.tree.end(s) <= self.tree.order(until))
                if any(self._binds(statement, name.value) for statement in between):
                    return True
            if self.tree.contains(holder, until) or isinstance(holder, cst.FunctionDef):
                return False
            child = holder
        return False

    def _binds(self, statement: cst.CSTNode, name: str) -> bool:
        """Whether a statement binds a name, whatever its tests say."""
        match statement:
            case cst.SimpleStatementLine():
                targets = (target for part in statement.body for target, _ in assigned(part))
                return any(isinstance(each, cst.Name) and each.value == name for each in targets)
            case cst.If(orelse=cst.If() | cst.Else() as other):
                return all(self._binds(arm, name) for arm in (statement.body, other))
            case cst.With() | cst.Else():
                return self._binds(statement.body, name)
            case cst.IndentedBlock() | cst.SimpleStatementSuite():
                return any(self._binds(each, name) for each in statement.body)
        return False

    def readers(self, binding: Binding) -> list[cst.Name]:
        """The uses of a name that may see this binding."""
        scope = self.names.scope(binding.node).node
        bindings = self.names.visible(binding.node, binding.name)
        ranked = self._rank(bindings)
        if id(binding) in ranked.members and self._have_one_home(ranked):
            found = self._readers_of(bindings).get(id(binding), [])
        else:
            found = [name for name in self._reads[binding.name] if self._may_see(name, binding)]
        return [name for name in found if self.tree.contains(scope, name)]

    @per_node
    def _have_one_home(self, ranked: _Ranked) -> bool:
        return len({id(self._home(binding)) for binding in ranked.bindings}) == 1

    def _may_see(self, name: cst.Name, binding: Binding) -> bool:
        if binding not in self.names.bindings(name):
            return False
        return not self._same_scope(name, binding) or binding in self.reaching(name)

    def _readers_of(self, bindings: list[Binding]) -> dict[int, list[cst.Name]]:
        """Id of a binding -> the uses that may see it, for all the bindings of a name at once."""
        if id(bindings) not in self._read_by:
            found: dict[int, list[cst.Name]] = defaultdict(list)
            for name in self._reads[bindings[0].name]:
                if self.names.bindings(name) is bindings:
                    same = self._same_scope(name, bindings[0])
                    for binding in self.reaching(name) if same else bindings:
                        found[id(binding)].append(name)
            self._read_by[id(bindings)] = found
        return self._read_by[id(bindings)]

    @functools.cached_property
    def _reads(self) -> dict[str, list[cst.Name]]:
        """The places where a name is read, in source order."""
        found: dict[str, list[cst.Name]] = defaultdict(list)
        for name in self.tree.linked.nodes(cst.Name):
            if self._is_read(name):
                found[name.value].append(name)
        return found

    def exclusive(self, first: cst.CSTNode, second: cst.CSTNode) -> bool:
        """Whether the two stand in different arms of one test, so that not both are reached.

        Of one ``if``, or of two that ask for the same setting.
        """
        found = {id(test): holds for test, holds in arms(self.tree, first)}
        if any(found.get(id(test), holds) != holds for test, holds in arms(self.tree, second)):
            return True
        known, settings = self._settings(first), self._settings(second)
        return any(
            known[asked][0] != settings[asked][0] and self._is_set_once(known[asked][1], second)
            for asked in known.keys() & settings.keys()
        )

    @per_node
    def _settings(self, node: cst.CSTNode) -> dict[str, tuple[bool, cst.BaseExpression]]:
        """Settings that the tests around a place ask for, how they turn out, and the tests."""
        tests = (Guard(test, holds).normal() for test, holds in arms(self.tree, node))
        return {text(test): (holds, test) for test, holds in tests if is_mode_test(test)}

    def _is_set_once(self, test: cst.BaseExpression, until: cst.CSTNode) -> bool:
        """Whether a test turns out the same at a place below it."""
        return not self.changed(test, test, until)

    def _order(self, binding: Binding) -> int:
        return self.tree.order(binding.node)

    def _same_scope(self, name: cst.Name, binding: Binding) -> bool:
        return self.names.scope(name) is self._home(binding)

    def _home(self, binding: Binding) -> Scope | None:
        """The scope that a binding belongs to by its place."""
        if binding.kind != "parameter":
            return self.names.scope(binding.node)
        holder = self.tree.ancestor(binding.node, cst.FunctionDef, cst.Lambda)
        if not isinstance(holder, (cst.FunctionDef, cst.Lambda)):
            return None
        return self.names.scope_of(holder)

    def _computes(self, binding: Binding, name: cst.Name) -> bool:
        """Whether the use is part of what the binding computes its value from (``x = f(x)``)."""
        node = binding.node
        inside = node.iter if isinstance(node, cst.For) else node
        return not isinstance(node, cst.CompFor) and self.tree.contains(inside, name)

    def _dominates(self, binding: Binding, use: cst.CSTNode) -> bool:
        if binding.kind == "parameter":
            return True
        suite = self._suite(binding.node)
        return self.tree.contains(suite, use) or self._is_as_sure(suite, use)

    def _is_as_sure(self, suite: cst.CSTNode, use: cst.CSTNode) -> bool:
        """Whether a block is an arm of a test of a setting, and a place is under the same one."""
        arm = self.tree.parent(suite) if isinstance(self.tree.parent(suite), cst.Else) else suite
        branch = self.tree.parent(arm) if arm is not None else None
        if not isinstance(branch, cst.If) or not self.tree.contains(self._suite(branch), use):
            return False
        test, holds = Guard(branch.test, arm is branch.body).normal()
        found = self._settings(use).get(text(test))
        return found is not None and found[0] is holds and self._is_set_once(test, use)

    def _suite(self, node: cst.CSTNode) -> cst.CSTNode:
        """The innermost block all of whose statements run if ``node`` does."""
        for holder in self.tree.ancestors(node):
            if isinstance(holder, _SUITES) and not isinstance(self.tree.parent(holder), cst.With):
                return holder
        return self.tree.module

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
        if any(
            _related(path, other)
            for other in read
            for path, _ in self._writes_between(since, until, other)
        ):
            return True
        owners = {path.rpartition(".")[0] for path in read if "." in path}
        return any(self._is_called_between(owner, since, until) for owner in owners)

    def is_quiet(self, since: cst.CSTNode, until: cst.CSTNode) -> bool:
        """Whether nothing between two places may change a tensor, or how tensors are computed.

        Names may be bound there; other calls than those known to change nothing may not be made.
        """
        first, last = self.tree.end(since), self.tree.order(until)
        start = bisect.bisect_left(self._writes, first, key=operator.itemgetter(0))
        writes = itertools.takewhile(lambda write: write[0] < last, self._writes[start:])
        if any(isinstance(node, _MAY_BE_IN_PLACE) for _, _, node in writes):
            return False
        return all(map(self._is_pure, self.tree.between(cst.Call, first, last)))

    def _is_pure(self, call: cst.Call) -> bool:
        """Whether a call is known to change nothing."""
        if any(arg.keyword and arg.keyword.value in ("inplace", "out") for arg in call.args):
            return False
        func = call.func
        qualified = self.names.qualified(func)
        if qualified:
            return all(map(is_pure_function, qualified))
        return isinstance(func, cst.Attribute) and func.attr.value in PURE_METHODS

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
        self, since: cst.CSTNode, until: cst.CSTNode, path: str
    ) -> Iterator[tuple[str, cst.CSTNode]]:
        """The writes between two places to what begins with the same name as ``path``."""
        ranks, writes = self._writes_to.get(path.partition(".")[0], ([], []))
        first, last = self._stretch(since, until)
        yield from writes[bisect.bisect_left(ranks, first) : bisect.bisect_left(ranks, last)]

    def _is_called_between(self, owner: str, since: cst.CSTNode, until: cst.CSTNode) -> bool:
        """Whether a method of an object is called between two places."""
        ranks = self._calls_on.get(owner, [])
        first, last = self._stretch(since, until)
        return bisect.bisect_left(ranks, first) < bisect.bisect_left(ranks, last)

    @functools.cached_property
    def _calls_on(self) -> dict[str, list[int]]:
        """The ranks of the calls of methods of an object."""
        found: dict[str, list[int]] = defaultdict(list)
        for call in self.tree.nodes(cst.Call):
            if isinstance(call.func, cst.Attribute):
                found[dotted(call.func.value) or ""].append(self.tree.order(call))
        return found

    def _stretch(self, since: cst.CSTNode, until: cst.CSTNode) -> tuple[int, int]:
        """The ranks of nodes that may run between two places, loops around the second included."""
        last = self.tree.order(until)
        for holder in self.tree.ancestors(until):
            if isinstance(holder, _LOOPS) and not self.tree.contains(holder, since):
                last = self.tree.end(holder)
        return self.tree.order(since), last

    @functools.cached_property
    def _writes_to(self) -> dict[str, tuple[list[int], list[tuple[str, cst.CSTNode]]]]:
        """The first name of a path -> the ranks of the writes to it, and path and node of each."""
        found: dict[str, tuple[list[int], list[tuple[str, cst.CSTNode]]]] = {}
        for at, path, node in self._writes:
            ranks, writes = found.setdefault(path.partition(".")[0], ([], []))
            ranks.append(at)
            writes.append((path, node))
        return found

    @functools.cached_property
    def _writes(self) -> list[tuple[int, str, cst.CSTNode]]:
        """Every assignment to a name, attribute or element, every call of an in-place method.

        With its rank, by which they are sorted.
        """
        found = [(self._order(b), b.name, b.node) for b in self.names.every_binding()]
        for kind in (cst.Attribute, cst.Subscript):
            for target in self.tree.nodes(kind):
                whole: cst.CSTNode = target
                holder = self.tree.parent(target)
                while isinstance(holder, _PACKED):
                    whole, holder = holder, self.tree.parent(holder)
                if isinstance(holder, _TARGETS) and holder.target is whole:
                    found.append((self.tree.order(target), _base_path(target), target))
        for call in self.tree.nodes(cst.Call):
            function = call.func
            if isinstance(function, cst.Attribute) and _in_place(function.attr.value):
                found.append((self.tree.order(call), _base_path(function.value), call))
        return sorted(found, key=operator.itemgetter(0))


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
