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
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from amp_lint.syntax.callees import spelled
from amp_lint.syntax.parse import FIELDS, TooDeepError, identifiers, nodes, parse
from amp_lint.syntax.project import Links, imports, own_methods
from amp_lint.text.source import Source, SourceError
from amp_lint.vocabulary import written
from amp_lint.vocabulary.training import OPTIMIZER_CLASSES

MAX_CHARACTERS = 25_000
"""Text that one file is linked with."""
MAX_SHORT, MAX_RESERVED = 2_500, 7_500
"""Characters of a helper for which there is room after a long function took all, and that room."""
MAX_ENTERING = 15_000
"""Characters of the modules that open regions, for which there is room then."""
MAX_CALLING = 75_000
"""Text of those that call it."""
MAX_LINEAGE = 40_000
"""Text of the classes that its own are derived from."""
MAX_DEFINING = 40_000
"""Text that one file is linked with where it matters what modules of others give."""
MAX_NEAR = 20_000
"""Text of the modules and numbers that it imports itself, for which there is room beside."""

_CLASS = re.compile(rb"^class[ \t]+(\w+)", re.MULTILINE)
_NEXT = re.compile(rb"^[^\s#)\]}]", re.MULTILINE)
"""Where a statement begins that is below no other."""
_IS_MADE = re.compile(rb"(?<=\w)(?!\w)(?:[ \t]*\(|[ \t]+as\b)")
"""What follows the name of what is called, or gets another name."""
_BASES = re.compile(rb"class(?<!\wclass)[ \t]+\w+[ \t]*\(([^)]{0,2000})")
_SAID = re.compile(rb":[ \t]{0,8}(\w+)(?=[ \t]{0,8}[,)=])")
_ATTRIBUTE = re.compile(rb"\.\s*([^\W\d]\w*)")
_WORD = re.compile(rb"[^\W\d]\w*")
_MODULE = re.compile(r"Module$")
"""A base of classes whose own gradients and autocast regions do not concern who uses them."""
_OF_TORCH = re.compile(r"(Function|Optimizer|Scheduler|Dataset)$")
"""Bases of classes whose methods are called by torch, or mean what they mean in torch."""
_AIDS = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.Try, ast.If)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINING = (ast.ClassDef, ast.FunctionDef)
_DOING = frozenset({ast.Call, ast.Assign, ast.AugAssign})
_TELLING = _DOING | {ast.Name, ast.Attribute, ast.Subscript, ast.alias, ast.Return}
"""Kinds of nodes that may say something about a training step."""
_ITEMS, _KEEPS = frozenset({"items"}), written.STATES | {"save"}
"""What a class does with a dict of its own, and with what is in it, where that is what it saves."""
_MAX_AID = 500  # characters
_LARGE = 10_000
"""Characters of a class from which only those of its methods are taken that say something."""
_SMALL = 400
"""Characters of a method that is taken anyway."""
_RUNNING = {
    kind: tuple(name for name in names if name not in ("annotation", "returns"))
    for kind, names in FIELDS.items()
}
"""Kind of node -> its fields in which something may run that has a name."""
MAX_HOPS = 2
"""Files that are entered one from the other, not counting those that only pass a name on."""
Place = tuple[int, int]
"""A file and the rank of a statement in it."""
Wanted = tuple[int, str]
"""A file and a name in it."""


class _Pool(Enum):
    """What there is room for, each for itself."""

    CALLING = auto()
    LINEAGE = auto()
    OTHERS = auto()
    ENTERING = auto()
    RESERVED = auto()


@dataclass(frozen=True, slots=True)
class Attachments:
    """Texts to attach to a tree, and where the imports of each lead."""

    texts: tuple[str, ...] = ()
    table: dict[tuple[int, str], int] = field(default_factory=dict)
    """(Text, module as its imports spell it) -> text; 0 is the file itself, 1 the first text."""
    words: frozenset[str] = frozenset()
    """The identifiers in the texts."""
    trainers: tuple[tuple[str, bytes], ...] = ()
    exported: frozenset[str] = frozenset()
    is_plain: bool = False
    run: frozenset[str] = frozenset()
    is_loaded: bool = False
    """All five as in `Links`."""
    sources: tuple[tuple[str, bytes], ...] = ()
    """The file of each text: its path as shown, and its bytes."""


@dataclass(slots=True)
class _Statement:
    """One statement of a module."""

    lines: Sequence[int]
    """Counted from 0; without those of a large class that say nothing."""
    size: int
    """Characters."""
    tells: bool
    """Whether it may say something about a training step elsewhere."""
    matters: bool
    """Whether it does, or defines something, if that matters."""
    gives: bool
    """Whether it defines a module, or gives a name a number."""
    enters: bool
    """Whether it defines a module that opens a region."""
    aids: bool
    """Whether it is an import or a small assignment, that others may need."""
    chains: frozenset[str]
    """The dotted names that it reads; none, where those cannot matter either."""
    imports: dict[str, list[str]]
    """The names that it imports, with what they stand for."""
    bases: frozenset[str]
    """Those of the dotted names that a class is derived from."""


