"""Which functions of other files run with the modules of a file, or in its autocast regions.

A function that computes for a model lies often in a file of helpers, which says nothing of autocast
itself. It is read by `ast` alone who calls it: the methods of modules, what is in a region, and the
functions that these call.
"""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from amp_lint.syntax.parse import TooDeepError, levels, parse
from amp_lint.vocabulary.operations import PLAIN_DECORATORS, PRECISION_WORDS
from amp_lint.vocabulary.written import REGION

MODULES = ""
"""What stands for the modules and the regions of a file among its functions."""
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_WITH = (ast.With, ast.AsyncWith)


@dataclass(frozen=True, slots=True)
class Callees:
    """What the functions of one file call."""

    calls: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Function, or `MODULES` -> the dotted names that it calls in the state in which it runs."""
    imported: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Name -> module, as `Links` spells it, and what is taken of it; "" for the module itself."""
    stars: tuple[str, ...] = ()
    """The modules of which everything is imported."""

    def run_by(self, functions: Iterable[str]) -> Iterator[tuple[str, str]]:
        """The functions of other files that some of this one run, as module and name."""
        seen = set(todo := [*functions])
        for function in todo:  # grows while it is read
            for called in sorted(self.calls.get(function, ())):
                if called in self.calls:
                    todo += [called] if called not in seen else []
                    seen.add(called)
                else:
                    yield from self._places(called)

    def _places(self, called: str) -> Iterator[tuple[str, str]]:
        """The modules in which a dotted name may be a function."""
        first, _, rest = called.partition(".")
        if called in self.imported:
            yield self.imported[called]
        elif first in self.imported and rest:
            within, _, name = rest.rpartition(".")
            yield ".".join(filter(None, (*self.imported[first], within))), name
        elif not rest:
            yield from ((module, called) for module in self.stars)


@functools.lru_cache(maxsize=256)
def callees(data: bytes) -> Callees:
    """What the functions of a file with these bytes call; nothing, if it cannot be read."""
    try:
        module = parse(data)
        for _ in levels(module):
            pass  # none is too deep
    except (SyntaxError, TooDeepError):
        return Callees()
    calls: dict[str, set[str]] = defaultdict(set)
    for node in module.body:
        if isinstance(node, _DEFINITIONS):
            calls[node.name] |= _Calls(calls[MODULES]).of(node)
        elif isinstance(node, ast.ClassDef):
            is_module = _is_module(node)
            for part in node.body:
                found = _Calls(calls[MODULES]).of(part)
                if is_module and isinstance(part, _DEFINITIONS) and not part.name.startswith("__"):
                    calls[MODULES] |= found
        else:
            _Calls(calls[MODULES]).of(node)
    taken = [*_imported(module)]
    return Callees(
        {name: frozenset(each) for name, each in calls.items()},
        {name: (source, what) for name, source, what in taken},
        tuple(dict.fromkeys(source for name, source, _ in taken if name == "*")),
    )


def _imported(module: ast.Module) -> Iterator[tuple[str, str, str]]:
    """The names that imports bind, with the modules and what is taken of them."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                yield (alias.asname, alias.name, "") if alias.asname else (first, first, "")
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, spelled(node), alias.name


def spelled(node: ast.ImportFrom) -> str:
    """The module that an import names, spelled as in `Links`."""
    dots = "." * (node.level + bool(node.level and node.module))
    return f"{dots}{node.module or ''}"


class _Calls:
    """Collects what a definition calls; what is in its regions is noted in ``entered``."""

    def __init__(self, entered: set[str]) -> None:
        self._entered = entered

    def of(self, node: ast.AST) -> set[str]:
        """The dotted names that are called where the state is that of the definition."""
        found: set[str] = set()
        decorators = getattr(node, "decorator_list", ())
        self._visit(node, set() if any(map(_may_switch, decorators)) else found)
        return found

    def _visit(self, node: ast.AST, found: set[str]) -> None:
        todo = [node]
        while todo:
            part = todo.pop()
            if isinstance(part, ast.Call):
                found.add(_dotted(part.func))
            below = [*ast.iter_child_nodes(part)]
            if isinstance(part, _WITH) and any(_says_precision(i.context_expr) for i in part.items):
                is_on = any(_is_on(item.context_expr) for item in part.items)
                for each in part.body:
                    self._visit(each, self._entered if is_on else set())
                below = [child for child in below if child not in part.body]
            todo += below


def _is_module(node: ast.ClassDef) -> bool:
    """Whether a class is one of modules: by its base, or by what it defines."""
    bases = (_dotted(base) for base in node.bases)
    defined = {part.name for part in node.body if isinstance(part, _DEFINITIONS)}
    return "forward" in defined or any(base.endswith("Module") for base in bases)


def _may_switch(decorator: ast.expr) -> bool:
    """Whether a decorator may change the autocast state."""
    named = _dotted(decorator.func if isinstance(decorator, ast.Call) else decorator)
    return named.rpartition(".")[2] not in PLAIN_DECORATORS and _says_precision(decorator)


def _says_precision(node: ast.expr) -> bool:
    text = ast.unparse(node).lower()
    return any(word in text for word in PRECISION_WORDS)


def _is_on(context: ast.expr) -> bool:
    """Whether what is entered is an autocast region that no literal switches off."""
    if not isinstance(context, ast.Call) or _dotted(context.func).rpartition(".")[2] != REGION:
        return False
    given = [*context.args, *(keyword.value for keyword in context.keywords)]
    return not any(isinstance(g, ast.Constant) and g.value in (False, "cpu") for g in given)


def _dotted(node: ast.AST) -> str:
    """``a.b.c`` of such a name; "" of anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join((node.id, *reversed(parts))) if isinstance(node, ast.Name) else ""
