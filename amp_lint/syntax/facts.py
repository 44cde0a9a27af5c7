"""What one pass over Python's own tree says of a file: which rules have certainly nothing to say.

A tree of `ast` is had ten times as fast as one of libcst, so that a file in which no rule can find
anything is never parsed by the latter. Everything here errs on one side: what may be, is.
"""

from __future__ import annotations

import ast
import bisect
import copy
import functools
import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from amp_lint.syntax.parse import levels, nodes, own_identifiers
from amp_lint.syntax.project import OUTSIDE
from amp_lint.vocabulary.expressions import SIGNS, Stage
from amp_lint.vocabulary.table import FUNCTIONS, METHODS
from amp_lint.vocabulary.written import lines

_SELF = frozenset({"self", "cls"})
_DEFINED = rb"\bdef[ \t]+%b\b|(?<!:)(?<![:|][ \t])(?<!\[)\b%b\b[^(=\n]*=(?!=)"
"""Where a name is that of a function, or of something that is assigned; not an annotation."""
_LONG = 1_000
"""Bytes of a line that is not searched for what it defines."""
_IMPORT = re.compile(rb"^[ \t]*(?:from[ \t]+[\w.]+[ \t]+)?import[ \t]+(.+)", re.MULTILINE)
Definition = ast.FunctionDef | ast.AsyncFunctionDef
Answer = TypeVar("Answer")
_At = tuple[ast.expr, int]
"""A value, and how many operations of a way lie behind it."""


