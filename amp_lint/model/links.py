"""What a file has to know of the files that it imports: the definitions it uses, and no more.

Of each imported file only those statements are taken that define a name which is used, here or in
what is taken already, and only where something in them says that it may have to do with a training
step. They are cut out of the text by `ast`, which is ten times as fast as libcst.
"""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from amp_lint.project import EVENTS, MATTERS, MAX_HOPS, Links
from amp_lint.sieve import TooDeepError, identifiers, parse
from amp_lint.source import Source, SourceError

MAX_CHARACTERS = 150_000
"""Text that one file is linked with."""

_OF_MODULE = re.compile(EVENTS)
_OF_CLASS = re.compile(rf"{EVENTS}|autocast")
_OF_FUNCTION = re.compile(MATTERS)
_MODULE = re.compile(r"Module$")
"""A base of classes whose own gradients and autocast regions do not concern who uses them."""
_OF_TORCH = re.compile(r"(Function|Optimizer|Scheduler|Dataset)$")
"""Bases of classes whose methods are called by torch, or mean what they mean in torch."""
Place = tuple[int, int]
"""A file and the rank of a statement in it."""
Wanted = tuple[int, str]
"""A file and a name in it."""


@dataclass(frozen=True, slots=True)
class Attachments:
    """Texts to attach to a tree, and where the imports of each lead."""

    texts: tuple[str, ...] = ()
    table: dict[tuple[int, str], int] = field(default_factory=dict)
    """(Text, module as its imports spell it) -> text; 0 is the file itself, 1 the first text."""
    words: frozenset[str] = frozenset()
    """The identifiers in the texts."""
    trainers: tuple[tuple[str, bytes], ...] = ()
    """As in `Links`."""


@dataclass(slots=True)
class _Statement:
    """One statement of a module."""

    lines: range
    size: int
    """Characters."""
    matters: bool
    """Whether it may say something about a training step elsewhere."""
    chains: frozenset[str]
    """The dotted names that it reads; none, where those cannot matter either."""
    imports: dict[str, list[str]]
    """The names that it imports, with what they stand for."""
    stars: list[str]


@dataclass(slots=True)
class _File:
    """The statements of one file, and which of them bind a name."""

    lines: list[str]
    statements: list[_Statement]
    binding: dict[str, list[int]]


def attachments(module: ast.Module, links: Links) -> Attachments:
    """What to attach to the file that is parsed as ``module``."""
    return _Linker(module, links).attachments()


class _Linker:
    """Follows the names that a file uses into the files that define them."""

    def __init__(self, module: ast.Module, links: Links) -> None:
        self._links = links
        self._own = _statement(module)
        self._files = [_File([], [self._own], {}), *map(_parsed, links.files)]

    def attachments(self) -> Attachments:
        """The texts, in the order of ``links``, and how they are linked."""
        taken: set[Place] = set()
        room = MAX_CHARACTERS
        for wanted in dict.fromkeys(self._reads(0, self._own)):
            places = self._closure(wanted)
            alias = "GradScaler" in wanted[1]
            if alias or any(self._statement(place).matters for place in places):
                size = sum(self._statement(place).size for place in places - taken)
                if size <= room:
                    room -= size
                    taken |= places
        return self._cut(taken)

    def _statement(self, place: Place) -> _Statement:
        return self._files[place[0]].statements[place[1]]

    def _closure(self, wanted: Wanted) -> set[Place]:
        """The statements that a name stands for, with all they use."""
        found: set[Place] = set()
        hops = {wanted: 1}
        for file, name in (todo := [wanted]):  # grows while it is read
            for other in self._uses(file, name, found):
                steps = hops[file, name] + (other[0] != file)
                if other not in hops and steps <= MAX_HOPS:
                    hops[other] = steps
                    todo.append(other)
        return found.union(*(self._stars(file) for file in {file for file, _ in hops}))

    def _uses(self, file: int, name: str, found: set[Place]) -> Iterator[Wanted]:
        """What is used by the statements that bind a name; those that are new go to ``found``."""
        yield from self._through_stars(file, name)
        for rank in self._files[file].binding.get(name, ()):
            if (file, rank) not in found:
                found.add((file, rank))
                statement = self._statement((file, rank))
                passed_on = (self._target(file, each) for each in statement.imports.get(name, ()))
                yield from filter(None, passed_on)
                yield from self._reads(file, statement)

    def _reads(self, file: int, statement: _Statement) -> Iterator[Wanted]:
        """What a statement reads: names of its own file, and what they are imported as."""
        for chain in sorted(statement.chains):
            name, _, rest = chain.partition(".")
            if file:
                yield file, name
            for imported in self._imported(file, statement, name):
                target = self._target(file, f"{imported}.{rest}" if rest else imported)
                if target is not None:
                    yield target
        if not file:
            for chain in sorted(statement.chains):
                yield from self._through_stars(0, chain.partition(".")[0])

    def _imported(self, file: int, statement: _Statement, name: str) -> list[str]:
        found = statement.imports.get(name, [])
        ranks = self._files[file].binding.get(name, ())
        others = (self._files[file].statements[rank] for rank in ranks)
        return [*found, *(each for other in others for each in other.imports.get(name, []))]

    def _target(self, file: int, dotted: str) -> Wanted | None:
        """The file and the name in it that a dotted name leads to."""
        module, rest = dotted, ""
        while module.strip("."):
            to = self._links.table.get((file, module))
            if to is not None and rest:
                return (to, rest.partition(".")[0]) if to else None
            before, _, last = module.rpartition(".")
            module, rest = before, f"{last}.{rest}" if rest else last
        to = self._links.table.get((file, module)) if module else None
        return (to, rest.partition(".")[0]) if to else None

    def _through_stars(self, file: int, name: str) -> Iterator[Wanted]:
        """The files whose names a file has all, where one of them defines ``name``."""
        if self._files[file].binding.get(name):
            return
        for statement in self._files[file].statements:
            for module in statement.stars:
                to = self._links.table.get((file, module))
                if to and (name in self._files[to].binding or self._stars(to)):
                    yield to, name

    def _stars(self, file: int) -> set[Place]:
        """The star imports of a file."""
        statements = enumerate(self._files[file].statements)
        return {(file, rank) for rank, statement in statements if statement.stars}

    def _cut(self, taken: set[Place]) -> Attachments:
        files = sorted({file for file, _ in taken})
        numbers = {0: 0} | {file: number for number, file in enumerate(files, 1)}
        table = {
            (numbers[file], module): numbers[to]
            for (file, module), to in self._links.table.items()
            if file in numbers and to in numbers
        }
        found = [self._text(file, {rank for at, rank in taken if at == file}) for file in files]
        words = (word for text in found for word in identifiers(parse(text)))
        return Attachments(tuple(found), table, frozenset(words), self._links.trainers)

    def _text(self, file: int, ranks: set[int]) -> str:
        """The lines of some statements of a file; "" if they are nothing without the others."""
        all_lines = self._files[file].lines
        rows = {row for rank in ranks for row in self._files[file].statements[rank].lines}
        text = "".join(f"{all_lines[row]}\n" for row in sorted(rows))
        return text if _is_python(text) else ""