@dataclass(slots=True)
class _Reach:
    """What a name of a file leads to, by names of the same file."""

    matters: bool = False
    """Whether something of it may say something about a training step elsewhere."""
    names: dict[str, None] = field(default_factory=dict)
    """All names on the way."""
    imports: set[str] = field(default_factory=set)
    """What of other files is read on the way, spelled as in `Links`."""


class _File:
    """The statements of one file, each looked at when somebody asks for it."""

    def __init__(self, body: list[ast.stmt], lines: list[str], *, models: bool) -> None:
        self.lines = lines
        self._models = models
        self._body = body
        self._known: dict[int, _Statement] = {}
        self._reached: dict[str, _Reach] = {}
        self._importing: dict[int, bool] = {}
        self.binding: dict[str, list[int]] = defaultdict(list)
        """Name -> the ranks of the statements that bind it."""
        self.stars: dict[int, list[str]] = defaultdict(list)
        """Rank -> the modules that a statement imports everything from."""
        for rank, node in enumerate(body):
            for name, module in _bound([node]):
                if name == "*":
                    self.stars[rank].append(module)
                else:
                    self.binding[name].append(rank)

    def __len__(self) -> int:
        return len(self._body)

    def statement(self, rank: int) -> _Statement:
        """What is in a statement."""
        if rank not in self._known:
            node = self._body[rank]
            rows: Sequence[int] = _rows(node)
            size = sum(len(self.lines[row]) for row in rows)
            if isinstance(node, ast.ClassDef) and size > _LARGE and not self._models:
                rows = [*_telling(node, self.lines)]
                size = sum(len(self.lines[row]) for row in rows)
            known = _statement(node, rows, size, defining=self._models)
            self._known[rank] = known
        return self._known[rank]

    def imports_of(self, name: str) -> Iterator[str]:
        """What a name is imported as, by the statements that bind it."""
        for rank in self.binding.get(name, ()):
            if self._may_import(rank):
                yield from self.statement(rank).imports.get(name, ())

    def reach(self, name: str) -> _Reach:
        """What a name leads to; once it leads to what matters, no further."""
        if name not in self._reached:
            self._reached[name] = self._find_reach(name)
        return self._reached[name]

    def _find_reach(self, start: str) -> _Reach:
        found = _Reach(names={start: None})
        for name in (todo := [start]):  # grows while it is read
            found.matters = found.matters or written.is_about_scaler(name)
            for statement in map(self.statement, self.binding.get(name, ())):
                found.matters = found.matters or statement.matters
                found.imports.update(statement.imports.get(name, ()))
                found.imports.update(self.imported(statement))
                first = (chain.partition(".")[0] for chain in statement.chains)
                fresh = dict.fromkeys(each for each in first if each not in found.names)
                found.names |= fresh
                todo += fresh
            if found.matters:
                break
        return found

    def imported(self, statement: _Statement) -> Iterator[str]:
        """What a statement reads of other files."""
        for chain in statement.chains:
            name, _, rest = chain.partition(".")
            for imported in self.imports(statement, name):
                yield f"{imported}.{rest}" if rest else imported

    def imports(self, statement: _Statement, name: str) -> list[str]:
        """What a name may be imported as, in a statement or for the whole file."""
        ranks = self.binding.get(name, ())
        others = (self.statement(rank) for rank in ranks if self._may_import(rank))
        found = statement.imports.get(name, [])
        return [*found, *(each for other in others for each in other.imports.get(name, []))]

    def _may_import(self, rank: int) -> bool:
        """Whether the text of a statement says that it imports: to look at it costs more."""
        known = self._importing.get(rank)
        if known is None:
            rows = _rows(self._body[rank])
            known = self._importing[rank] = any("import" in self.lines[row] for row in rows)
        return known


@dataclass(slots=True)
class _Graph:
    """What may be reached from the names that a file reads."""

    binding: dict[Wanted, list[Place]] = field(default_factory=dict)
    """What binds a name in its file."""
    passed_on: dict[Wanted, list[Wanted]] = field(default_factory=dict)
    """What a name is imported from."""
    reads: dict[Place, list[Wanted]] = field(default_factory=dict)
    """What a statement reads."""
    calling: set[Place] = field(default_factory=set)
    """The statements that use what the file defines, and those of their files that use them."""


def leads(data: bytes, links: Links) -> bool:
    """Whether a file reads anything of others that may matter; if not, nothing is attached to it.

    A file that others call has those to look at.
    """
    return bool(links.callers) or _Linker(data, links, models=links.models).leads()


