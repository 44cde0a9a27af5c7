"""A libcst tree with what libcst's own visitors and metadata are too slow for.

On a repository of 5.5 MB, libcst's position, parent and name providers took twelve times as long
as parsing. Here one walk over a table of child fields gives parents and order, and spans come
from one code generation, made only when somebody asks for the first one.
"""

from __future__ import annotations

import ast
import bisect
import contextlib
import dataclasses
import functools
import operator
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeGuard, TypeVar, cast

import libcst as cst

from amp_lint.syntax.parse import parse
from amp_lint.syntax.spans import ParseError, Recorder, Span, Spans

Node = TypeVar("Node", bound=cst.CSTNode)

_SKIPPED_FIELDS = {
    "comma", "colon", "dot", "equal", "footer", "header", "leading_lines",
    "lines_after_decorators", "lpar", "operator", "rpar", "semicolon", "trailing_whitespace",
}  # fmt: skip
_TOUCHING = "line {}: put a space between a keyword and `(a if b else c)`, or `(lambda: a)`"
_LINE_END = re.compile(rb"\r\n|\r|\n")
_INDENTED = re.compile(r"^[ \t]", re.MULTILINE)


class _Kinds(dict[type, bool]):
    """Type -> whether it is one of some types; each is asked once."""

    def __init__(self, wanted: type[Node] | tuple[type[Node], ...]) -> None:
        self._wanted = wanted

    def __missing__(self, kind: type) -> bool:
        known = self[kind] = issubclass(kind, self._wanted)
        return known


kinds = functools.cache(_Kinds)
"""The types that are one of some: ``kinds(wanted)[type(value)]``, as `is_a`, for inner loops."""


def is_a(value: object, wanted: type[Node] | tuple[type[Node], ...]) -> TypeGuard[Node]:
    """``isinstance``, which is slow to ask since the types of nodes are abstract; asked once."""
    return kinds(wanted)[type(value)]


_IS_NODE = kinds(cst.CSTNode)


def _reader(names: Sequence[str]) -> Callable[[cst.CSTNode], tuple[object, ...]]:
    if len(names) > 1:
        return operator.attrgetter(*names)
    get = [operator.attrgetter(name) for name in names]
    return (lambda node: (get[0](node),)) if get else lambda node: ()


class _Readers(dict[type, Callable[[cst.CSTNode], tuple[object, ...]]]):
    """Type of node -> what gives the fields in which others may be."""

    def __missing__(self, kind: type) -> Callable[[cst.CSTNode], tuple[object, ...]]:
        names = [
            field.name
            for field in dataclasses.fields(kind)
            if field.name not in _SKIPPED_FIELDS and not field.name.startswith("whitespace")
        ]
        found = self[kind] = _reader(names)
        return found


_FIELDS_OF = _Readers()