@functools.lru_cache(maxsize=128)
def _parsed(data: bytes) -> _File:
    """The statements of a file; none, where it cannot be read as Python."""
    try:
        text = Source(data, "").text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "")
    except SourceError:
        return _File([], [], {})
    return _file(parse(text), text.split("\n")) if _is_python(text) else _File([], [], {})


def _is_python(text: str) -> bool:
    """Whether a text can be parsed, and does not nest too deeply."""
    try:
        return all(True for _ in identifiers(parse(text)))
    except (SyntaxError, TooDeepError):
        return False


def _file(module: ast.Module, lines: list[str]) -> _File:
    statements: list[_Statement] = []
    binding: dict[str, list[int]] = defaultdict(list)
    for rank, node in enumerate(module.body):
        rows = _rows(node)
        text = "\n".join(lines[rows.start : rows.stop])
        statements.append(_statement(node, text, rows))
        for name in _bound([node]):
            binding[name].append(rank)
    return _File(lines, statements, dict(binding))


def _rows(node: ast.stmt) -> range:
    """The lines of a statement, counted from 0, decorators included."""
    above = [decorator.lineno for decorator in getattr(node, "decorator_list", ())]
    return range(min([node.lineno, *above]) - 1, node.end_lineno or node.lineno)


def _statement(node: ast.AST, text: str = "", rows: range = range(0)) -> _Statement:
    bases = [ast.unparse(base) for base in node.bases] if isinstance(node, ast.ClassDef) else []
    matters = not any(map(_OF_TORCH.search, bases)) and bool(_pattern(node, bases).search(text))
    chains = frozenset(_chains(node)) if matters or not bases else frozenset[str]()
    statement = _Statement(rows, len(text), matters, chains, defaultdict(list), [])
    for part in ast.walk(node):
        if isinstance(part, ast.Import):
            for alias in part.names:
                name = alias.name if alias.asname else alias.name.partition(".")[0]
                statement.imports[alias.asname or name].append(name)
        elif isinstance(part, ast.ImportFrom):
            dots = "." * (part.level + bool(part.level and part.module))
            for alias in part.names:
                if alias.name == "*":
                    statement.stars.append(f"{dots}{part.module or ''}")
                else:
                    qualified = f"{dots}{part.module or ''}.{alias.name}"
                    statement.imports[alias.asname or alias.name].append(qualified)
    return statement


def _pattern(node: ast.AST, bases: list[str]) -> re.Pattern[str]:
    if isinstance(node, ast.ClassDef):
        return _OF_MODULE if any(map(_MODULE.search, bases)) else _OF_CLASS
    return _OF_FUNCTION


def _chains(node: ast.AST) -> Iterator[str]:
    """The dotted names in a statement, the longest of each place."""
    todo = [node]
    while todo:
        part = todo.pop()
        attributes: list[str] = []
        while isinstance(part, ast.Attribute):
            attributes.append(part.attr)
            part = part.value
        if isinstance(part, ast.Name):
            yield ".".join([part.id, *reversed(attributes)])
        else:
            todo += ast.iter_child_nodes(part)


def _bound(body: Iterable[ast.AST]) -> Iterator[str]:
    """The names that statements bind, not those that functions and classes in them do."""
    todo = [*body]
    while todo:
        node = todo.pop()
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Import() | ast.ImportFrom():
                yield from (a.asname or a.name.partition(".")[0] for a in node.names)
            case ast.Lambda():
                pass
            case _:
                todo += ast.iter_child_nodes(node)
