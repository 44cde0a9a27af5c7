"""Which files of its project a file imports, so that rules can look into them.

An import is looked up among the files of the run, and those that lie beside them: relative ones
where they say, absolute ones from the directory of the file upwards. Only files that may train are
asked for, imports are found by a regular expression, and what comes of it is bytes:
`amp_lint.syntax.links` says what is made of them.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from amp_lint.syntax.beside import Beside, roots
from amp_lint.syntax.callees import MODULES, callees
from amp_lint.syntax.cells import python
from amp_lint.text import files
from amp_lint.text.files import absolute
from amp_lint.text.prose import without_prose
from amp_lint.vocabulary import written
from amp_lint.vocabulary.modules import COMMON

MAX_HOPS = 3
"""Longest chain of imports that is followed; one of them is often a package's ``__init__``."""
MAX_BYTES = 1_000_000
"""Bytes of the files that one file is linked with."""
MAX_TRAINERS = 8
"""Files that are looked into for what may train one file, the nearest first."""
MAX_CALLERS = 3
"""Files that import one and are looked into for how they call it."""
MAX_IMPORTERS = 50
"""Files among which these are chosen."""
MAX_NAMING = 200
"""Files with the name of a package whose imports are read to find who imports it."""
MAX_SEARCHES = 3
"""Files whose importers are searched for by name; for more, all imports are looked up at once."""
MAX_PROGRAM = 2_000
"""Files of one program that are looked at: those that the fewest imports lead to."""

_REGION = written.look({written.REGION})
_BACKWARD = written.look(written.BACKWARD, r"\.\w{0,20}", r"\(")
_RUNNING = (
    (_REGION, _BACKWARD | written.TAKES_STEP),
    (written.RUNS_MODELS, written.SAYS_PRECISION),
    (written.PATCHES, _BACKWARD),
)
_STEPPING = written.TAKES_STEP | written.look(written.STEPS, r"(?:opt\w{0,20}|scaler)\.", r"\(")
_MAKES = written.look(written.MAKERS)
_TRAINING = tuple(written.look(done, r"\.", r"\(") for done in (written.BACKWARD, written.STEPS))
_LOADS = written.look(
    {"import_module", "__import__", "instantiate", "get_obj_from_str", "instantiate_from_config"},
    after=r"\((?!\s*['\"][\w.]*['\"]\s*[,)])",
)
"""What imports a module whose name is computed."""
_FROM = re.compile(
    rb"""(?<!replace\()(?<!prefix\()(?<!strip\()(?<!with\()['"]((?:[^\W\d]\w*\.)+)['"{%]"""
    rb"""|_(?:module|_import__)[ \t]*\([ \t]*f?['"](\.)['"{%]"""
)
"""The package of such a module, with the dot behind it, or the dot of the package it is in.

Not the beginning that the keys of a state lose.
"""
_MODULES = re.compile(rb"^class \w+\([^)]{0,500}Module\b|^[ \t]+def forward\(", re.MULTILINE)
"""What defines modules, whatever their base is called."""
_BEGINNING = re.compile(rb"^[ \t]*(from|import)(?=[ \t.\\])", re.MULTILINE)
_KEYWORD = re.compile(rb"import(?<!\wimport)(?!\w)")
_CONTINUED = (b"\\\n", b"\\\r\n")
_MODULE = re.compile(rb"\A[.\w]+\Z")
_PACKAGE = "__init__"
_FUNCTION = re.compile(rb"^def ", re.MULTILINE)
_METHOD = re.compile(rb"^[ \t]+def ([a-z]\w*_\w+)\(\s*self\b", re.MULTILINE)
_CALLED = re.compile(rb"(?<!\bself)(?<!\))\.([a-z]\w*_\w+)\(")
"""A method whose name has several words, and the call of one on an object that has a name."""
_TEST = re.compile(r"(?:[/\\]tests?[/\\][^/\\]*|[/\\](?:test_[^/\\]*|[^/\\]*_test|conftest)\.py)\Z")
"""A file of tests, as pytest finds them: what they give is not what a training gives."""
_PART = re.compile(r"\.py$|[/\\]")
OUTSIDE = sys.stdlib_module_names | {"torch"}
"""Packages that no project has."""