@dataclass
class Facts:
    """The facts about one file."""

    nodes: list[ast.AST] = field(default_factory=list)
    """All there are."""
    calls: dict[str, list[ast.Call]] = field(default_factory=lambda: defaultdict(list))
    """Last name of what is called, as it is written or was imported -> the calls."""
    values: dict[str, list[ast.expr]] = field(default_factory=lambda: defaultdict(list))
    """Variable or attribute -> what is assigned to it somewhere."""
    shares: dict[str, list[tuple[ast.Call, int]]] = field(default_factory=lambda: defaultdict(list))
    """Variable or attribute -> the calls of whose values it is assigned one, and which."""
    functions: dict[str, list[Definition]] = field(default_factory=lambda: defaultdict(list))
    classes: dict[str, list[ast.ClassDef]] = field(default_factory=lambda: defaultdict(list))
    imported: dict[str, str] = field(default_factory=dict)
    """Name -> the last part of what it is imported as."""
    known: set[str] = field(default_factory=set)
    """Those of them that are not from other files of the project."""
    least: float = math.inf
    """The smallest positive float that is written; 0 where a power may be smaller."""
    linked: Set[str] = frozenset()
    """The identifiers of what is looked into of other files."""
    whole: bytes | None = None
    """The text of the file, where the facts are about one function: what is from outside of it is
    unknown."""
    _answers: dict[object, object] = field(default_factory=dict, init=False, repr=False)
    _words: dict[str, frozenset[str]] = field(default_factory=dict, init=False, repr=False)

    def seeing(self, linked: Set[str]) -> Facts:
        """The facts about the same file, where it sees what has the words ``linked``."""
        other = copy.copy(self)  # with what was found of the file itself
        other.linked, other._answers = linked, {}
        return other

    def asked(self, question: Callable[[Facts], Answer]) -> Answer:
        """What a question that several rules ask has for an answer, which is found once."""
        if question not in self._answers:
            self._answers[question] = question(self)
        return cast(Answer, self._answers[question])

    @functools.cached_property
    def words(self) -> Set[str]:
        """The identifiers that the code uses, and strings that are one."""
        return {word for node in self.nodes for word in own_identifiers(node)}

    @functools.cached_property
    def done(self) -> Set[str]:
        """Those of functions that may be called: not what is only computed with or assigned.

        What is a method of objects alone is only called as one.
        """
        asked = FUNCTIONS & self.words
        if not asked:
            return frozenset()
        idle = Counter(word for node in self.nodes if type(node) in _IDLE for word in _idle(node))
        named = [node for node in self.nodes if not asked.isdisjoint(own_identifiers(node))]
        times = Counter(
            word for node in named if not _is_bare(node) for word in own_identifiers(node)
        )
        return {word for word in asked if times[word] > idle[word]}

    def leads(
        self, node: ast.expr, way: tuple[Stage, ...], through: Set[str], *, entering: bool = False
    ) -> bool:
        """Whether a value may come by all operations of a way, from its first to its last.

        Directly, by variables and helpers, and by calls of ``through``, additions and subscripts in
        between; if ``entering``, also by what methods and modules return.
        """
        key = way, frozenset(through), entering
        search = self._answers.pop(key, None)  # what it has seen, and found nothing, leads nowhere
        if not isinstance(search, _Search):
            search = _Search(self, way, through, entering=entering)
        search.facts = self
        found = search.leads(node)
        if not found:
            del search.facts  # no circle: what is kept for a while shall end with the last name
            self._answers[key] = search
        return found

    def may_be(self, name: str, targets: Set[str]) -> bool:
        """Whether what is called so is one of ``targets``, or made of one here or elsewhere."""
        if name in targets:
            return True
        made_here = name in self.functions or name in self.values
        way = (Stage(frozenset(targets)),)
        return self.is_linked(name) or (made_here and _Search(self, way, set()).mentions(name))

    def words_of(self, name: str) -> Set[str]:
        """The identifiers in what a function or variable of that name may be."""
        if name not in self._words:
            parts = [*self.functions.get(name, ()), *self.values.get(name, ())]
            self._words[name] = frozenset(word for part in parts for word in _words(part))
        return self._words[name]

    def is_seen(self, value: ast.expr, use: ast.expr) -> bool:
        """Whether what a name is given somewhere may be seen where it is used."""
        home = self.home(value.lineno)
        return home is None or home.lineno <= use.lineno <= (home.end_lineno or 0)

    def home(self, line: int) -> Definition | None:
        """The innermost function around a line."""
        at = bisect.bisect_right(self._starts, line)
        around = (each for each in reversed(self._in_order[:at]) if line <= (each.end_lineno or 0))
        return next(around, None)

    @functools.cached_property
    def _in_order(self) -> list[Definition]:
        return sorted(itertools.chain(*self.functions.values()), key=lambda each: each.lineno)

    @functools.cached_property
    def _starts(self) -> list[int]:
        return [each.lineno for each in self._in_order]

    @functools.cached_property
    def owners(self) -> dict[int, str]:
        """Id of the ``forward`` of a class -> the name of the class, which is called for it."""
        return {
            id(part): owner.name
            for each in self.classes.values()
            for owner in each
            for part in owner.body
            if getattr(part, "name", "") == "forward"
        }

    def is_linked(self, name: str) -> bool:
        """Whether a name may be that of something in another file that is looked into."""
        return name in self.linked

    def is_foreign(self, name: str) -> bool:
        """Whether a variable may have a value that is not seen, where one function is."""
        if self.whole is None:
            return False
        is_given = name in self.values or name in self.shares or name in _imported(self.whole)
        return not is_given or name in self.asked(parameters)

    def is_defined_outside(self, function: ast.expr) -> bool:
        """Whether what is called may be of this file, and is not seen, where one function is.

        Not what torch has, nor a method of a name that is given to nothing in the file.
        """
        if self.whole is None:
            return False
        if not isinstance(function, ast.Attribute) or _is_own(function):
            return True
        owner: ast.expr = function
        while isinstance(owner, ast.Attribute):
            owner = owner.value
        if isinstance(owner, ast.Name) and owner.id == "torch":
            return False
        name = function.attr
        return not name.isascii() or _is_defined(name.encode(), self.whole)

    def ends(self, node: ast.expr) -> Iterator[ast.expr]:
        """What a value may be, followed through variables, attributes and choices."""
        seen: set[int] = set()
        todo = [node]
        while todo:
            part = todo.pop()
            if id(part) in seen:
                continue
            seen.add(id(part))
            match part:
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    yield part
                    todo += self.values.get(name, ())
                case ast.IfExp(body=one, orelse=other):
                    todo += (one, other)
                case ast.BoolOp(values=values):
                    todo += values
                case ast.NamedExpr(value=value):
                    todo.append(value)
                case _:
                    yield part

    def name(self, call: ast.Call) -> str:
        """The last name of what is called, as it was imported; "" if it has none.

        Of an item of a list of modules it is that of the list.
        """
        match called(call):
            case ast.Attribute(attr=name):
                return name
            case ast.Name(id=name):
                return self.imported.get(name, name)
        return ""