def attachments(
    data: bytes, links: Links, *, calling: bool = False, models: bool = False
) -> Attachments:
    """What to attach to the file with these bytes.

    Who calls it among that, if asked, and all of what is only defined, for what it gives.
    """
    callers = sorted(links.callers) if calling else ()
    return _Linker(data, links, callers, models=models).attachments()


class _Linker:
    """Follows the names that a file imports into the files that define them."""

    def __init__(
        self, data: bytes, links: Links, callers: Sequence[int] = (), *, models: bool = False
    ) -> None:
        self._data = data
        self._links = links
        self._callers = callers
        self._models = models
        self._given: dict[tuple[int, str, int], bool] = {}
        self._all_of: dict[int, list[int]] = {}
        self._files: dict[int, _File] = {}

    def attachments(self) -> Attachments:
        """The texts, in the order of ``links``, and how they are linked."""
        graph = self._graph()
        taken: set[Place] = set()
        defining = MAX_DEFINING if self._models else MAX_CHARACTERS
        room = {
            _Pool.CALLING: MAX_CALLING,
            _Pool.LINEAGE: MAX_LINEAGE,
            _Pool.OTHERS: defining,
            _Pool.ENTERING: MAX_ENTERING,
            _Pool.RESERVED: MAX_RESERVED,
        }
        lineage = self._lineage(graph)
        places = sorted(self._that_matter(graph), key=lambda place: place not in lineage)
        if self._models:  # what a training step does has room before what is only defined
            places.sort(key=lambda place: not self._statement(place).tells)
            taken = self._near(graph)
        for place in places:
            wanted = {place, *self._aids(graph, place)} - taken
            size = sum(self._statement(each).size for each in wanted)
            pool = _Pool.LINEAGE if place in lineage else _Pool.OTHERS
            pool = _Pool.CALLING if place in graph.calling else pool
            if size > room[pool] and self._statement(place).enters:
                pool = _Pool.ENTERING
            pool = _Pool.RESERVED if size <= MAX_SHORT and size > room[pool] else pool
            if size <= room[pool]:
                room[pool] -= size
                taken |= wanted
        return self._cut(taken)

    def _near(self, graph: _Graph) -> set[Place]:
        """The modules and numbers that the file imports itself, with what they need.

        And the imports by which other files pass them on.
        """
        names = [*dict.fromkeys(wanted for wanted in self._imports() if wanted in graph.binding)]
        for wanted in names:  # grows while it is read
            names += (each for each in graph.passed_on[wanted] if each not in names)
        taken: set[Place] = set()
        room = MAX_NEAR
        for place in (place for wanted in names for place in graph.binding[wanted]):
            fresh = {place, *self._aids(graph, place)} - taken
            size = sum(self._statement(each).size for each in fresh)
            if self._statement(place).gives and size <= room:
                room -= size
                taken |= fresh
        for wanted in reversed(names):
            from_others = (
                place for each in graph.passed_on[wanted] for place in graph.binding[each]
            )
            if not taken.isdisjoint(from_others):
                taken.update(graph.binding[wanted])
        return taken

    def leads(self) -> bool:
        """Whether something that matters may be reached from the names that the file reads."""
        todo = [*dict.fromkeys(filter(self._may_matter, self._imports()))]
        seen = set(todo)
        for file, name in todo:  # grows while it is read
            reach = self._file(file).reach(name)
            if reach.matters:
                return True
            targets = filter(None, (self._target(file, each) for each in reach.imports))
            stars = (each for name in reach.names for each in self._through_stars(file, name))
            fresh = dict.fromkeys(each for each in (*targets, *stars) if each not in seen)
            seen.update(fresh)
            todo += fresh
        return False

    def _graph(self) -> _Graph:
        """All that may be reached from the names that the file reads."""
        graph = _Graph()
        imported = filter(self._may_matter, self._imports())
        calling = (each for file in self._callers for each in self._call(graph, file))
        todo = [*dict.fromkeys((*imported, *calling))]
        hops = dict.fromkeys(todo, 1)
        for wanted in todo:  # grows while it is read
            reads = self._visit(graph, *wanted)
            free = {*graph.passed_on[wanted], *self._derived_from(wanted)}
            for other in (*graph.passed_on[wanted], *reads):
                enters = other[0] != wanted[0] and other not in free
                if other not in hops and hops[wanted] + enters <= MAX_HOPS:
                    hops[other] = hops[wanted] + enters
                    todo.append(other)
        return graph

    def _derived_from(self, wanted: Wanted) -> Iterator[Wanted]:
        """What the class that a name of a file is bound to is derived from."""
        file, name = wanted
        for statement in map(self._file(file).statement, self._file(file).binding.get(name, ())):
            yield from self._named(file, statement, statement.bases)

    def _lineage(self, graph: _Graph) -> set[Place]:
        """The classes that those of the file are derived from, with what passes them on."""
        imported = self._imports() if self._bases else ()
        todo = [wanted for wanted in imported if wanted[1] in self._bases]
        for wanted in todo:  # grows while it is read
            near = (*graph.passed_on.get(wanted, ()), *self._derived_from(wanted))
            todo += (each for each in near if each not in todo)
        return {place for wanted in todo for place in graph.binding.get(wanted, ())}

    def _call(self, graph: _Graph, file: int) -> Iterator[Wanted]:
        """Note the statements of a file that lead to this one, and give what they read."""
        places = [(file, rank) for rank in range(len(self._file(file)))]
        reads = {at: [*dict.fromkeys(self._reads(file, self._statement(at)))] for at in places}
        fresh = {place for place in places if self._leads_here(file, self._statement(place))}
        if not fresh:
            fresh = {place for place in places if self._asks_here(self._statement(place))}
        found: set[Place] = set()
        while fresh:
            found |= fresh
            binding = self._file(file).binding.items()
            names = {(file, n) for n, ranks in binding if any((file, r) in fresh for r in ranks)}
            fresh = {place for place in places if not names.isdisjoint(reads[place])} - found
        near = {to for (at, _), to in self._links.table.items() if at == file}
        graph.calling |= found.union(*map(self._passing, near)) if found else found
        for place in sorted(found):
            graph.reads[place] = reads[place]
            yield from reads[place]

    def _leads_here(self, file: int, statement: _Statement) -> bool:
        """Whether a statement of another file uses something that this one defines."""
        for chain in statement.chains:
            name, _, rest = chain.partition(".")
            imported = (
                f"{i}.{rest}" if rest else i for i in self._file(file).imports(statement, name)
            )
            found = [*map(functools.partial(self._found, file), imported)]
            found += ((to, name) for to in self._starred(file))
            if any(each is not None and self._gives(*each) for each in found):
                return True
        return False

    def _asks_here(self, statement: _Statement) -> bool:
        """Whether a statement calls several methods that this file defines, by their names."""
        named = {chain.rpartition(".")[2] for chain in statement.chains if "." in chain}
        return len(named & self._methods) > 1

    @functools.cached_property
    def _methods(self) -> frozenset[str]:
        """The names of the methods of the file, those of several words."""
        return own_methods(self._data)

    def _passing(self, file: int) -> set[Place]:
        """The statements of another file that pass on what this one defines."""
        if file == 0:
            return set()
        stars = self._stars(file) if 0 in self._starred(file) else set()
        binding = self._file(file).binding.items()
        return stars | {(file, r) for n, ranks in binding if self._gives(file, n) for r in ranks}

    def _gives(self, file: int, name: str, hops: int = MAX_HOPS) -> bool:
        """Whether a name of a file is one that this file defines, and others pass on."""
        if file == 0 or not hops:
            return file == 0 and name in self._file(0).binding
        if (known := self._given.get((file, name, hops))) is not None:
            return known
        found = [self._found(file, each) for each in self._file(file).imports_of(name)]
        found += ((to, name) for to in self._starred(file))
        gives = any(each is not None and self._gives(*each, hops - 1) for each in found)
        self._given[file, name, hops] = gives
        return gives

    def _starred(self, file: int) -> list[int]:
        """The linked files of which one imports all names."""
        if file not in self._all_of:
            self._all_of[file] = self._find_starred(file)
        return self._all_of[file]

    def _find_starred(self, file: int) -> list[int]:
        stars = (m for modules in self._file(file).stars.values() for m in modules)
        targets = (self._links.table.get((file, module)) for module in stars)
        return [to for to in targets if to is not None]

    def _imports(self) -> Iterator[Wanted]:
        """What the file imports; of a whole module, what it may use of it."""
        attributes = {name.decode() for name in _ATTRIBUTE.findall(self._data)}
        for module, name in imports(self._data):
            whole = f"{module}.{name}" if name else module
            if name == "*":
                words = {word.decode() for word in _WORD.findall(self._data)}
                yield from self._members(self._links.table.get((0, module)), words)
            elif (target := self._target(0, whole)) is not None:
                yield target
            yield from self._members(self._links.table.get((0, whole)), attributes)

    def _members(self, file: int | None, names: set[str]) -> Iterator[Wanted]:
        """Those of some names that a file binds, or has from another one."""
        for name in sorted(names) if file else ():
            assert file is not None
            if name in self._file(file).binding or any(self._through_stars(file, name)):
                yield file, name

    def _may_matter(self, wanted: Wanted) -> bool:
        """Whether a name may lead to something; judged by the text, which costs no parse.

        A class does that is called or derived from, unless its instances are torch's to call; one
        that a parameter is said to be of, where a state is saved of what such an object has.
        """
        file, name = wanted
        found = _classes(self._links.files[file - 1]).get(name)
        if found is None:
            return True
        said = self._reads_states and self._is_said(name.encode())
        if name not in self._bases and not said and not self._is_made(name.encode()):
            return False
        bases, body = found
        if any(map(_OF_TORCH.search, bases)):
            return False
        if self._models:
            return True
        if any(written.trains_heirs(base.rpartition(".")[2]) for base in bases):
            return True
        enters = written.REGION.encode() in body
        return not any(map(_MODULE.search, bases)) or enters or written.EVENTS.found_in(body)

    def _is_made(self, name: bytes) -> bool:
        """Whether the file calls a name, or gives what it stands for another one."""
        at = self._data.find(name)
        while at >= 0:
            end, before = at + len(name), self._data[max(at - 1, 0) : at]
            if not before.replace(b"_", b"a").isalnum() and _IS_MADE.match(self._data, end):
                return True
            at = self._data.find(name, end)
        return False

    def _is_said(self, name: bytes) -> bool:
        """Whether the file says of something that it is of a class of that name."""
        return name in self._said

    @functools.cached_property
    def _said(self) -> frozenset[bytes]:
        """The names of what something is said to be."""
        return frozenset(_SAID.findall(self._data))

    @functools.cached_property
    def _reads_states(self) -> bool:
        """Whether the file asks for the state of an attribute of what is not its own."""
        return any(
            owner != b"self" and written.is_stepped(name.decode())
            for owner, name in written.STATE_OF.findall(self._data)
        )

    @functools.cached_property
    def _bases(self) -> frozenset[str]:
        """What the file derives classes from."""
        listed = _BASES.findall(self._data)
        return frozenset(word.decode() for bases in listed for word in _WORD.findall(bases))

    def _visit(self, graph: _Graph, file: int, name: str) -> list[Wanted]:
        """Note what binds a name, and give what that reads."""
        places = [(file, rank) for rank in self._file(file).binding.get(name, ())]
        graph.binding[file, name] = places
        passed_on = [*self._through_stars(file, name)]
        reads: list[Wanted] = []
        for place in places:
            imported = self._statement(place).imports.get(name, ())
            passed_on += filter(None, (self._target(file, each) for each in imported))
            if place not in graph.reads:
                graph.reads[place] = [*dict.fromkeys(self._reads(file, self._statement(place)))]
                reads += graph.reads[place]
        graph.passed_on[file, name] = passed_on
        return reads

    def _that_matter(self, graph: _Graph) -> list[Place]:
        """The statements that say something and those that lead to them, the nearest first."""
        places = {place for place in graph.reads if self._statement(place).matters}
        places |= graph.calling
        names = {wanted for wanted in graph.binding if written.is_about_scaler(wanted[1])}
        fresh = True
        while fresh:
            fresh = False
            for wanted, bound in graph.binding.items():
                if wanted not in names and not (
                    places.isdisjoint(bound) and names.isdisjoint(graph.passed_on[wanted])
                ):
                    names.add(wanted)
                    fresh = True
            places |= {p for p, reads in graph.reads.items() if not names.isdisjoint(reads)}
        bound = [place for wanted in names for place in graph.binding[wanted]]
        entered = dict.fromkeys(file for file, _ in (*names, *sorted(graph.calling)))
        stars = [star for file in entered for star in self._stars(file)]
        return [*dict.fromkeys((*filter(places.__contains__, graph.reads), *bound, *stars))]

    def _aids(self, graph: _Graph, place: Place) -> set[Place]:
        """What a statement needs beside itself: imports, and small assignments."""
        reads = graph.reads.get(place, ())
        needed = (aid for wanted in reads for aid in graph.binding.get(wanted, ()))
        return {aid for aid in needed if self._statement(aid).aids}

    def _file(self, file: int) -> _File:
        found = self._files.get(file)
        if found is None:
            data = self._links.files[file - 1] if file else self._data
            found = self._files[file] = _parsed(data, self._models)
        return found

    def _statement(self, place: Place) -> _Statement:
        return self._file(place[0]).statement(place[1])

    def _reads(self, file: int, statement: _Statement) -> Iterator[Wanted]:
        """What a statement reads: names of its own file, and what they are imported as."""
        return self._named(file, statement, statement.chains)

    def _named(
        self, file: int, statement: _Statement, chains: AbstractSet[str]
    ) -> Iterator[Wanted]:
        """What dotted names in a statement stand for."""
        for chain in sorted(chains):
            name, _, rest = chain.partition(".")
            yield file, name
            for imported in self._file(file).imports(statement, name):
                target = self._target(file, f"{imported}.{rest}" if rest else imported)
                if target is not None:
                    yield target

    def _target(self, file: int, dotted: str) -> Wanted | None:
        """The linked file and the name in it that a dotted name leads to."""
        found = self._found(file, dotted)
        return found if found is not None and found[0] else None

    def _found(self, file: int, dotted: str) -> Wanted | None:
        """What `_target` gives, or a name of this file."""
        module, rest = dotted, ""
        while module.strip("."):
            to = self._links.table.get((file, module))
            if to is not None and rest:
                return to, rest.partition(".")[0]
            before, _, last = module.rpartition(".")
            module, rest = before, f"{last}.{rest}" if rest else last
        to = self._links.table.get((file, module)) if module else None
        return (to, rest.partition(".")[0]) if to is not None else None

    def _through_stars(self, file: int, name: str) -> Iterator[Wanted]:
        """The files whose names a file has all, where one of them defines ``name``."""
        if self._file(file).binding.get(name):
            return
        for modules in self._file(file).stars.values():
            for module in modules:
                to = self._links.table.get((file, module))
                if to and (name in self._file(to).binding or self._stars(to)):
                    yield to, name

    def _stars(self, file: int) -> set[Place]:
        """The star imports of a file."""
        return {(file, rank) for rank in self._file(file).stars}

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
        links = self._links
        others = links.trainers, links.exported, links.is_plain, links.run, links.is_loaded
        paths = links.paths or ("",) * len(links.files)
        sources = tuple((paths[file - 1], links.files[file - 1]) for file in files)
        return Attachments(tuple(found), table, frozenset(words), *others, sources=sources)

    def _text(self, file: int, ranks: set[int]) -> str:
        """The lines of some statements of a file; "" if they are nothing without the others."""
        all_lines = self._file(file).lines
        rows = {row for rank in ranks for row in self._file(file).statement(rank).lines}
        text = "".join(f"{all_lines[row]}\n" for row in sorted(rows))
        return text if _is_python(text) else ""


