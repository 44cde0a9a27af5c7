"""What parsers of arguments give: which options nothing reads, and what others may be."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import libcst as cst

from amp_lint.flow.options import CHANGING, Options, Words, read_from
from amp_lint.flow.origins import Origins
from amp_lint.flow.program import Program
from amp_lint.syntax.names import dotted
from amp_lint.syntax.returns import returned

_PARSING = frozenset({"parse_args", "parse_known_args"})
_SHOWING = frozenset(
    {"builtins.print", "builtins.repr", "builtins.str", "builtins.type", "json.dump", "json.dumps",
     "pprint.pprint", "torch.save", "wandb.init", "yaml.dump", "yaml.safe_dump"}
)  # fmt: skip
"""What shows or keeps what it is given, and decides nothing by it."""
_LOGGING = frozenset({"debug", "info", "log_hyperparams", "warning"})
_AS_DICT = frozenset({"builtins.vars"})
_WHOLE = frozenset({"__dict__", "get", "items", "keys", "values"})
"""What reads all attributes of an object, or items of a dict of them."""
_MAX_STEPS = 4
"""Calls, one inside the other, that options are handed through."""


class Parsed:
    """Follows what parsers of arguments give, by its names, to all that may read it."""

    def __init__(self, program: Program, origins: Origins) -> None:
        self.program = program
        self.origins = origins
        self.tree = program.tree

    def is_unread(self, option: cst.Call) -> bool:
        """Whether nothing reads the attribute that a call of ``add_argument`` adds."""
        name = read_from(option)
        if not name or not self._stays or any(map(self.tree.named, CHANGING - {"vars"})):
            return False
        read = (isinstance(self.tree.parent(each), cst.Attribute) for each in self.tree.named(name))
        return not any(read) and name not in self._texts

    def words(self, node: cst.BaseExpression) -> Words:
        """The words that an option may be, where it is read as it was given; or nothing."""
        if not isinstance(node, cst.Attribute) or not self._is_parsed(node.value, _MAX_STEPS):
            return frozenset()
        return Options(self.program.values).offered(node.attr.value)

    def _is_parsed(self, node: cst.BaseExpression, steps: int) -> bool:
        """Whether an object is what a parser gives, be it handed to a function or returned."""
        given = self.program.given_by_all(node) if isinstance(node, cst.Name) else []
        made = given or [*self.program.values.alternatives(node)]
        return steps > 0 and all(self._is_made(each, node, steps) for each in made)

    def _is_made(self, value: cst.BaseExpression, node: cst.BaseExpression, steps: int) -> bool:
        if not isinstance(value, cst.Call):
            return value is not node and self._is_parsed(value, steps - 1)
        if isinstance(value.func, cst.Attribute) and value.func.attr.value == "parse_args":
            return True
        function = self.program.target(value)
        results = returned(function) if function is not None else ()
        return bool(results) and all(self._is_parsed(each, steps - 1) for each in results)

    @functools.cached_property
    def _texts(self) -> set[object]:
        """The texts of the file, but for what options are called where they are added."""
        return {
            text.evaluated_value
            for text in self.tree.nodes(cst.SimpleString)
            if not self._is_of_option(text)
        }

    def _is_of_option(self, text: cst.SimpleString) -> bool:
        call = self.tree.parent(self.tree.parent(text) or text)
        func = call.func if isinstance(call, cst.Call) else None
        return isinstance(func, cst.Attribute) and func.attr.value == "add_argument"

    @functools.cached_property
    def _stays(self) -> bool:
        """Whether something is parsed, and all that may read it is known."""
        calls = self.tree.nodes(cst.Call)
        parsed = [
            call
            for call in calls
            if isinstance(call.func, cst.Attribute) and call.func.attr.value in _PARSING
        ]
        known: set[str] = set()
        todo: list[cst.CSTNode] = [*parsed]
        for node in todo:  # grows while it is read
            fresh = self._next(node)
            if fresh is None:
                return False
            for name in fresh - known:
                todo += filter(self._is_value, map(self._whole, self.tree.named(name)))
            known |= fresh
            todo += self._same(node)
        return bool(parsed)

    def _whole(self, name: cst.Name) -> cst.CSTNode:
        """``self.args`` for its ``args``."""
        holder = self.tree.parent(name)
        is_attribute = isinstance(holder, cst.Attribute) and holder.attr is name
        return holder if is_attribute and holder is not None else name

    def _is_value(self, node: cst.CSTNode) -> bool:
        """Whether a name stands for what it has, and is not given it there."""
        match self.tree.parent(node):
            case cst.Arg(keyword=target) | cst.AnnAssign(target=target):
                return target is not node
            case cst.Param(name=target):
                return target is not node
            case cst.AssignTarget() | cst.Global() | cst.NameItem() | cst.ImportAlias():
                return False
            case cst.Element():
                holder = self.tree.parent(self.tree.parent(node) or node)
                return not isinstance(self.tree.parent(holder or node), cst.AssignTarget)
        return True

    def _same(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """What gives the same back: ``vars(args)``, and calls of a function that returns it."""
        holder = self.tree.parent(node)
        call = self.tree.parent(holder) if isinstance(holder, cst.Arg) else None
        if isinstance(call, cst.Call) and self.program.names.is_any(call.func, _AS_DICT):
            yield call
        elif isinstance(holder, cst.DictElement):
            table = self.tree.parent(holder)
            yield from [table] if table is not None else []
        elif isinstance(holder, cst.Return):
            function = self.program.function_of(holder)
            yield from self.program.calls_of(function) if function is not None else ()

    def _next(self, node: cst.CSTNode) -> set[str] | None:
        """The names that a value goes on under from where it stands; None if that is not known."""
        holder = self.tree.parent(node)
        match holder:
            case cst.Attribute(attr=attr):
                return None if attr.value in _WHOLE else set()
            case cst.Assign(targets=targets):
                return _targets([each.target for each in targets])
            case cst.AnnAssign(target=target):
                return _targets([target])
            case cst.Arg(star=""):
                return self._given(node, self.tree.parent(holder))
            case cst.DictElement() | cst.Expr() | cst.FormattedStringExpression():
                return set()
            case cst.Return():
                return set() if self.program.function_of(holder) is not None else None
        return None

    def _given(self, node: cst.CSTNode, call: cst.CSTNode | None) -> set[str] | None:
        if not isinstance(call, cst.Call):
            return None
        function = self.program.target(call) or self.origins.constructor(call)
        if function is not None:
            bound = self.program.bind(function, call)
            return {name for name, value in bound.items() if value is node} or None
        method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        known = self.program.names.is_any(call.func, _SHOWING | _AS_DICT)
        shows = known or method in _LOGGING
        return set() if shows else None


def _targets(targets: list[cst.BaseExpression]) -> set[str] | None:
    """The names, or names of attributes, that something is assigned to; of pairs the first."""
    firsts = [
        t.elements[0].value if isinstance(t, cst.Tuple) and t.elements else t for t in targets
    ]
    names = [(dotted(each) or "").rpartition(".")[2] for each in firsts]
    return {*names} if all(names) else None