@functools.lru_cache(maxsize=2)
def _imported(text: bytes) -> frozenset[str]:
    """What is imported on single lines of a program, as it is called there."""
    found = (_IMPORT.match(text, *line) for line in lines(text, b"import"))
    items = (item for line in found if line for item in line[1].split(b","))
    names = (item.split()[-1].partition(b".")[0] for item in items if item.split())
    return frozenset(name.decode("utf-8", "replace") for name in names)


@functools.lru_cache(maxsize=256)
def _is_defined(name: bytes, text: bytes) -> bool:
    """Whether a function of a program has a name, or something that is assigned."""
    defined = re.compile(_DEFINED % (name, name))
    return any(end - at > _LONG or defined.search(text, at, end) for at, end in lines(text, name))


def parameters(found: Facts) -> Set[str]:
    """The names of what functions are given."""
    return {node.arg for node in found.nodes if isinstance(node, ast.arg)}


def called(call: ast.Call) -> ast.expr:
    """What is called, or the list of which it is an item."""
    function = call.func
    while isinstance(function, ast.Subscript):
        function = function.value
    return function


def facts(
    module: ast.Module, *, linked: Set[str] = frozenset(), whole: bytes | None = None
) -> Facts:
    """The facts about a file that sees, of others, what has the words ``linked``.

    Or about a function of a file with the text ``whole``.

    Raises:
        TooDeepError: the tree is too deep to be analysed.
    """
    found = Facts(linked=linked, whole=whole)
    for level in levels(module):
        found.nodes += level
    for node in found.nodes:
        note = _NOTES.get(type(node))
        if note is not None:
            note(found, node)
    for name in found.imported.keys() & found.calls.keys():
        if found.imported[name] != name:
            found.calls[found.imported[name]] += found.calls[name]
    return found


def _note_call(found: Facts, node: ast.Call) -> None:
    match node.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            found.calls[name].append(node)


def _note_assignment(found: Facts, node: ast.Assign) -> None:
    for target in node.targets:
        _bind(found, target, node.value)


def _note_value(found: Facts, node: ast.AnnAssign | ast.NamedExpr) -> None:
    if node.value is not None:
        _bind(found, node.target, node.value)


def _note_definition(found: Facts, node: Definition) -> None:
    found.functions[node.name].append(node)


def _note_class(found: Facts, node: ast.ClassDef) -> None:
    found.classes[node.name].append(node)


def _note_import(found: Facts, node: ast.Import | ast.ImportFrom) -> None:
    module = getattr(node, "module", None)
    for alias in node.names:
        first, _, last = alias.name.rpartition(".")
        name = alias.asname or last
        found.imported[name] = last
        if (module or first or last).partition(".")[0] in OUTSIDE and not getattr(node, "level", 0):
            found.known.add(name)


def _note_number(found: Facts, node: ast.Constant) -> None:
    if isinstance(node.value, float) and node.value > 0:
        found.least = min(found.least, node.value)


def _note_power(found: Facts, node: ast.BinOp) -> None:
    if isinstance(node.op, ast.Pow) and _is_number(node.left) and _is_number(node.right):
        found.least = 0.0


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, (ast.Constant, ast.UnaryOp))


_NOTES: dict[type[ast.AST], Callable[[Facts, Any], None]] = {
    ast.Call: _note_call,
    ast.Assign: _note_assignment,
    ast.AnnAssign: _note_value,
    ast.NamedExpr: _note_value,
    ast.FunctionDef: _note_definition,
    ast.AsyncFunctionDef: _note_definition,
    ast.ClassDef: _note_class,
    ast.Import: _note_import,
    ast.ImportFrom: _note_import,
    ast.Constant: _note_number,
    ast.BinOp: _note_power,
}