@functools.lru_cache(maxsize=64)
def _classes(data: bytes) -> dict[str, tuple[tuple[str, ...], bytes]]:
    """The bases and the text of each class of a file, by name."""
    starts = [*_CLASS.finditer(data)]
    found: dict[str, tuple[tuple[str, ...], bytes]] = {}
    for match, end in zip(starts, [*(m.start() for m in starts[1:]), len(data)], strict=False):
        text = data[match.end() : end]
        bases, _, rest = (
            text.partition(b")") if text.lstrip().startswith(b"(") else (b"", b"", text)
        )
        body = rest.partition(b":")[2]
        below = _NEXT.search(body)
        names = tuple(b.strip(b" (\t\r\n").decode("utf-8", "replace") for b in bases.split(b","))
        found.setdefault(match[1].decode(), (names, body[: below.start()] if below else body))
    return found


@functools.lru_cache(maxsize=64)
def _parsed(data: bytes, models: bool = False) -> _File:
    """The statements of a file; none, where it cannot be read as Python.

    With ``models``, all that it defines matters.
    """
    try:
        text = Source(data, "").text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "")
        return _File(parse(text).body, text.split("\n"), models=models)
    except (SourceError, SyntaxError, TooDeepError):
        return _File([], [], models=models)


def _is_python(text: str) -> bool:
    """Whether a text can be parsed, and does not nest too deeply."""
    try:
        return all(True for _ in identifiers(parse(text)))
    except (SyntaxError, TooDeepError):
        return False