class Wishes(Protocol):
    """What the rules that may have something to say about a file want to know of other files."""

    def wants_trainers(self, data: bytes) -> bool:
        """Whether one of them asks who trains under autocast what a file with these bytes has."""

    def wants_callers(self, data: bytes) -> bool:
        """Whether one of them asks who calls what a file with these bytes defines."""

    def wants_models(self, data: bytes) -> bool:
        """Whether one of them asks what modules of others give to a file with these bytes."""

    def wants_exports(self, data: bytes) -> bool:
        """Whether a fix of one of them may take names away from a file with these bytes."""


@dataclass(frozen=True, slots=True)
class Links:
    """What one file imports from others, directly or through them."""

    files: tuple[bytes, ...]
    table: dict[tuple[int, str], int]
    """(File, module as its imports spell it) -> file; 0 is the file itself, 1 the first of
    ``files``. Relative modules have one more dot than in the import, as in `Names`."""
    callers: frozenset[int] = frozenset()
    """Those of the files that import file 0, and are there for what they call of it."""
    trainers: tuple[tuple[str, bytes], ...] = ()
    """Files that may train what this one defines under autocast: path as shown, and bytes."""
    exported: frozenset[str] = frozenset()
    """Names that other files import from this one; "*" if one imports all there are."""
    is_plain: bool = False
    """Whether programs train what this file defines, and none of them has half precision."""
    run: frozenset[str] = frozenset()
    """Functions of this file that run with modules of others, or in their autocast regions."""
    models: bool = False
    """Whether files are among them that only define modules and functions."""
    is_loaded: bool = False
    """Whether the trainers are those of programs that may load this file by its name."""
    paths: tuple[str, ...] = ()
    """Those of the files, as shown; nothing where they have none."""

    @property
    def contents(self) -> tuple[bytes, ...]:
        """The bytes of all these files."""
        region = (written.REGION.encode(),) if self.trainers else ()  # be it a framework's
        return (*self.files, *(data for _, data in self.trainers), *region)

    def narrowed(self) -> Links | None:
        """What is left where none of the files says anything that matters."""
        if not (self.trainers or self.exported or self.is_plain or self.run):
            return None
        return replace(self, files=(), table={}, callers=frozenset(), models=False, paths=())


@dataclass(slots=True)
class _Survey:
    """What all files of a run import."""

    importers: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    names: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """The names that are imported from each file; "*" for all."""
    used: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """What each file imports, or may load from a package by a name that is computed."""
    users: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """The same the other way round."""
    loaders: set[str] = field(default_factory=set)
    """The files that load modules by names that are computed."""