def _operands(node: ast.Compare) -> Iterable[ast.AST]:
    return (node.left, *node.comparators)


_IDLE: dict[type[ast.AST], Callable[[Any], Iterable[ast.AST]]] = {
    ast.Constant: lambda node: (node,),
    ast.FunctionDef: lambda node: (node,),
    ast.ClassDef: lambda node: (node,),
    ast.arg: lambda node: (node,),
    ast.keyword: lambda node: (node,),
    ast.Attribute: lambda node: (node.value,),
    ast.BinOp: lambda node: (node.left, node.right),
    ast.Compare: _operands,
    ast.UnaryOp: lambda node: (node.operand,),
    ast.AugAssign: lambda node: (node.target, node.value),
    ast.Assign: lambda node: node.targets,
    ast.AnnAssign: lambda node: (node.target,),
    ast.If: lambda node: (node.test,),
    ast.FormattedValue: lambda node: (node.value,),
}
"""The part of a node, or the node, whose own word is neither called nor handed on there."""


def _idle(node: ast.AST) -> list[str]:
    parts = [part for part in _IDLE[type(node)](node) if part is node or _may_be_called(part)]
    return [word for part in parts for word in own_identifiers(part)]


def _may_be_called(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) or (isinstance(node, ast.Name) and not _is_bare(node))


def _is_bare(node: ast.AST) -> bool:
    """Whether a node has the name of a method, and no object."""
    return isinstance(node, ast.Name) and node.id in METHODS


def _bind(found: Facts, target: ast.expr, value: ast.expr) -> None:
    match target, value:
        case ast.Name(id=name) | ast.Attribute(attr=name), _:
            found.values[name].append(value)
        case (
            (ast.Tuple(elts=one) | ast.List(elts=one)),
            (ast.Tuple(elts=other) | ast.List(elts=other)),
        ):
            if len(one) == len(other):
                for each, its in zip(one, other, strict=True):
                    _bind(found, each, its)
        case ((ast.Tuple(elts=parts) | ast.List(elts=parts)), ast.Call()):
            for at, part in enumerate(parts):
                if isinstance(part, ast.Name):
                    found.shares[part.id].append((value, at))


