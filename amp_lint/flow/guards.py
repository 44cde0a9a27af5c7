"""Which code runs only where an API is missing: branches on versions, ``hasattr``, ``except``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import libcst as cst

from amp_lint.flow.values import Values, literal
from amp_lint.syntax.memo import per_node
from amp_lint.syntax.names import Names, canonical, dotted
from amp_lint.syntax.references import is_read
from amp_lint.syntax.tree import Tree, descendants, last_statement

Version = tuple[int, int]

_LEAVING = (cst.Return, cst.Raise, cst.Continue, cst.Break)
_ABOUT_TORCH = re.compile(r"torch|(?:^|_)pt(?:_|$)", re.IGNORECASE)
_ABOUT_VERSIONS = re.compile(
    r"version|greater|less|least|newer|older|(?:^|_)[gl][et](?:_|$)|\d_\d|torch_?\d", re.IGNORECASE
)
_AT_LEAST = re.compile(r"greater|least|newer|(?:^|_)g[te](?:_|$)", re.IGNORECASE)
_BOUNDS = {
    cst.GreaterThan: True, cst.GreaterThanEqual: True,
    cst.LessThan: False, cst.LessThanEqual: False,
}  # fmt: skip
"""Operators that compare a version, on the left, with a bound."""
_NOT_A_VERSION = ("torch.version.cuda", "torch.version.hip", "torch.version.xpu")
_NUMBER = re.compile(r"(?<!\d)(\d{1,2})[._](\d{1,2})(?!\d)")
_MAX_STEPS = 3  # flags computed from flags


class Guards:
    """Finds fallbacks for an API that old releases lack."""

    def __init__(
        self,
        tree: Tree,
        names: Names,
        values: Values,
        new: frozenset[str],
        since: Version,
        *,
        longer: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """A file's fallbacks.

        Args:
            tree: The file.
            names: What its names mean.
            values: And what they hold.
            new: Qualified names of the API; no release before ``since`` had any.
            since: That release.
            longer: Names that older releases had, too -> how many arguments only the new one takes.
        """
        self.tree = tree
        self.names = names
        self.values = values
        self.new = new
        self.since = since
        self.longer = longer

    def is_fallback(self, node: cst.CSTNode) -> bool:
        """Whether a test of the version, or a failed use of the new API, decides if this runs."""
        return any(
            self._decides(holder, child) or self._is_for_old(holder, child)
            for holder, child in self._holders(node)
        )

    def _replaces(self, node: cst.CSTNode) -> bool:
        """Whether that is so because the new API is used elsewhere."""
        return any(self._decides(holder, child) for holder, child in self._holders(node))

    def _holders(self, node: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
        """What holds a node, each with what it holds it in."""
        child = node
        for holder in self.tree.ancestors(node):
            yield holder, child
            child = holder

    def chooses(self, node: cst.Name | cst.Attribute) -> bool:
        """Whether a reference to the old API stands where the new one would, were it there.

        That is so in a fallback, and for a name that a fallback may have bound.
        """
        if self.is_fallback(node) or self.names.is_any(node, self.new):
            return True
        root: cst.BaseExpression = node
        while isinstance(root, cst.Attribute):
            root = root.value
        return isinstance(root, cst.Name) and any(
            self._replaces(binding.node)
            or (binding.value is not None and self.mentions(binding.value))
            for binding in self.names.bindings(root)
            if binding.qualified != "torch"
        )

    def mentions(self, node: cst.CSTNode) -> bool:
        """Whether the new API is used or imported below ``node``."""
        return any(self._is_new(below) for below in descendants(node))

    def _decides(self, holder: cst.CSTNode, child: cst.CSTNode) -> bool:
        match holder:
            case cst.If() | cst.IfExp():
                return child is not holder.test and self._tells(holder.test, holder)
            case cst.Try():
                parts = (holder.body, *holder.handlers, holder.orelse, holder.finalbody)
                return any(p is not None and p is not child and self.mentions(p) for p in parts)
            case cst.BooleanOperation():
                return child is holder.right and self._tells(holder.left, holder)
            case cst.Call():
                return dotted(holder.func) == "getattr" and self._looks_up(holder)
            case cst.IndentedBlock() | cst.Module():
                return self._left_before(holder, child)
        return False

    def _left_before(self, block: cst.IndentedBlock | cst.Module, child: cst.CSTNode) -> bool:
        """Whether ``if NEW: return ...`` stands above ``child`` in its block."""
        leaving = self._leaving(block)
        return leaving is not None and self.tree.order(leaving) < self.tree.order(child)

    @per_node
    def _leaving(self, block: cst.IndentedBlock | cst.Module) -> cst.CSTNode | None:
        """The first ``if NEW: return ...`` of a block."""
        for statement in block.body:
            if not isinstance(statement, cst.If) or not _leaves(statement.body):
                continue
            if self.mentions(statement) and self._tells(statement.test, statement):
                return statement
        return None

    def _tells(self, test: cst.BaseExpression, holder: cst.CSTNode) -> bool:
        """Whether a test tells releases with the new API from those without."""
        if self.mentions(test) or any(self._looks_up(n) for n in descendants(test)):
            return True
        found = list(self._versions(test, _MAX_STEPS))
        known = [version for version in found if version is not None]
        if known and max(known) < self.since:
            return self.mentions(holder)  # it tells two old releases from each other
        return bool(found)

    def _is_for_old(self, holder: cst.CSTNode, child: cst.CSTNode) -> bool:
        """Whether an arm is taken by releases only that are older than one without the new API."""
        if not isinstance(holder, (cst.If, cst.IfExp)) or child is holder.test:
            return False
        if not any(self._versions(holder.test, _MAX_STEPS)):
            return False
        return self._is_lower_bound(holder.test) is (child is holder.orelse)

    def _is_lower_bound(self, test: cst.BaseExpression) -> bool | None:
        """Whether a test holds for new releases; None if nobody can tell."""
        match test:
            case cst.UnaryOperation(operator=cst.Not(), expression=inner):
                negated = self._is_lower_bound(inner)
                return None if negated is None else not negated
            case cst.Comparison(comparisons=[cst.ComparisonTarget(operator=operator)]):
                return _BOUNDS.get(type(operator))
            case cst.Name(value=word) | cst.Attribute(attr=cst.Name(value=word)):
                return True if _AT_LEAST.search(word) else None
            case cst.Call(func=called):
                return self._is_lower_bound(called)
        return None

    def _is_new(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.ImportFrom) and not isinstance(node.names, cst.ImportStar):
            module = dotted(node.module) if node.module and not node.relative else ""
            found = (f"{module}.{dotted(alias.name)}" for alias in node.names)
            return any(canonical(name) in self.new for name in found)
        if isinstance(node, cst.Import):
            return any(dotted(alias.name) in self.new for alias in node.names)
        if isinstance(node, (cst.Name, cst.Attribute)):
            return self.names.is_any(node, self.new)
        if isinstance(node, cst.Call) and self.longer:
            names = self.names.qualified(node.func) & self.longer.keys()
            return any(len(node.args) >= self.longer[name] for name in names)
        return False

    def _looks_up(self, node: cst.CSTNode) -> bool:
        """``hasattr(torch.amp, "GradScaler")``, and ``getattr`` in the same way."""
        if not isinstance(node, cst.Call) or dotted(node.func) not in ("hasattr", "getattr"):
            return False
        if len(node.args) < 2:
            return False
        owner, name = node.args[0].value, literal(node.args[1].value)
        return any(f"{module}.{name}" in self.new for module in self.names.qualified(owner))

    def _versions(self, test: cst.CSTNode, steps: int) -> Iterator[Version | None]:
        """The versions of torch that a test compares with; None for one it does not show."""
        about_torch = False
        numbers: list[Version] = []
        for node in descendants(test):
            about_torch |= isinstance(node, cst.Call) and _asks_by_name(node)
            if isinstance(node, (cst.Name, cst.Attribute)):
                about_torch |= self._is_version(node)
                if is_read(self.tree, node):
                    yield from self._of_flag(node, steps)
            numbers += _numbers(node)
        if about_torch:
            yield None
            yield from numbers

    def _is_version(self, node: cst.Name | cst.Attribute) -> bool:
        if isinstance(node, cst.Attribute):
            names = self.names.qualified(node)
            if not names.isdisjoint(_NOT_A_VERSION):
                return False
            return "torch.__version__" in names or "torch.version.__version__" in names
        word = node.value
        return bool(_ABOUT_TORCH.search(word) and _ABOUT_VERSIONS.search(word))

    def _of_flag(self, node: cst.Name | cst.Attribute, steps: int) -> Iterator[Version | None]:
        """The versions that decide the value of a flag or the result of a local function."""
        if steps <= 0:
            return
        if isinstance(node, cst.Attribute):
            for value in self.values.attribute_values(node):
                yield from self._versions(value, steps - 1)
            return
        for binding in self.names.bindings(node):
            if binding.kind == "assign" and binding.value is not None:
                if self.mentions(binding.value) or self._in_try(binding.node):
                    yield None
                yield from self._versions(binding.value, steps - 1)
            elif binding.kind == "function":
                yield from self._versions(binding.node, steps - 1)

    def _in_try(self, node: cst.CSTNode) -> bool:
        """Whether a flag is set beside an attempt to use the new API."""
        attempt = self.tree.ancestor(node, cst.Try, cst.FunctionDef)
        return isinstance(attempt, cst.Try) and self.mentions(attempt)


def _asks_by_name(call: cst.Call) -> bool:
    """``compare_version("torch", operator.ge, "2.4.0")``, in whatever words."""
    word = (dotted(call.func) or "").rpartition(".")[2]
    texts = [
        arg.value.evaluated_value for arg in call.args if isinstance(arg.value, cst.SimpleString)
    ]
    return bool(_ABOUT_VERSIONS.search(word)) and "torch" in texts


def _numbers(node: cst.CSTNode) -> Iterator[Version]:
    if isinstance(node, (cst.SimpleString, cst.Float, cst.Name)):
        for major, minor in _NUMBER.findall(node.value):
            yield int(major), int(minor)
    elif isinstance(node, cst.Tuple) and len(node.elements) >= 2:
        major, minor = (literal(item.value) for item in node.elements[:2])
        if isinstance(major, int) and isinstance(minor, int):
            yield major, minor


def _leaves(body: cst.BaseSuite) -> bool:
    return isinstance(last_statement(body), _LEAVING)