class Project:
    """The files of a run. Each is read when somebody imports it, once."""

    def __init__(
        self,
        paths: Iterable[Path],
        *,
        fixing: bool = False,
        read: Callable[[Path], bytes] = files.read,
        beside: Beside | None = None,
    ) -> None:
        """Prepare; ``fixing`` says that names which others import will have to stay.

        ``read`` gives the bytes of one of ``paths``, or raises OSError. ``beside`` finds what is
        imported and none of ``paths``.
        """
        self._fixing = fixing
        self._beside = beside
        self._open = read
        self._paths = {str(absolute(path)): path for path in paths}
        self._modules = _modules(self._paths)
        self._words = {word for path in self._paths for word in _PART.split(path)}
        self._bytes = functools.cache(self._read)
        self._imports = functools.cache(self._find_imports)
        self._leads = functools.cache(self._find_out)
        self._lying = functools.lru_cache(1 << 16)(self._find_upwards)
        self._makes = functools.cache(lambda file: _says(self._bytes(file), _MAKES))
        self._searches = 0

    def links(self, path: Path, data: bytes, wishes: Wishes | None = None) -> Links | None:
        """What the file at ``path``, with these bytes, imports that it may have to know of.

        And what ``wishes`` asks for besides.

        None if it has nothing to do with training, or imports nothing that has.
        """
        start = str(absolute(path))
        if start not in self._paths:
            return None
        callers = self._callers(start) if wishes and wishes.wants_callers(data) else []
        is_linked = callers or _says(data, written.TRAINS)
        models = wishes is not None and is_linked and wishes.wants_models(data)
        linked = self._linked(start, data, callers, models=models) if is_linked else None
        wants_trainers = wishes is not None and wishes.wants_trainers(data)
        trainers = self._trainers(start) if wants_trainers else ()
        is_loaded = wants_trainers and not trainers and _MODULES.search(data) is not None
        trainers = self._loading_trainers(start) if is_loaded else trainers
        plain = wants_trainers and not trainers and self._is_trained_plainly(start)
        moving = self._fixing and wishes is not None and wishes.wants_exports(data)
        exported = self._exported(start) if moving else frozenset()
        run = self._run(start) if wants_trainers and not plain else frozenset()
        if not (trainers or exported or plain or run):
            return linked
        known = linked or Links((), {})
        known = replace(known, trainers=trainers, is_loaded=is_loaded and bool(trainers))
        return replace(known, exported=exported, is_plain=plain, run=run)

    def misses(self, path: Path, data: bytes, is_file: Callable[[str], bool]) -> bool:
        """Whether a file imports, directly or through others, what is none of the files.

        Those that there are besides are known by ``is_file``; it is asked for absolute paths.
        """
        start = str(absolute(path))
        level, seen = [start], {start}
        for _ in range(MAX_HOPS):
            reached: dict[str, None] = {}
            for file in level:
                own = data if file == start else self._bytes(file)
                for module in dict.fromkeys(_spelled(own)):
                    to = self._resolve(file, module)
                    is_known = to is not None and to in self._paths
                    if not is_known and any(map(is_file, self._places(file, module))):
                        return True
                    reached.update({to: None} if to else {})
            level = [file for file in reached if file not in seen]
            seen.update(level)
        return False

    def _places(self, importer: str, module: str) -> Iterator[str]:
        """The paths at which a module may lie that a file imports."""
        name = module.lstrip(".")
        if module == name:
            is_outside = name.partition(".")[0] in OUTSIDE
            folders = [] if is_outside else [*_searched(_folder(importer, 0))]
        else:
            folders = [_folder(importer, len(module) - len(name) - (2 if name else 1))]
        for folder in folders:
            stem = os.path.join(folder, name.replace(".", os.sep) or _PACKAGE)  # noqa: PTH118
            yield from (f"{stem}.py", os.path.join(stem, f"{_PACKAGE}.py"))  # noqa: PTH118

    def _exported(self, start: str) -> frozenset[str]:
        return frozenset(self._survey.names.get(start, ()))

    def _callers(self, start: str) -> list[str]:
        """The files that import a file, first those that train, and of them the nearest; no tests.

        Of more than are wanted, those before that make a scaler, or import what does.
        """
        others = {file for file in self._importers(start) if not _TEST.search(file)} - {start}
        near = self._nearest(start, others)[:MAX_IMPORTERS]
        near.sort(key=lambda file: not _says(self._bytes(file), written.TRAINS))
        if len(near) > MAX_CALLERS:
            near.sort(key=lambda file: not self._scales(file))
        small = (file for file in near if len(self._bytes(file)) * (MAX_CALLERS + 1) <= MAX_BYTES)
        return [*itertools.islice(small, MAX_CALLERS), *self._users(start, {start, *near})]

    def _users(self, start: str, others: set[str]) -> list[str]:
        """The file that calls most methods which a file defines, on an object it does not make.

        By their names, as where a model comes out of a registry: two of several words at least.
        """
        methods = own_methods(self._bytes(start))
        if len(methods) < 2 or len(self._paths) > MAX_PROGRAM:
            return []
        if not _says(self._bytes(start), written.SCHEDULED):
            return []
        counts = {file: len(methods & asked) for file, asked in self._asked.items()}
        found = (
            file
            for file, count in counts.items()
            if count > 1 and file not in others and not _TEST.search(file)
        )
        near = self._nearest(start, found)
        return [max(near, key=lambda file: counts[file])] if near else []

    @functools.cached_property
    def _asked(self) -> dict[str, frozenset[str]]:
        """File -> the methods with names of several words that it calls, and does not define."""
        return {
            file: frozenset(name.decode() for name in _CALLED.findall(data)) - own_methods(data)
            for file, data in self._contents()
            if len(data) * (MAX_CALLERS + 1) <= MAX_BYTES
        }

    def _scales(self, file: str) -> bool:
        """Whether a file makes a scaler, or imports one that does."""
        return self._makes(file) or any(self._makes(to) for _, to in self._imports(file))

    def _importers(self, start: str) -> set[str]:
        """The files that import a file, themselves or through the package that it is in."""
        found = self._importing(start, Path(start).stem)
        for package in [*filter(_is_package, found)]:
            if Path(package).parent == Path(start).parent:
                found |= self._importing(package, Path(package).parent.name)
        return found

    def _importing(self, start: str, name: str) -> set[str]:
        """The files that import a file itself; those in which a name is, while that is cheap."""
        if name == _PACKAGE or not name.isascii() or self._searches == MAX_SEARCHES:
            return {*self._survey.importers.get(start, ())}
        self._searches += 1
        named = [file for file, data in self._contents() if name.encode() in data]
        if Path(start).stem == _PACKAGE and len(named) > MAX_NAMING:
            return set()
        return {file for file in named if self._imports_it(file, start, name)}

    def _imports_it(self, file: str, start: str, name: str) -> bool:
        """Whether a file imports another one, of which ``name`` is the last in its module's."""
        modules = dict.fromkeys(_spelled(self._read(file)))
        is_package = _is_package(start)  # `from . import a`
        return any(
            self._resolve(file, module) == start
            for module in modules
            if module.rpartition(".")[2] in (name, _PACKAGE)
            or (is_package and not module.strip("."))
        )

    def _contents(self) -> Iterator[tuple[str, bytes]]:
        """All files of the run, each read and forgotten."""
        return ((file, self._read(file)) for file in self._paths)

    def _linked(self, start: str, data: bytes, callers: list[str], *, models: bool) -> Links | None:
        own = [*self._resolved(start, data)]  # the file itself may lie there in another state
        todo = [*dict.fromkeys((start, *callers))]
        hops, room = dict.fromkeys(todo, 1) | {start: 0}, MAX_BYTES
        table: dict[tuple[int, str], int] = {}
        numbers = {file: number for number, file in enumerate(todo)}
        for importer in todo:  # grows while it is read
            for module, file in own if importer == start else self._imports(importer):
                if file not in numbers:
                    left = MAX_HOPS - hops[importer] - 1
                    if left < 0 or len(self._bytes(file)) > room:
                        continue
                    if not (models or self._leads(file, left)):
                        continue
                    room -= len(self._bytes(file))
                    hops[file], numbers[file] = hops[importer] + 1, len(numbers)
                    todo.append(file)
                table[numbers[importer], module] = numbers[file]
        calling = frozenset(range(1, len(callers) + 1))
        found = tuple(map(self._bytes, todo[1:]))
        paths = tuple(
            str(self._paths.get(file) or files.from_here(Path(file))) for file in todo[1:]
        )
        return Links(found, table, calling, models=models, paths=paths) if found else None

    def _trainers(self, start: str) -> tuple[tuple[str, bytes], ...]:
        """The files that run models under autocast and that meet this one in some program.

        They do where one file imports both, directly or through others. The nearest comes first.
        """
        return self._running_with(start, {start})

    def _loading_trainers(self, start: str) -> tuple[tuple[str, bytes], ...]:
        """The same where no file imports this one, but one near it loads modules by name."""
        loading = self._loading(start)
        return self._running_with(start, loading) if loading else ()

    def _running_with(self, start: str, files: set[str]) -> tuple[tuple[str, bytes], ...]:
        """The files that run models in programs with some files, those first that step as well."""
        programs = _closure(files, self._survey.users)
        met = self._running_models & _closure(programs, self._survey.used)
        near = self._nearest(start, met - {start})
        if len(near) > MAX_TRAINERS:
            near.sort(key=lambda file: not _says(self._bytes(file), _STEPPING))
        return tuple((str(self._paths[file]), self._bytes(file)) for file in near[:MAX_TRAINERS])

    def _loading(self, start: str) -> set[str]:
        """The files that import by name what nobody writes down, and may have a file: near ones.

        They reach what is below the folder around theirs.
        """
        above = {*map(str, Path(start).parents)}
        return {file for file in self._survey.loaders if str(Path(file).parent.parent) in above}

    def _is_trained_plainly(self, start: str) -> bool:
        """Whether programs with a file train, and nothing in them may run in half precision."""
        programs = _closure({start}, self._survey.users)
        met = _closure(programs, self._survey.used)
        if len(met) > MAX_PROGRAM or met & self._lowering:
            return False
        return not met.isdisjoint(self._training)

    def _run(self, start: str, hops: int = MAX_HOPS) -> frozenset[str]:
        """The functions of a file that modules of others run, or regions, directly or by others."""
        if not hops or not _FUNCTION.search(self._bytes(start)):
            return frozenset()
        passing = {start, *filter(_is_package, self._survey.importers.get(start, ()))}
        importers = {each for file in passing for each in self._survey.importers.get(file, ())}
        found: set[str] = set()
        for file in self._nearest(start, importers - {start})[:MAX_IMPORTERS]:
            calls = callees(self._bytes(file))
            found.update(self._of(start, file, calls.run_by([MODULES])))
            others = [name for name in calls.calls if name]
            if {*self._of(start, file, calls.run_by(others))} - found:
                run = self._run(file, hops - 1)
                found.update(self._of(start, file, calls.run_by(run)))
        return frozenset(found)

    def _of(self, start: str, file: str, places: Iterable[tuple[str, str]]) -> Iterator[str]:
        """The names that are those of one file, of some that another one reads of modules."""
        for module, name in places:
            at = self._resolve(file, module)
            if at is not None and at != start and _is_package(at):
                module, name = callees(self._bytes(at)).imported.get(name, ("", ""))
                at = self._resolve(at, module) if name else None
            if at == start:
                yield name

    def _nearest(self, start: str, others: Iterable[str]) -> list[str]:
        """Some files, those first whose folder has most in common with that of a file."""

        def apart(file: str) -> int:
            pairs = zip(Path(file).parts, Path(start).parts, strict=False)
            return -len([*itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)])

        return sorted(sorted({*others}), key=apart)

    @functools.cached_property
    def _survey(self) -> _Survey:
        """What all files import; `_importers` finds it for a few of them at a lower price."""
        survey = _Survey()
        for file, data in self._contents():
            for _, to in self._resolved(file, data):
                survey.importers[to].append(file)
                survey.used[file].append(to)
                survey.users[to].append(file)
            if _says(data, _LOADS):
                survey.loaders.add(file)
            for to in self._loaded(file, data) if file in survey.loaders else ():
                survey.used[file].append(to)
                survey.users[to].append(file)
            for module, name in imports(data) if self._fixing else ():
                source = self._resolve(file, module) if name else None
                if source is not None:
                    survey.names[source].add(name)
        return survey

    def _loaded(self, file: str, data: bytes) -> Iterator[str]:
        """The modules that a file may load by a name that begins with that of their package."""
        for package in dict.fromkeys(match[1] or match[2] for match in _FROM.finditer(data)):
            parts = [each for each in package.decode().split(".") if each]
            above = _searched(_folder(file, 0)) if parts else [_folder(file, 0)]
            folders = (os.path.join(folder, *parts) for folder in above)  # noqa: PTH118
            found = next((self._folders[each] for each in folders if each in self._folders), [])
            yield from (each for each in found if each != file)

    @functools.cached_property
    def _folders(self) -> dict[str, list[str]]:
        """The files of each folder."""
        found: dict[str, list[str]] = defaultdict(list)
        for file in self._paths:
            found[_folder(file, 0)].append(file)
        return dict(found)

    @functools.cached_property
    def _running_models(self) -> set[str]:
        """The files that may train under autocast, or have a framework do so."""
        return {file for file in self._paths if self._may_run_models(self._read(file))}

    def _may_run_models(self, data: bytes) -> bool:
        return any(_says_all(data, way) for way in _RUNNING)

    @functools.cached_property
    def _training(self) -> set[str]:
        """The files that run backward and step; a module may do the former for itself."""
        return {file for file in self._paths if _says_all(self._read(file), _TRAINING)}

    @functools.cached_property
    def _lowering(self) -> set[str]:
        """The files that name half precision, or a framework that may choose it."""
        return {file for file in self._paths if _says(self._read(file), written.LOWERS)}

    def _find_out(self, file: str, hops: int) -> bool:
        """Whether a file has something that matters, or imports it over so many hops."""
        if _says(self._bytes(file), written.MATTERS):
            return True
        return hops > 0 and any(self._leads(to, hops - 1) for _, to in self._imports(file))

    def _read(self, file: str) -> bytes:
        try:
            is_own = file in self._paths
            data = self._open(self._paths[file]) if is_own else files.read(Path(file), MAX_BYTES)
            return python(data, file)[0]
        except OSError:
            return b""

    def _find_imports(self, file: str) -> tuple[tuple[str, str], ...]:
        """The modules that a file imports and that are files of the run, with these files."""
        return tuple(self._resolved(file, self._bytes(file)))

    def _resolved(self, file: str, data: bytes) -> Iterator[tuple[str, str]]:
        for module in dict.fromkeys(_spelled(data)):
            to = self._resolve(file, module)
            if to is not None:
                yield module, to

    def _resolve(self, importer: str, module: str) -> str | None:
        name = module.lstrip(".")
        dots = len(module) - len(name)
        folder = _folder(importer, 0)
        if dots:
            return self._module(folder, _folder(importer, dots - (2 if name else 1)), name)
        first = name.partition(".")[0]
        if first in OUTSIDE or not (
            self._words.issuperset(name.split("."))
            or (self._beside is not None and self._beside.has(folder, first))
        ):
            return None
        found = self._lying(folder, name)
        # no module imports itself: it means one of another folder
        owned = (file for file, owner in found if owner not in (None, importer))
        return next((f for f in (*owned, *(file for file, _ in found)) if f != importer), None)

    def _find_upwards(self, folder: str, name: str) -> tuple[tuple[str, str | None], ...]:
        """The files that a module may be, from a folder upwards, each with its package's."""
        first = name.partition(".")[0]
        places = ((self._module(folder, at, name), at) for at in _searched(folder))
        return tuple((file, self._module(folder, at, first)) for file, at in places if file)

    def _module(self, importing: str, folder: str, name: str) -> str | None:
        """The file of a module or package below a folder, of the run or beside what imports it."""
        below = name.replace(".", os.sep) or _PACKAGE
        stem = f"{folder.rstrip(os.sep)}{os.sep}{below}"
        found = self._modules.get(stem)
        return found or (self._beside.module(importing, stem) if self._beside is not None else None)