class _Search:
    """One question of `Facts.leads`."""

    def __init__(
        self, facts: Facts, way: tuple[Stage, ...], through: Set[str], *, entering: bool = False
    ) -> None:
        self._entering = entering
        self.facts = facts
        self._way = way
        self._through = through
        self._seen: set[tuple[int, int]] = set()
        self._called: set[tuple[str, bool, int | None, int]] = set()
        self._entered_at: set[tuple[Definition, int | None, int]] = set()
        self._without: set[str] = set()
        """Names that have nothing to do with the end of the way, as far as that is known."""

    def leads(self, node: ast.expr) -> bool:
        """Whether a value may come the whole way: depth first, and however far that is."""
        todo: list[Iterator[_At]] = [iter(((node, 0),))]
        while todo:
            at = next(todo[-1], None)
            if at is None:
                todo.pop()
                continue
            each, stage = at
            if stage == len(self._way):
                return True
            if (id(each), stage) not in self._seen:
                self._seen.add((id(each), stage))
                todo.append(self._sources(each, stage))
        return False

    def _sources(self, node: ast.expr, stage: int) -> Iterator[_At]:
        """What a value is made from, and how much of the way that is."""
        match node:
            case ast.Name(id=name):
                if self.facts.is_foreign(name) or self._is_given_elsewhere(node):
                    yield node, len(self._way)
                yield from ((each, stage) for each in self._given(node))
                for call, at in self.facts.shares.get(name, ()):
                    if self.facts.is_defined_outside(called(call)):
                        yield call, len(self._way)
                    if self.facts.is_seen(call, node):
                        yield from self._gives(call, stage, at)
            case ast.Attribute(attr=name) if self._entering and _is_own(node):
                home = self.facts.home(node.lineno)
                given = self.facts.values.get(name, ())
                yield from ((v, stage) for v in given if self.facts.home(v.lineno) is home)
            case ast.Subscript(value=value) | ast.NamedExpr(value=value) | ast.Starred(value=value):
                yield value, stage
            case ast.BinOp():
                yield from self._of_operator(node, stage)
            case ast.UnaryOp(operand=operand) if "neg" in self._way[stage].names:
                yield operand, stage + 1
            case ast.Call():
                yield from self._of_call(node, stage)

    def _of_operator(self, node: ast.BinOp, stage: int) -> Iterator[_At]:
        sides, name = (node.left, node.right), SIGNS.get(type(node.op), "")
        wanted = self._way[stage]
        if name in wanted.names:
            numbers = [each.value for each in sides if isinstance(each, ast.Constant)]
            if wanted.constant is None or wanted.constant in numbers:
                yield from ((each, stage + 1) for each in sides)
        if name == "add":
            yield from ((each, stage) for each in sides)
            yield from ((each, stage) for each in _factors(node) if self._entering)

    def _of_call(self, call: ast.Call, stage: int) -> Iterator[_At]:
        name, end = self.facts.name(call), len(self._way)
        function = called(call)
        made_here = self._made_here(function, name) and not self._is_seen_through(name)
        if not name or self._is_unclear(function) or (made_here and self.mentions(name)):
            yield call, end
        if name in self._way[stage].names:
            yield from self._from(call, stage + 1)
        if made_here:  # which may do any part of the way
            yield from (at for more in range(stage, end) for at in self._from(call, more))
        elif name in self._through or (name == "where" and _opposed(*call.args[-2:])):
            yield from self._from(call, stage)
        if name not in self._through:
            yield from self._gives(call, stage)

    def _from(self, call: ast.Call, stage: int) -> Iterator[_At]:
        """What a call is given; the call itself, where that is no matter at the end of the way."""
        if stage == len(self._way):
            yield call, stage
        else:
            yield from ((each, stage) for each in operands(call))

    def _given(self, name: ast.Name) -> Iterator[ast.expr]:
        """What a variable is given where it is seen; a parameter by calls."""
        facts, function = self.facts, self.facts.home(name.lineno)
        yield from (v for v in facts.values.get(name.id, ()) if facts.is_seen(v, name))
        if self._entering and function is not None and name.id not in _SELF:
            at = _position(function, name.id)
            calls = facts.calls.get(function.name, ()) if at is not None else ()
            given = (argument(call, at, name.id) for call in calls)
            yield from (each for each in given if each is not None)

    def _is_given_elsewhere(self, name: ast.Name) -> bool:
        """Whether a variable is a parameter that calls in other files may give something for."""
        facts, function = self.facts, self.facts.home(name.lineno)
        if not self._entering or function is None or name.id in _SELF:
            return False
        called = facts.owners.get(id(function), function.name)
        return facts.is_linked(called) and _position(function, name.id) is not None

    def _gives(self, call: ast.Call, stage: int, at: int | None = None) -> Iterator[_At]:
        """What may be returned by what is called, as the value with a number if there is one."""
        key = self.facts.name(call), isinstance(call.func, ast.Name), at, stage
        if not self._entering or key in self._called:
            return
        self._called.add(key)
        fresh = [each for each in self._entered(call) if (each, at, stage) not in self._entered_at]
        self._entered_at.update((each, at, stage) for each in fresh)
        for value in (node.value for each in fresh for node in _returns(each)):
            if not isinstance(value, ast.Tuple):
                yield from ((value, stage),) if value is not None and at is None else ()
            elif at is not None and at < len(value.elts):
                yield value.elts[at], stage

    def _entered(self, call: ast.Call) -> Iterable[Definition]:
        """What a call may run: a function or method, or the ``forward`` of a module."""
        facts, name = self.facts, self.facts.name(call)
        forwards = facts.functions.get("forward", [])
        if name in facts.functions:
            return facts.functions[name]
        if name not in facts.values:
            spelled = isinstance(call.func, ast.Name) and call.func.id not in facts.imported
            return forwards if spelled else ()
        made = {word for value in facts.values[name] for word in _words(value)}
        owners = [owner for word in made for owner in facts.classes.get(word, ())]
        held = {id(each) for owner in owners for each in owner.body}
        return [each for each in forwards if id(each) in held]

    def _made_here(self, function: ast.expr, name: str) -> bool:
        """Whether what is called may be a function or a variable of this file."""
        spelled = function.id if isinstance(function, ast.Name) else name
        if isinstance(function, ast.Attribute) and not _is_own(function):
            return False
        return spelled in self.facts.functions or spelled in self.facts.values

    def _is_seen_through(self, name: str) -> bool:
        """Whether what is called so is a function of this file, to whose values it leads."""
        facts = self.facts
        is_function = name in facts.functions and name not in facts.values
        return self._entering and is_function and not facts.is_linked(name)

    def _is_unclear(self, function: ast.expr) -> bool:
        """Whether what is called may come from another file that is looked into."""
        facts = self.facts
        if facts.is_defined_outside(function):
            return True
        match function:
            case ast.Name(id=name):
                foreign = name in facts.imported and name not in facts.known
                return foreign and facts.is_linked(facts.imported[name])
            case ast.Attribute(attr=name):
                foreign = _is_own(function) and name not in facts.functions
                return foreign and facts.is_linked(name)
        return False

    def mentions(self, name: str) -> bool:
        """Whether a function or variable of this file may have to do with a target."""
        facts = self.facts
        if name in self._without:
            return False
        todo, seen = [name], {name}
        while todo:
            each = todo.pop()
            found = facts.words_of(each)
            if found & self._way[-1].names:
                return True
            own = {word for word in found if word in facts.functions or word in facts.values}
            todo += own - seen - self._without
            seen |= own
        self._without |= seen
        return False