def _rows(node: ast.stmt) -> range:
    """The lines of a statement, counted from 0, decorators included."""
    above = [decorator.lineno for decorator in getattr(node, "decorator_list", ())]
    return range(min([node.lineno, *above]) - 1, node.end_lineno or node.lineno)


def _telling(owner: ast.ClassDef, lines: Sequence[str]) -> Iterator[int]:
    """The lines of a class without its docstrings, and methods that say and run nothing."""
    methods = [each for each in owner.body if isinstance(each, _FUNCTIONS)]
    sizes = {each: sum(len(lines[row]) for row in _rows(each)) for each in methods}
    kept = {each.name for each in methods if _matters(each, _parts(each))}
    parts = {each: nodes(each) for each in methods}
    calls = {each: {*_called_of_itself(parts[each])} for each in methods}
    while fresh := {each.name for each in methods if not calls[each].isdisjoint(kept)} - kept:
        kept |= fresh
    kept |= {
        each.name
        for each in methods
        if sizes[each] < _SMALL
        or each.name == "__init__"
        or _sets_up(parts[each])
        or _hands_on(parts[each])
    }
    left_out = {row for each in methods if each.name not in kept for row in _rows(each)}
    left_out |= {row for each in (owner, *methods) for row in _documentation(each)}
    return (row for row in _rows(owner) if row not in left_out)