def _searched(folder: str) -> Iterator[str]:
    """The folders in which a program in one may find its modules, the nearest first."""
    return (each for above in _upwards(folder) for each in roots(above))


def _upwards(folder: str) -> Iterator[str]:
    yield folder
    while (above := os.path.dirname(folder)) != folder:  # noqa: PTH120
        yield above
        folder = above


def _is_package(file: str) -> bool:
    return Path(file).stem == _PACKAGE


def _folder(file: str, above: int) -> str:
    """The directory of a file, or so many above it."""
    for _ in range(above + 1):
        file = os.path.dirname(file)  # noqa: PTH120
    return file


def _modules(paths: Iterable[str]) -> dict[str, str]:
    """The files of modules, by their paths without suffix, and of packages, also by their folder.

    Where both are there, the folder's name is that of the module.
    """
    modules = {path.removesuffix(".py"): path for path in paths if path.endswith(".py")}
    end = f"{os.sep}{_PACKAGE}"
    packages = ((stem, path) for stem, path in modules.items() if stem.endswith(end))
    return {stem.removesuffix(end): path for stem, path in packages} | modules


def own_methods(data: bytes) -> frozenset[str]:
    """The methods with names of several words that a file defines, and torch has none of."""
    return frozenset(name.decode() for name in _METHOD.findall(data)) - COMMON