def _words(node: ast.AST) -> Iterator[str]:
    return (word for each in nodes(node) for word in own_identifiers(each))


def _position(function: Definition, name: str) -> int | None:
    """Which argument of a call is a parameter's, if it has that name; keywords come last."""
    parameters = function.args
    ordered = (*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs)
    names = [each.arg for each in ordered]
    if name not in names:
        return None
    return names.index(name) - (names[0] in _SELF)


def _returns(function: Definition) -> Iterator[ast.Return]:
    return (node for node in nodes(function) if isinstance(node, ast.Return))


def argument(call: ast.Call, position: int | None, keyword: str) -> ast.expr | None:
    """What a call gives for a parameter; None where that is not plain to see."""
    for given in call.keywords:
        if given.arg == keyword:
            return given.value
    if position is None or len(call.args) <= position:
        return None
    return call.args[position]


def operands(call: ast.Call) -> Iterator[ast.expr]:
    """All that a call is given, the object of a method first."""
    if isinstance(call.func, ast.Attribute):
        yield call.func.value
    yield from call.args
    yield from (keyword.value for keyword in call.keywords)


def _is_own(function: ast.Attribute) -> bool:
    return isinstance(function.value, ast.Name) and function.value.id in _SELF


def _factors(total: ast.BinOp) -> Iterator[ast.expr]:
    """Of ``p * y + (1 - p) * (1 - y)`` what is multiplied."""
    match total.left, total.right:
        case (
            ast.BinOp(op=ast.Mult(), left=one, right=other),
            ast.BinOp(op=ast.Mult(), left=first, right=second),
        ):
            straight = _opposed(one, first) and _opposed(other, second)
            if straight or (_opposed(one, second) and _opposed(other, first)):
                yield from (one, other, first, second)


def _opposed(*pair: ast.expr) -> bool:
    """Whether one of two values is 1 minus the other."""
    return len(pair) == 2 and any(
        isinstance(one, ast.BinOp)
        and isinstance(one.op, ast.Sub)
        and isinstance(one.left, ast.Constant)
        and one.left.value == 1
        and ast.dump(one.right) == ast.dump(other)
        for one, other in (pair, pair[::-1])
    )