def _documentation(owner: ast.AST) -> Sequence[int]:
    """The lines of a docstring, counted from 0, where a statement stands below it."""
    body = owner.body if isinstance(owner, _DEFINING) else []
    if len(body) < 2 or not isinstance(body[0], ast.Expr):
        return ()
    first, second = body[0], body[1]
    is_text = isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    end = first.end_lineno or first.lineno
    below = first.col_offset == second.col_offset and end < second.lineno
    return range(first.lineno - 1, end) if is_text and below else ()


def _sets_up(method: Iterable[ast.AST]) -> bool:
    """Whether a method, by its nodes, gives its object an optimizer or a scaler."""
    targets = (target for part in method if isinstance(part, ast.Assign) for target in part.targets)
    return any(
        isinstance(target, ast.Attribute) and written.is_stepped(target.attr) for target in targets
    )


def _hands_on(method: Iterable[ast.AST]) -> bool:
    """Whether a method makes something of its object's optimizer or scaler, or gives it away."""
    calls = (part for part in method if isinstance(part, ast.Call))
    given = (value for call in calls for value in (*call.args, *(k.value for k in call.keywords)))
    return any(
        isinstance(value, ast.Attribute) and written.is_stepped(value.attr) for value in given
    )


def _called_of_itself(method: Iterable[ast.AST]) -> Iterator[str]:
    """The names of the attributes of ``self`` that a method reads."""
    for part in method:
        match part:
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                yield name