def asks(data: bytes, wishes: Wishes) -> bool:
    """Whether other files matter for one with these bytes; `Project.links` gives None if not.

    As long as nothing is fixed.
    """
    wants_others = wishes.wants_callers(data) or wishes.wants_trainers(data)
    return wants_others or _says(data, written.TRAINS)


def _says(data: bytes, what: written.Look) -> bool:
    """Whether something is in the code of a file."""
    return what.found_in(data) and what.found_in(without_prose(data))


def _says_all(data: bytes, looks: Iterable[written.Look]) -> bool:
    return all(_says(data, each) for each in looks)


def _closure(start: Iterable[str], leads: Mapping[str, Iterable[str]]) -> set[str]:
    """What some files lead to, they themselves included; no more than `MAX_PROGRAM`."""
    found = dict.fromkeys(start)
    for file in (todo := [*found]):  # grows while it is read
        if len(found) > MAX_PROGRAM:
            break
        fresh = dict.fromkeys(other for other in leads.get(file, ()) if other not in found)
        found.update(fresh)
        todo += fresh
    return set(found)


def imports(data: bytes) -> Iterator[tuple[str, str]]:
    """The modules that a file imports, as `Links` spells them, each with what it takes of them.

    ``""`` for the module itself, ``*`` for everything. What looks like an import in a string or in
    prose is among them.
    """
    starts = [*_beginnings(data)]
    ends = [*(match.start() for match in starts[1:]), len(data)]
    for match, end in zip(starts, ends, strict=False):
        rest = _logical_line(data, match.end(), end)
        yield from _taken(rest) if match[1] == b"from" else _whole(rest)


