"""Code without layout: a tree in which two texts are equal if, and only if, they do the same.

Literals count by type and `repr`, imported names by what they stand for, all else as written.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import hashlib
from collections.abc import Iterable, Iterator

import libcst as cst

from amp_lint.syntax.tree import is_a

BLOCK = "block"
"""The kind of a list of statements."""
_PUNCTUATION = frozenset(
    {
        "colon", "comma", "default_indent", "default_newline", "dot", "encoding", "equal",
        "first_colon", "footer", "has_trailing_newline", "header", "indent", "lbrace", "lbracket",
        "leading_lines", "lines_after_decorators", "lpar", "newline", "posonly_ind", "rbrace",
        "rbracket", "rpar", "second_colon", "semicolon", "separator", "trailing_comma",
        "trailing_whitespace",
    }
)  # fmt: skip
_NAMING = frozenset({"attr", "keyword", "name"})
"""Fields whose name stands for itself, and for no value."""
_LITERALS = (cst.Integer, cst.Float, cst.Imaginary, cst.SimpleString, cst.ConcatenatedString)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Plain:
    """A piece of code without layout."""

    kind: str
    """The type of the node, or `BLOCK`."""
    text: str
    """What it says beside its parts: the value of a literal, an operator, how many parts there are
    of each sort."""
    parts: tuple[Plain, ...]
    node: cst.CSTNode
    """Where it stands; of a block, what it is the body of."""
    digest: bytes
    """Equal for equal code."""


def plain(kind: str, text: str, parts: Iterable[Plain], node: cst.CSTNode) -> Plain:
    """A piece of code, with its digest."""
    below = tuple(parts)
    digest = hashlib.blake2b(repr((kind, text)).encode("utf-8", "surrogatepass"), digest_size=16)
    for part in below:
        digest.update(part.digest)
    digest.update(b"%d" % len(below))
    return Plain(kind, text, below, node, digest.digest())


@functools.cache
def _fields(node_type: type[cst.CSTNode]) -> tuple[str, ...]:
    names = (field.name for field in dataclasses.fields(node_type))
    return tuple(n for n in names if n not in _PUNCTUATION and not n.startswith("whitespace"))


def pieces(node: cst.CSTNode) -> Iterator[tuple[str, object]]:
    """What a node is made of, by field, without layout."""
    for name in _fields(type(node)):
        value = getattr(node, name)
        if name == "operator":
            yield name, type(value).__name__
        elif not isinstance(value, cst.MaybeSentinel):
            yield name, value
    if is_a(node, cst.FormattedStringExpression):
        yield "shows its text", "" if node.equal is None else "="
    if is_a(node, cst.Subscript) and len(node.slice) == 1:
        yield "asks for a tuple", isinstance(node.slice[0].comma, cst.Comma)
    if is_a(node, cst.AnnAssign):
        yield "declares no name", bool(getattr(node.target, "lpar", ()))


def word(field: str, value: cst.CSTNode) -> str | None:
    """A name in a field that is only a word: of an attribute, a keyword, a definition."""
    return value.value if field in _NAMING and is_a(value, cst.Name) else None


def literal_text(node: cst.CSTNode) -> str | None:
    """A number or string by type and value; None for all else."""
    if not is_a(node, _LITERALS):
        return None
    if isinstance(node, cst.ConcatenatedString) and _is_formatted(node):
        return None
    value: object = ast.literal_eval(f"({cst.Module([]).code_for_node(node)})")
    return f"{type(value).__name__} {value!r}"


def _is_formatted(node: cst.BaseString) -> bool:
    if isinstance(node, cst.ConcatenatedString):
        return _is_formatted(node.left) or _is_formatted(node.right)
    return not isinstance(node, cst.SimpleString)