def _statement(
    node: ast.AST, rows: Sequence[int] = (), size: int = 0, *, defining: bool = False
) -> _Statement:
    parts = [*_parts(node)]
    tells = _matters(node, parts)
    is_module = isinstance(node, ast.ClassDef) and _bases(node, _MODULE)
    gives = is_module or _is_number(node)
    matters = tells or (defining and (isinstance(node, _DEFINING) or gives))
    enters = is_module and any(map(_is_context, parts))
    closed = is_module and not matters
    chains = () if closed else _chains(node)
    aids = isinstance(node, _AIDS) and size < _MAX_AID
    bases = [*_names_of_bases(node)] if isinstance(node, ast.ClassDef) else []
    statement = _Statement(
        rows,
        size,
        tells,
        matters,
        gives,
        enters,
        aids,
        frozenset(chains),
        defaultdict(list),
        frozenset(bases),
    )
    for part in parts:
        if isinstance(part, ast.Import):
            for alias in part.names:
                name = alias.name if alias.asname else alias.name.partition(".")[0]
                statement.imports[alias.asname or name].append(name)
        elif isinstance(part, ast.ImportFrom):
            for alias in part.names:
                qualified = f"{spelled(part)}.{alias.name}"
                statement.imports[alias.asname or alias.name].append(qualified)
    return statement