def _beginnings(data: bytes) -> Iterator[re.Match[bytes]]:
    """Where imports begin: at the start of the lines that have the word."""
    previous = 0
    for word in _KEYWORD.finditer(data):
        start = data.rfind(b"\n", previous, word.start()) + 1
        while start > previous and data.endswith(_CONTINUED, 0, start):
            start = data.rfind(b"\n", previous, start - 1) + 1
        is_first = start or not previous  # on its line
        if is_first and (match := _BEGINNING.match(data, start)):
            yield match
        previous = word.end()


def _logical_line(data: bytes, start: int, end: int) -> bytes:
    """What follows the word ``from`` or ``import``, its comments left out, until the import ends.

    Nothing, where it does not before ``end``: somebody is writing the file.
    """
    first = data[start:end].partition(b"\n")[0]
    if b"(" not in first and b"\\" not in first:
        return first.partition(b"#")[0].partition(b";")[0]
    parts: list[bytes] = []
    is_open = False
    for line in data[start:end].split(b"\n"):
        part = line.partition(b"#")[0].rstrip()
        parts.append(part.removesuffix(b"\\"))
        is_open = (is_open or b"(" in part) and b")" not in part
        if not is_open and not part.endswith(b"\\"):
            return b" ".join(parts).partition(b";")[0]
    return b""


def _taken(rest: bytes) -> Iterator[tuple[str, str]]:
    """``.a import b as c, d`` as what `imports` gives."""
    spaced, *names = _KEYWORD.split(rest, 1)
    module = b"".join(spaced.split())
    if not names or not _MODULE.match(module):
        return
    text = module.decode()
    if text.startswith(".") and text.strip("."):
        text = "." + text
    for name in _names(names[0].strip(b" \t()")):
        yield text, name


def _whole(rest: bytes) -> Iterator[tuple[str, str]]:
    """``a.b, c as d`` as what `imports` gives."""
    for name in _names(rest):
        yield name, ""


def _names(listed: bytes) -> Iterator[str]:
    """The first word of what stands between commas, where it is a name, dotted or not, or ``*``."""
    for item in listed.split(b","):
        word, *_ = item.split() or [b""]
        if word == b"*" or _MODULE.match(word):
            yield word.decode()


def _spelled(data: bytes) -> Iterator[str]:
    """The modules that a file may import: ``from a import b`` may import the module ``a.b``."""
    for module, name in imports(data):
        if name:
            yield from (module, f"{module}.{name}")
        else:
            parts = module.split(".")
            yield from (".".join(parts[: end + 1]) for end in range(len(parts)))