def children(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The child nodes that mean something, in source order; not white space, not punctuation."""
    found: list[Any] = []
    for value in _FIELDS_OF[type(node)](node):
        if _IS_NODE[type(value)]:
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += [item for item in value if _IS_NODE[type(item)]]
    return found


def descendants(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """``node`` and everything below it, in source order."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack += reversed(children(current))


def statements_of(body: cst.BaseSuite) -> Iterator[cst.CSTNode]:
    """The statements of a body, each of those that share a line by itself."""
    for statement in body.body:
        if isinstance(statement, cst.SimpleStatementLine):
            yield from statement.body
        else:
            yield statement


def last_statement(body: cst.BaseSuite) -> cst.CSTNode | None:
    """The last statement of a body; of the last line, where that has several."""
    last = body.body[-1] if body.body else None
    return last.body[-1] if isinstance(last, cst.SimpleStatementLine) else last


class Tree:
    """A parsed file: nodes in source order, by type, with parents; spans on demand.

    What the file imports from other files may be attached. Its nodes have parents, an order and
    spans too, all behind those of the file; only `nodes` of `linked` lists them.
    """

    linked: Tree
    """The same tree, whose `nodes` are those of the attached texts too."""

    def __init__(self, text: str, attached: Sequence[str] = ()) -> None:
        """Parse ``text``; ``attached`` is what it imports, where libcst can parse that.

        Raises:
            ParseError: libcst cannot parse it.
        """
        self.text = text
        self.module, self._code = _parsed(text)
        attached = [each if _is_parsable(each) else "" for each in attached]
        self.attached = _parse_attached(attached)
        """The modules of the attached texts."""
        self._parents: dict[int, cst.CSTNode] = {}
        self._by_type: dict[type[cst.CSTNode], list[cst.CSTNode]] = defaultdict(list)
        self._order: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._ranks: dict[type[cst.CSTNode], list[int]] = {}
        self._walk(self.module, self._by_type)
        self.texts = (text, *attached)
        self._own = len(self._order)
        self.linked = _LinkedTree(self) if attached else self

    def _walk(self, root: cst.Module, by_type: dict[type[cst.CSTNode], list[cst.CSTNode]]) -> None:
        stack: list[cst.CSTNode] = [root]
        parents, order = self._parents, self._order
        while stack:
            node = stack.pop()
            order[id(node)] = len(order)
            by_type[type(node)].append(node)
            below = children(node)
            for child in below:
                parents[id(child)] = node
            stack += reversed(below)

    def is_own(self, node: cst.CSTNode) -> bool:
        """Whether a node belongs to the file itself, and not to what is attached."""
        return self._order[id(node)] < self._own

    def nodes(self, node_type: type[Node]) -> list[Node]:
        """All nodes of exactly this type, in source order."""
        return self._by_type.get(node_type, [])  # type: ignore[return-value]

    def named(self, name: str) -> Sequence[cst.Name]:
        """All places where a name is written, also as an attribute or a keyword, in order."""
        return self._named.get(name, ())

    @functools.cached_property
    def _named(self) -> dict[str, list[cst.Name]]:
        found: dict[str, list[cst.Name]] = defaultdict(list)
        for node in self.nodes(cst.Name):
            found[node.value].append(node)
        return dict(found)

    def order(self, node: cst.CSTNode) -> int:
        """The rank of a node in source order."""
        return self._order[id(node)]

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The node that holds ``node``; None for the module."""
        return self._parents.get(id(node))

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The nodes that hold ``node``, innermost first."""
        current = self._parents.get(id(node))
        while current is not None:
            yield current
            current = self._parents.get(id(current))

    def ancestor(self, node: cst.CSTNode, *types: type[Node]) -> Node | None:
        """The innermost holder of one of these types."""
        parents, is_wanted = self._parents, kinds(types)
        holder = parents.get(id(node))
        while holder is not None and not is_wanted[type(holder)]:
            holder = parents.get(id(holder))
        return cast("Node | None", holder)

    def end(self, node: cst.CSTNode) -> int:
        """The rank after that of the last node below ``node``."""
        known = self._ends.get(id(node))
        if known is None:
            last = node
            while below := children(last):
                last = below[-1]
            known = self._ends[id(node)] = self.order(last) + 1
        return known

    def contains(self, outer: cst.CSTNode, inner: cst.CSTNode) -> bool:
        """Whether ``inner`` is ``outer`` or lies below it."""
        return self.order(outer) <= self.order(inner) < self.end(outer)

    def below(self, node: cst.CSTNode, node_type: type[Node]) -> Sequence[Node]:
        """The nodes of exactly this type in a subtree, its root included, in source order."""
        return self.between(node_type, self.order(node), self.end(node))

    def between(self, node_type: type[Node], first: int, end: int) -> Sequence[Node]:
        """The nodes of exactly this type with ranks from ``first`` to below ``end``."""
        nodes = self.nodes(node_type)
        ranks = self._ranks.get(node_type)
        if ranks is None:
            ranks = self._ranks[node_type] = [self.order(each) for each in nodes]
        start = bisect.bisect_left(ranks, first)
        return nodes[start : bisect.bisect_left(ranks, end)]

    def statement(self, node: cst.CSTNode) -> cst.BaseStatement | None:
        """The innermost statement that holds ``node``: a whole line or a compound statement."""
        if isinstance(node, cst.BaseStatement):
            return node
        for holder in self.ancestors(node):
            if isinstance(holder, cst.BaseStatement):
                return holder
        return None

    def span(self, node: cst.CSTNode) -> Span:
        """Offsets of a node's own text: without parentheses around it, comments and line ends."""
        return self._recorder(node).known(node)

    def outer_span(self, node: cst.CSTNode) -> Span:
        """Offsets of everything that belongs to a node.

        For an expression that adds parentheses around it; for a statement its leading comment
        lines, indentation and line end.
        """
        return self._recorder(node).whole[id(node)]

    def source(self, node: cst.CSTNode) -> str:
        """A node's own text, as `span` gives it."""
        start, end = self.span(node)
        return self.linked.text[start:end]

    def _recorder(self, node: cst.CSTNode) -> Recorder:
        holders = (node, *self.ancestors(node))
        module = holders[-1]
        assert isinstance(module, cst.Module)
        return self._spans[id(module)].recorder(holders)

    @functools.cached_property
    def _spans(self) -> dict[int, Spans]:
        """Those of each module; the attached texts follow the own one, a line end between them."""
        found, start = {id(self.module): Spans(self.module, self._code)}, len(self.texts[0]) + 1
        for module, text in zip(self.attached, self.texts[1:], strict=True):
            found[id(module)] = Spans(module, text, start)
            start += len(text) + 1
        return found


class _LinkedTree(Tree):
    """A tree together with what is attached to it."""

    def __init__(self, tree: Tree) -> None:
        self.module, self.attached, self.linked = tree.module, tree.attached, self
        self._tree = tree
        self.text = "\n".join(tree.texts)
        self.texts, self._own = tree.texts, tree._own
        self._parents, self._order, self._ends = tree._parents, tree._order, tree._ends
        self._ranks = {}
        self._by_type = defaultdict(list, {kind: [*n] for kind, n in tree._by_type.items()})
        for module in self.attached:
            self._walk(module, self._by_type)

    @property
    def _spans(self) -> dict[int, Spans]:
        return self._tree._spans


@functools.lru_cache(maxsize=1)  # of one file two trees may be made, with other texts attached
def _parsed(text: str) -> tuple[cst.Module, str]:
    """A module, and what of a text it stands for: libcst loses some white space at the end."""
    end = _end_of_code(text)
    if _INDENTED.search(text, end):
        with contextlib.suppress(ParseError):  # as a string ends in what looks like prose
            return _module(text[:end]), text[:end]
    return _module(text), text


def _module(text: str) -> cst.Module:
    """What libcst makes of a text, of which it takes some Python for none."""
    try:
        return cst.parse_module(text)
    except cst.ParserSyntaxError as error:
        raise ParseError(error.message) from error
    except (cst.CSTValidationError, TypeError) as error:
        line = next(_touching(text), None)
        if line is None:
            raise
        raise ParseError(_TOUCHING.format(line)) from error


def _touching(text: str) -> Iterator[int]:
    """The lines in which a keyword touches what libcst wants apart: ``return(a if b else c)``."""
    data = text.encode()
    starts = [0, *(match.end() for match in _LINE_END.finditer(data))]
    for node in ast.walk(parse(text)):
        if isinstance(node, (ast.IfExp, ast.Lambda)):
            before = data[: starts[node.lineno - 1] + node.col_offset].rstrip()
            end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
            after = data[end:].lstrip()
            around = before.rstrip(b"(")[-1:], after.lstrip(b")")[:1]
            in_parentheses = before.endswith(b"(") and after.startswith(b")")
            if in_parentheses and any(map(bytes.isalpha, around)):
                yield node.lineno


def _end_of_code(text: str) -> int:
    """Where nothing but empty lines and comments follows."""
    end = len(text)
    while end > 0:
        start = text.rfind("\n", 0, end - 1) + 1
        line = text[start:end].strip()
        if line and not line.startswith("#"):
            return end
        end = start
    return end


@functools.lru_cache(maxsize=64)
def _shared_module(text: str) -> cst.Module:
    """A module that may be part of many trees, as many files import it; parsed once."""
    return _module(text)


def _is_parsable(text: str) -> bool:
    try:
        return _shared_module(text) is not None
    except ParseError:
        return False


def _parse_attached(texts: Sequence[str]) -> tuple[cst.Module, ...]:
    """A module for each text; another one where a text comes again, for nodes have one place."""
    return tuple(
        _module(text) if text in texts[:index] else _shared_module(text)
        for index, text in enumerate(texts)
    )