def _is_number(node: ast.AST) -> bool:
    """Whether names are given a number."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    if not isinstance(node, (ast.Assign, ast.AnnAssign)):
        return False
    if not all(isinstance(target, ast.Name) for target in targets):
        return False
    value = node.value
    if isinstance(value, ast.UnaryOp):
        value = value.operand
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """What runs of a statement: all nodes but those of annotations."""
    todo = [node]
    while todo:
        part = todo.pop()
        yield part
        todo += _running(part)


def _running(node: ast.AST) -> list[ast.AST]:
    """The nodes below one, but for those of annotations."""
    found: list[Any] = []
    for name in _RUNNING.get(type(node), ()):
        value = getattr(node, name, None)
        if type(value) is list:
            found += [each for each in value if type(each) in FIELDS]
        elif type(value) in FIELDS:
            found.append(value)
    return found


def _bases(node: ast.ClassDef, pattern: re.Pattern[str]) -> bool:
    return any(pattern.search(ast.unparse(base)) for base in node.bases)


def _names_of_bases(node: ast.ClassDef) -> Iterator[str]:
    return (chain for base in node.bases for chain in _chains(base))


def _matters(node: ast.AST, parts: Iterable[ast.AST]) -> bool:
    """Whether a statement may say something about a training step elsewhere."""
    parts = [part for part in parts if type(part) in _TELLING]
    if not isinstance(node, ast.ClassDef):
        kinds = (_is_event, _is_context, _is_gradient, _is_half, _is_refused, _is_optimizer)
        tells = _updates(parts) or _keeps_registry(parts, _ITEMS | {"get"}) or _gives_device(parts)
        return tells or any(kind(part) for part in parts for kind in kinds)
    if _bases(node, _OF_TORCH):
        return False
    return (
        any(_is_event(each) or _is_context(each) or _is_gradient(each) for each in parts)
        or any(map(_is_optimizer, parts))
        or _keeps_registry(parts, _ITEMS)
        or any(map(_is_half, _given(node)))
        or any(written.trains_heirs(_last(base)) for base in node.bases)
    )


def _given(node: ast.ClassDef) -> Iterator[ast.AST]:
    """What a class gives to names, of its fields or in its methods, and what that is made of."""
    for each in nodes(node):
        if isinstance(each, (ast.Assign, ast.AnnAssign)) and each.value is not None:
            yield from nodes(each.value)


def _keeps_registry(parts: Iterable[ast.AST], reading: AbstractSet[str]) -> bool:
    """Whether something saves or loads what is in a dict of its own, be it states.

    ``reading`` is how it reads that dict.
    """
    of_own: set[str] = set()
    called: set[str] = set()
    for part in parts:
        match part:
            case ast.Call(
                func=ast.Attribute(value=ast.Attribute(value=ast.Name("self")), attr=name)
            ):
                of_own.add(name)
            case ast.Call(func=ast.Attribute(attr=name)):
                called.add(name)
    return not (reading.isdisjoint(of_own) or _KEEPS.isdisjoint(called))


def _updates(parts: Iterable[ast.AST]) -> bool:
    """Whether something steps with an optimizer and is updated, whatever it is called."""
    stepping: set[str] = set()
    updated: set[str] = set()
    for part in parts:
        match part:
            case ast.Call(func=ast.Attribute(value=owner, attr=name), args=[_]):
                stepping.update({_last(owner)} if name in written.STEPS else ())
            case ast.Call(func=ast.Attribute(value=owner, attr=name), args=[]):
                updated.update({_last(owner)} if name in written.UPDATES else ())
    return not stepping.isdisjoint(updated)


def _gives_device(parts: Iterable[ast.AST]) -> bool:
    """Whether something returns a device that it makes: by it others switch autocast on."""
    made: set[str] = set()
    given: set[str] = set()
    for part in parts:
        match part:
            case ast.Return(value=ast.Name(name)):
                given.add(name)
            case ast.Return(value=ast.expr() as value) if any(map(_is_device, nodes(value))):
                return True
            case ast.Assign([ast.Name(name)], value) if _is_device(value):
                made.add(name)
    return not made.isdisjoint(given)


def _is_device(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(ast.Name("torch"), "device")):
            return True
    return False


def _is_event(node: ast.AST) -> bool:
    """Whether a node is something that is done in a training step."""
    if type(node) not in _DOING:
        return False
    match node:
        case ast.Call(func=ast.Attribute(attr=name, value=owner)) if name in written.STEPS:
            return written.is_stepped(_last(owner))
        case ast.Call(func=ast.Attribute(attr=name, value=owner)):
            scales = name in written.PROTOCOL and written.SCALER in _last(owner).lower()
            changes = name.endswith("_") and _is_gradient(owner)
            keeps = written.keeps_state(name, _last(owner))
            prepares = bool(node.args) and written.prepares(name)
            return scales or changes or keeps or prepares or written.names_event(name)
        case ast.Call(func=ast.Name(id=name)):
            return written.names_event(name)
        case ast.Assign(targets=[target]) | ast.AugAssign(target=target):
            return _is_gradient(target)
    return False


def _is_half(node: ast.AST) -> bool:
    """Whether a node names a half dtype, or casts to it."""
    match node:
        case ast.Call(func=ast.Attribute(attr="half"), args=[]):
            return True
        case ast.Attribute(value=ast.Name(), attr=name):
            return name in written.HALVES
    return False


def _is_optimizer(node: ast.AST) -> bool:
    """Whether a node makes an optimizer."""
    return isinstance(node, ast.Call) and _last(node.func) in OPTIMIZER_CLASSES


def _is_refused(node: ast.AST) -> bool:
    """Whether a node names a loss that autocast refuses."""
    return _last(node) in written.REFUSED


def _is_context(node: ast.AST) -> bool:
    """Whether a node names autocast, or something called after it."""
    name = node.name if isinstance(node, ast.alias) else _last(node)
    return written.REGION in name


def _is_gradient(node: ast.AST) -> bool:
    """Whether a node is ``p.grad`` or ``p.grad.data``."""
    while isinstance(node, ast.Attribute):
        if node.attr == "grad":
            return True
        node = node.value
    return False


def _last(node: ast.AST) -> str:
    """The last name of ``a.b.c``, ``a[i]`` or ``a``."""
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case ast.Subscript(value=owner):
            return _last(owner)
    return ""


def _chains(node: ast.AST) -> Iterator[str]:
    """The dotted names in a statement, the longest of each place; not those of mere types."""
    todo = [node]
    while todo:
        part = todo.pop()
        attributes: list[str] = []
        while isinstance(part, ast.Attribute):
            attributes.append(part.attr)
            part = part.value
        match part:
            case ast.Name(id=name):
                yield ".".join([name, *reversed(attributes)])
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[value, *_]):
                todo.append(value)
            case ast.ExceptHandler(body=body):
                todo += body
            case _:
                todo += _running(part)


def _bound(body: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """The names that statements bind, not those that functions and classes in them do.

    With the module, for an import; ``*`` for all that is in it.
    """
    todo = [*body]
    while todo:
        node = todo.pop()
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, ""
            case ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                yield name, ""
            case ast.Import():
                yield from ((a.asname or a.name.partition(".")[0], "") for a in node.names)
            case ast.ImportFrom():
                yield from ((a.asname or a.name, spelled(node)) for a in node.names)
            case ast.stmt() | ast.ExceptHandler() | ast.withitem() | ast.Tuple() | ast.NamedExpr():
                todo += ast.iter_child_nodes(node)
