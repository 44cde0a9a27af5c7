"""Which files deserve a parse, and which rules may have something to say about them.

Two sieves ask the same question, ``Rule.requires``, at two prices. The first looks for the
identifiers anywhere in the bytes. The second asks ``ast`` which identifiers the code uses, so
that words in comments and prose do not count; it also refuses what would overflow the parser.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator, Sequence, Set

from amp_lint.rule import Rule

MAX_DEPTH = 400
"""Nesting of the syntax tree beyond which a file is refused; real files stay below 100."""


class TooDeepError(Exception):
    """The file nests more deeply than can be analysed."""


class Sieve:
    """The two sieves for one selection of rules."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        words = {word for rule in rules for group in rule.requires for word in group}
        alternatives = "|".join(sorted(map(re.escape, words), key=len, reverse=True))
        self._pattern = re.compile(rb"\b(?:%s)\b" % alternatives.encode()) if words else None

    def by_bytes(self, data: bytes, *linked: bytes) -> tuple[Rule, ...]:
        """The rules whose identifiers all occur in the bytes of a file, or of those linked to it.

        One of them in its own.
        """
        if self._pattern is None:
            return ()
        own = {word.decode() for word in set(self._pattern.findall(data))}
        words = own.union(*(_words(self._pattern, other) for other in linked))
        return tuple(rule for rule in wanted(self.rules, words) if _mentions(own, rule))

    def by_own_bytes(self, data: bytes) -> tuple[Rule, ...]:
        """The rules of whose identifiers at least one occurs in the bytes of a file."""
        words = _words(self._pattern, data) if self._pattern else frozenset[str]()
        return tuple(rule for rule in self.rules if _mentions(words, rule))

    def by_syntax(self, data: bytes, rules: Sequence[Rule]) -> tuple[Rule, ...]:
        """The rules among ``rules`` whose identifiers the code really uses.

        Raises:
            SyntaxError: the file is not Python.
            TooDeepError: the file nests too deeply to be analysed.
        """
        return wanted(rules, set(identifiers(parse(data))))


@functools.lru_cache(maxsize=512)
def _words(pattern: re.Pattern[bytes], data: bytes) -> frozenset[str]:
    """The identifiers in the bytes of a file that many others import."""
    return frozenset(word.decode() for word in set(pattern.findall(data)))


def _mentions(words: Set[str], rule: Rule) -> bool:
    return any(not words.isdisjoint(group) for group in rule.requires)


def wanted(rules: Sequence[Rule], words: set[str]) -> tuple[Rule, ...]:
    """The rules of which every group of required identifiers has one in ``words``."""
    return tuple(
        rule for rule in rules if all(not words.isdisjoint(group) for group in rule.requires)
    )


def parse(data: bytes | str) -> ast.Module:
    """``ast.parse`` without warnings, its ways to say "too deep" made one.

    A lack of memory cannot be told from them.

    Raises:
        SyntaxError: the file is not Python.
        TooDeepError: the interpreter's own parser gave up.
    """
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(data)
    except (RecursionError, MemoryError) as error:
        raise TooDeepError("nests too deeply, or is too large, to be parsed") from error
    except ValueError as error:  # bytes that Python's own decoder refuses
        raise SyntaxError(str(error)) from error


def identifiers(module: ast.Module) -> Iterator[str]:
    """Every identifier that the code uses, and strings that are one (``dtype="float16"``).

    Raises:
        TooDeepError: the tree is deeper than `MAX_DEPTH`.
    """
    level: list[ast.AST] = [module]
    for _ in range(MAX_DEPTH):
        if not level:
            return
        for node in level:
            yield from _own_identifiers(node)
        level = [child for node in level for child in _children(node)]
    raise TooDeepError(f"nests more than {MAX_DEPTH} levels deep")


def _children(node: ast.AST) -> Iterable[ast.AST]:
    """The nodes below; ``a and b and c`` as the two levels that libcst makes of it."""
    if isinstance(node, ast.BoolOp) and len(node.values) > 2:
        return ast.BoolOp(node.op, node.values[:-1]), node.values[-1]
    return ast.iter_child_nodes(node)


def _own_identifiers(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=word) | ast.Attribute(attr=word) | ast.keyword(arg=str(word)):
            yield word
        case ast.alias(name=dotted):
            yield from dotted.split(".")
        case ast.Constant(value=str(word)) if word.isidentifier():
            yield word
        case ast.ClassDef(name=word) | ast.FunctionDef(name=word) | ast.arg(arg=word):
            yield word
        case ast.ImportFrom(module=str(dotted)):
            yield from dotted.split(".")
