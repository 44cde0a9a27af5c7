"""What a path knows about the values its tests looked at.

Two tests of the same unassigned expression agree on a path: after ``if use_amp:`` a second
``if use_amp:`` has one way to go, ``if scaler is None:`` none that uses the scaler. Tests become
formulas over *keys*, texts that name a value (``self.scaler``, ``args.precision``).
"""

from __future__ import annotations

import ast
import contextlib
import functools
import itertools
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import libcst as cst

from amp_lint.flow.values import literal
from amp_lint.syntax.tree import children, descendants
from amp_lint.vocabulary.purity import SETTINGS

MAX_ALTERNATIVES = 8
"""Ways to satisfy one formula that are told apart."""

Constant = bool | int | float | str | bytes | None
KeyOf = Callable[[cst.BaseExpression], str | None]
"""Names the value of an expression; None where the expression has no name."""
ConstantOf = Callable[[cst.BaseExpression], object]
"""The constant that an expression stands for; ``...`` where it is none."""
AnswerOf = Callable[[cst.BaseExpression], "Formula | None"]
"""The test that a value is the answer of; None where it is not known to be one."""


@dataclass(frozen=True, slots=True)
class Truthy:
    """The value under ``key`` counts as true."""

    key: str


@dataclass(frozen=True, slots=True)
class Equals:
    """The value under ``key`` is this constant."""

    key: str
    constant: Constant


@dataclass(frozen=True, slots=True)
class Ordered(Truthy):
    """A comparison such as ``count > 0``, its text the key: decided where the count is known."""

    left: str
    operator: type[cst.BaseCompOp]
    right: float


@dataclass(frozen=True, slots=True)
class Contains(Truthy):
    """A test such as ``"cuda" in device``, its text the key: decided where the text is known."""

    of: str
    word: str

    def holds(self, value: cst.BaseExpression) -> bool | None:
        """Whether a text that is written out has the word; None where that is not known."""
        parts = _texts(value)
        if any(self.word in part for part in parts):
            return True
        return False if isinstance(literal(value), str) else None


def _texts(value: cst.BaseExpression) -> list[str]:
    """The texts of a string, or those between what an f-string puts in."""
    if isinstance(value, cst.FormattedString):
        return [each.value for each in value.parts if isinstance(each, cst.FormattedStringText)]
    known = literal(value)
    return [known] if isinstance(known, str) else []


def begins(value: cst.BaseExpression) -> str:
    """What an f-string begins with, whatever is put into it; "" of anything else."""
    first = value.parts[:1] if isinstance(value, cst.FormattedString) else ()
    return "".join(each.value for each in first if isinstance(each, cst.FormattedStringText))


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a formula."""

    part: Formula


@dataclass(frozen=True, slots=True)
class All:
    """Every part holds."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Any_:
    """At least one part holds."""

    parts: tuple[Formula, ...]


Formula = bool | Truthy | Equals | Not | All | Any_


def both(*parts: Formula) -> Formula:
    """The conjunction, without parts that say nothing."""
    flat = [p for part in parts for p in (part.parts if isinstance(part, All) else (part,))]
    kept = tuple(dict.fromkeys(part for part in flat if part is not True))
    if False in kept:
        return False
    return kept[0] if len(kept) == 1 else All(kept) if kept else True


def either(*parts: Formula) -> Formula:
    """The disjunction, without parts that cannot hold."""
    flat = [p for part in parts for p in (part.parts if isinstance(part, Any_) else (part,))]
    kept = tuple(dict.fromkeys(part for part in flat if part is not False))
    if True in kept:
        return True
    return kept[0] if len(kept) == 1 else Any_(kept) if kept else False


def opposite(part: Formula) -> Formula:
    """The negation."""
    if isinstance(part, bool):
        return not part
    return part.part if isinstance(part, Not) else Not(part)


def size(part: Formula) -> int:
    """The number of atoms, each counted as often as it occurs."""
    match part:
        case Not(inner):
            return size(inner)
        case All(parts) | Any_(parts):
            return sum(map(size, parts))
    return 1


def atoms(condition: Formula) -> set[str]:
    """The keys that a formula looks at."""
    match condition:
        case Not(part):
            return atoms(part)
        case All(parts) | Any_(parts):
            return {key for part in parts for key in atoms(part)}
        case Truthy(key) | Equals(key):
            return {key}
    return set()


def formula(
    test: cst.BaseExpression,
    key_of: KeyOf,
    constant_of: ConstantOf | None = None,
    answer_of: AnswerOf = lambda _: None,
) -> Formula:
    """The formula that a test stands for; ``constant_of`` knows named constants."""
    return _Reader(key_of, constant_of or literal, answer_of).test(test)


def matches(
    subject: cst.BaseExpression,
    pattern: cst.MatchPattern,
    key_of: KeyOf,
    constant_of: ConstantOf | None = None,
) -> Formula:
    """The formula of a ``case``: constants are equal, what is not understood is its own test."""
    match pattern:
        case cst.MatchAs(pattern=None):
            return True
        case cst.MatchAs(pattern=cst.MatchPattern() as inner):
            return matches(subject, inner, key_of, constant_of)
        case cst.MatchOr():
            each = (part.pattern for part in pattern.patterns)
            return either(*(matches(subject, inner, key_of, constant_of) for inner in each))
        case cst.MatchValue(value=value) | cst.MatchSingleton(value=value):
            found = _Reader(key_of, constant_of or literal).equals(subject, value)
            if found is not None:
                return found
    return Truthy(f"{text(subject)} matches {_SPACE.sub(' ', _EMPTY.code_for_node(pattern))}")


def captured(pattern: cst.CSTNode) -> list[cst.BaseExpression]:
    """The names that a pattern binds."""
    parts = (part for part in (pattern, *descendants(pattern)) if isinstance(part, cst.MatchAs))
    return [part.name for part in parts if part.name is not None]


@dataclass(frozen=True, slots=True)
class _Reader:
    """Makes formulas of tests, one for all the ways to write the same."""

    key_of: KeyOf
    constant_of: ConstantOf
    answer_of: AnswerOf = lambda _: None

    def test(self, test: cst.BaseExpression) -> Formula:
        value = literal(test)
        if value is not ...:
            return bool(value)
        match test:
            case cst.UnaryOperation(operator=cst.Not(), expression=inner):
                return opposite(self.test(inner))
            case cst.BooleanOperation(left=left, operator=sign, right=right):
                parts = (self.test(left), self.test(right))
                return both(*parts) if isinstance(sign, cst.And) else either(*parts)
            case cst.IfExp():
                condition = self.test(test.test)
                chosen, other = self.test(test.body), self.test(test.orelse)
                return either(both(condition, chosen), both(opposite(condition), other))
            case cst.NamedExpr(value=inner):
                return self.test(inner)
            case cst.Comparison(left=left, comparisons=targets):
                return self._chain(left, targets)
            case cst.Call(func=cst.Name(value=function), args=[cst.Arg(value=given, star="")]):
                if (found := self._asked(function, given)) is not None:
                    return found
        answer = self.answer_of(test)
        return Truthy(self.key(test)) if answer is None else answer

    def _asked(self, function: str, given: cst.BaseExpression) -> Formula | None:
        """``bool(a)``, ``len(a)``, ``all([a, b])``; None for another function."""
        if function in ("all", "any") and isinstance(given, (cst.List, cst.Tuple)):
            parts = [self.test(element.value) for element in given.elements]
            return both(*parts) if function == "all" else either(*parts)
        if function == "bool":
            return self.test(given)
        return Truthy(self.key(given)) if function == "len" else None

    def key(self, node: cst.BaseExpression) -> str:
        """The name of a value, in whatever way it is asked for; its text, if it has none."""
        if isinstance(node, cst.NamedExpr):
            return self.key(node.value)
        if isinstance(node, cst.Call):
            function = node.func
            if isinstance(function, cst.Attribute):
                method = function.attr.value
                if method in _SPELLING and not node.args:
                    return self.key(function.value)
                if method == "get" and node.args and (item := literal(node.args[0].value)) != ...:
                    return f"{self.key(function.value)}[{item!r}]"
            elif isinstance(function, cst.Name) and node.args:
                if function.value in _CONVERSIONS and len(node.args) == 1:
                    return self.key(node.args[0].value)
                if function.value == "getattr" and len(node.args) > 1:
                    name = literal(node.args[1].value)
                    if isinstance(name, str):
                        return f"{self.key(node.args[0].value)}.{name}"
        return self.key_of(node) or text(node)

    def _chain(self, left: cst.BaseExpression, targets: Sequence[cst.ComparisonTarget]) -> Formula:
        """``a < b < c`` is ``a < b and b < c``."""
        parts: list[Formula] = []
        for target in targets:
            parts.append(self._comparison(left, target.operator, target.comparator))
            left = target.comparator
        return both(*parts)

    def _comparison(
        self, left: cst.BaseExpression, sign: cst.BaseCompOp, right: cst.BaseExpression
    ) -> Formula:
        match sign:
            case cst.Equal() | cst.Is():
                return self._equal(left, right, sign)
            case cst.NotEqual():
                return opposite(self._equal(left, right, cst.Equal()))
            case cst.IsNot():
                return opposite(self._equal(left, right, cst.Is()))
            case cst.In():
                return self._member(left, right)
            case cst.NotIn():
                return opposite(self._member(left, right))
        return self._ordered(left, type(sign), right)

    def _equal(
        self, left: cst.BaseExpression, right: cst.BaseExpression, sign: cst.BaseCompOp
    ) -> Formula:
        if literal(left) is not ...:
            left, right = right, left
        if (found := self.equals(left, right)) is not None:
            return found
        return Truthy(f"{text(left)} {'==' if isinstance(sign, cst.Equal) else 'is'} {text(right)}")

    def equals(self, left: cst.BaseExpression, right: cst.BaseExpression) -> Formula | None:
        """That a value is a constant; None if the other side is none."""
        value = self.constant_of(right)
        if value is ...:
            name = _constant_name(right)
            return Equals(self.key(left), name) if name else None
        if value == 0 and _is_number(left):
            return opposite(self._number(left))
        assert value is None or isinstance(value, (bool, int, float, str, bytes))
        is_member = isinstance(left, cst.Attribute) and left.attr.value == "value"
        if is_member and isinstance(left, cst.Attribute) and isinstance(value, str) and value:
            return Equals(self.key(left.value), value)
        return Equals(self.key(left), value)

    def _number(self, node: cst.BaseExpression) -> Formula:
        """That a number is none but 0."""
        return self.test(node) if isinstance(node, cst.Call) else Truthy(self.key(node))

    def _member(self, left: cst.BaseExpression, right: cst.BaseExpression) -> Formula:
        if isinstance(right, (cst.Tuple, cst.List, cst.Set)):
            plain = [item.value for item in right.elements if isinstance(item, cst.Element)]
            if len(plain) == len(right.elements):
                return either(*(self._equal(left, value, cst.Equal()) for value in plain))
        word, key = literal(left), f"{text(left)} in {text(right)}"
        return Contains(key, self.key(right), word) if isinstance(word, str) else Truthy(key)

    def _ordered(
        self, left: cst.BaseExpression, sign: type[cst.BaseCompOp], right: cst.BaseExpression
    ) -> Formula:
        """One formula for all ways to write an order: ``a > 0``, ``0 < a``, ``not a <= 0``."""
        if literal(left) is not ... and literal(right) is ...:
            left, sign, right = right, _MIRRORED[sign], left
        positive = _OPPOSITES.get(sign, sign)
        number = literal(right)
        if not isinstance(number, (int, float)):
            ends = (left, right) if positive is cst.GreaterThan else (right, left)
            plain: Formula = Truthy(" > ".join(map(text, ends)))
        elif _is_number(left) and (number, positive) in _ANY:
            plain = self._number(left)
            return plain if sign in (cst.GreaterThan, cst.GreaterThanEqual) else opposite(plain)
        else:
            key = self.key(left)
            whole = f"{text(left)} {_SIGNS[positive]} {text(right)}"
            is_any = (number, positive) == (0, cst.GreaterThan)  # what is tested for is not below
            plain = Ordered(key if is_any else whole, key, positive, number)
        return plain if positive is sign else opposite(plain)


_SPELLING = frozenset({"lower", "upper", "strip", "casefold"})
"""Methods that only spell a word in another way."""
_CONVERSIONS = frozenset({"str", "int", "float"})
_ORDER: dict[type[cst.BaseCompOp], Callable[[float, float], bool]] = {
    cst.GreaterThan: operator.gt,
    cst.LessThan: operator.lt,
}
_SIGNS: dict[type[cst.BaseCompOp], str] = {cst.GreaterThan: ">", cst.LessThan: "<"}
_MIRRORED: dict[type[cst.BaseCompOp], type[cst.BaseCompOp]] = {
    cst.GreaterThan: cst.LessThan,
    cst.LessThan: cst.GreaterThan,
    cst.GreaterThanEqual: cst.LessThanEqual,
    cst.LessThanEqual: cst.GreaterThanEqual,
}
_OPPOSITES: dict[type[cst.BaseCompOp], type[cst.BaseCompOp]] = {
    cst.GreaterThanEqual: cst.LessThan,
    cst.LessThanEqual: cst.GreaterThan,
}
_ANY = frozenset({(0, cst.GreaterThan), (1, cst.LessThan)})
"""With what a count is compared to see whether there is anything."""


def _is_number(node: cst.BaseExpression) -> bool:
    """Whether an expression is a count or a remainder, by its form."""
    if isinstance(node, cst.Call):
        return isinstance(node.func, cst.Name) and node.func.value == "len" and len(node.args) == 1
    return isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo)


def is_constant(node: cst.BaseExpression) -> bool:
    """Whether an expression is a literal, or a constant by how it is written."""
    return literal(node) is not ... or _constant_name(node) is not None


_CONSTANT = re.compile(r"\A(?:torch\.\w+|(?:\w+\.)*[A-Z][A-Z0-9_]+)\Z")


def _constant_name(node: cst.BaseExpression) -> str | None:
    """``torch.float16``, ``Precision.FP16`` and the like are constants too, by how they look."""
    if not isinstance(node, (cst.Name, cst.Attribute)):
        return None
    name = text(node)
    return name if _CONSTANT.match(name) else None


_SPACE = re.compile(r"\s+")
_EMPTY = cst.Module([])


def item_text(index: cst.BaseExpression) -> str:
    """What stands between brackets, strings in one kind of quotes."""
    known = literal(index)
    return repr(known) if isinstance(known, str) else text(index)


@functools.lru_cache(maxsize=8192)  # paths ask for the same texts again, and to make one is slow
def text(node: cst.BaseExpression) -> str:
    """The name of last resort of an expression: its source, in one layout and with few brackets."""
    if any(getattr(part, "lpar", ()) for part in descendants(node)):
        with contextlib.suppress(SyntaxError):  # a `yield` without its brackets
            return ast.unparse(ast.parse(f"({_EMPTY.code_for_node(node)}\n)", mode="eval"))
    return one_line(node)


def one_line(node: cst.BaseExpression) -> str:
    """The source of an expression with white space made uniform."""
    return _SPACE.sub(" ", _EMPTY.code_for_node(node)).strip()


def is_mode_test(test: cst.BaseExpression) -> bool:
    """Whether a test looks at settings alone, so that it goes the same way all through a run.

    Names, attributes, constants, comparisons with constants: ``args.amp``, ``scaler is not None``,
    ``precision == "amp"``; not ``(i + 1) % k == 0``, ``step > warmup``, ``torch.isfinite(loss)``.
    """
    if isinstance(test, cst.Comparison):
        return len(test.comparisons) == 1 and isinstance(
            test.comparisons[0].operator,
            (cst.Equal, cst.NotEqual, cst.Is, cst.IsNot, cst.In, cst.NotIn),
        ) and all(map(is_mode_test, (test.left, test.comparisons[0].comparator)))  # fmt: skip
    if isinstance(test, cst.Call):
        if text(test.func) == "bool" and len(test.args) == 1:
            return is_mode_test(test.args[0].value)
        name = text(test.func).rpartition(".")[2]
        return name in SETTINGS
    if isinstance(test, cst.Subscript):
        return is_mode_test(test.value)
    if isinstance(test, (cst.BinaryOperation, cst.Await, cst.GeneratorExp, cst.ListComp)):
        return False
    if isinstance(test, (cst.Name, cst.SimpleString, cst.Integer, cst.Float)):
        return True
    return all(is_mode_test(c) for c in children(test) if isinstance(c, cst.BaseExpression))


@dataclass(frozen=True, slots=True)
class Fact:
    """What is known of one value."""

    known: bool = False
    constant: Constant = None
    excluded: frozenset[Constant] = frozenset()
    truthy: bool | None = None

    def equals(self, constant: Constant, truth: bool) -> Fact | None:
        """This fact and "it is ``constant``" (or "is not"); None if they contradict."""
        if self.known:
            return self if (self.constant == constant) is truth else None
        if not truth:
            return Fact(self.known, self.constant, self.excluded | {constant}, self.truthy)
        if constant in self.excluded or self.truthy not in (None, bool(constant)):
            return None
        return Fact(True, constant, self.excluded, bool(constant))

    def is_truthy(self, truth: bool) -> Fact | None:
        """This fact and "it counts as true" (or "as false"); None if they contradict."""
        if self.truthy is not None:
            return self if self.truthy is truth else None
        if not truth and {None, False} <= self.excluded:
            return None
        return Fact(self.known, self.constant, self.excluded, truth)

    @property
    def is_odd(self) -> bool:
        """Whether the value is there by one test and empty by another.

        ``if clip is not None`` and ``if clip`` mean the same to those who write both: nobody
        clips to 0. Which empty value it is may be told: ``rank is not None and rank == 0``.
        """
        if self.known or self.truthy is None:
            return False
        if self.truthy:
            return any(each is True for each in self.excluded)
        return not _ABSENT.isdisjoint(self.excluded)


_ABSENT: frozenset[Constant] = frozenset({None, False, ""})


@dataclass(frozen=True, slots=True)
class Facts:
    """What a path knows, by key. Immutable."""

    by_key: dict[str, Fact] = field(default_factory=dict)
    _signature: frozenset[tuple[str, Fact]] | None = field(
        default=None, init=False, repr=False, compare=False
    )
    _keys: str | None = field(default=None, init=False, repr=False, compare=False)
    """All keys in one text, to look for a name in all of them at once."""

    def assume(self, condition: Formula, truth: bool = True) -> list[Facts]:
        """The ways in which ``condition`` can be true (or false) here; [] if it cannot."""
        ways = self._ways(condition, truth)
        ways = [way for way in ways if way is self or not self._is_odd(way)]
        return [way for way in ways if not self._adds_oddness(way)] or ways

    def allows(self, *conditions: Formula) -> bool:
        """Whether some conditions can all hold here.

        As `assume` of them all, which works out each way: this stops at the first, and leaves
        out of the conditions what the tests that it has gone through say.
        """
        plain = [
            p for each in conditions for p in (each.parts if isinstance(each, All) else (each,))
        ]
        left = [each for part in plain if (each := self._left(part)) is not True]
        if False in left or not left:
            return not left
        atom = _an_atom(min(left, key=size))
        ways = (way for truth in (True, False) for way in self._ways(atom, truth))
        return any(way.allows(*left) for way in ways)

    def _left(self, condition: Formula) -> Formula:
        """What is open of a condition."""
        match condition:
            case bool():
                return condition
            case Not(part):
                return opposite(self._left(part))
            case All(parts) | Any_(parts):
                decides = isinstance(condition, Any_)
                kept: list[Formula] = []
                for part in parts:
                    left = self._left(part)
                    if left is decides:
                        return decides
                    kept += [] if isinstance(left, bool) else [left]
                return type(condition)(tuple(kept)) if kept else not decides
        if condition.key not in self.by_key and not isinstance(condition, Ordered):
            return condition
        may = [truth for truth in (True, False) if self._ways(condition, truth)]
        return condition if len(may) > 1 else may[0]

    def _is_odd(self, way: Facts) -> bool:
        """Whether a value turns out odd that was tested before."""
        both = zip(self.by_key.values(), way.by_key.values(), strict=False)  # what is new is last
        changed = [(before, after) for before, after in both if after is not before]
        return any(after.is_odd and not before.is_odd for before, after in changed)

    def _adds_oddness(self, way: Facts) -> bool:
        new = itertools.islice(way.by_key.values(), len(self.by_key), None)
        return any(fact.is_odd for fact in new)

    def _ways(self, condition: Formula, truth: bool) -> list[Facts]:
        match condition:
            case bool():
                return [self] if condition is truth else []
            case Not(part):
                return self._ways(part, not truth)
            case Ordered(_, left, sign, right) if (known := self._number(left)) is not None:
                return [self] if _ORDER[sign](known, right) is truth else []
            case Truthy(key):
                return self._with(key, self.by_key.get(key, Fact()).is_truthy(truth))
            case Equals(key, constant):
                return self._with(key, self.by_key.get(key, Fact()).equals(constant, truth))
            case All(parts):
                return self._every(parts) if truth else self._some(parts, truth=False)
            case Any_(parts):
                return self._some(parts, truth=True) if truth else self._none(parts)

    def _number(self, key: str) -> float | None:
        """The number that a value is known to be."""
        fact = self.by_key.get(key)
        constant = fact.constant if fact is not None and fact.known else None
        return constant if isinstance(constant, (int, float)) else None

    def _every(self, parts: Iterable[Formula]) -> list[Facts]:
        ways = [self]
        for part in parts:
            ways = [more for way in ways for more in way._ways(part, True)][:MAX_ALTERNATIVES]
        return ways

    def _none(self, parts: Iterable[Formula]) -> list[Facts]:
        return self._every(tuple(Not(part) for part in parts))

    def _some(self, parts: Iterable[Formula], *, truth: bool) -> list[Facts]:
        """One part is ``truth``, those before it are not: ways that exclude each other."""
        ways: list[Facts] = []
        rest = [self]
        for part in parts:
            ways += [more for way in rest for more in way._ways(part, truth)]
            rest = [more for way in rest for more in way._ways(part, not truth)]
        return ways[:MAX_ALTERNATIVES]

    def _with(self, key: str, fact: Fact | None) -> list[Facts]:
        return [] if fact is None else [Facts({**self.by_key, key: fact})]

    def forget(self, keys: Iterable[str]) -> Facts:
        """Without what was known of the values that an assignment to ``keys`` changes."""
        if not self.by_key:
            return self
        if self._keys is None:
            object.__setattr__(self, "_keys", "\n".join(self.by_key))
        assert self._keys is not None
        names = [key for key in keys if key and key in self._keys]
        if not names:
            return self
        kept = {
            key: fact
            for key, fact in self.by_key.items()
            if not any(name in key and mentions(key, name) for name in names)
        }
        return self if len(kept) == len(self.by_key) else Facts(kept)

    def signature(self) -> frozenset[tuple[str, Fact]]:
        """Equal for equal knowledge; worked out once, for paths are compared at every statement."""
        if self._signature is None:
            object.__setattr__(self, "_signature", frozenset(self.by_key.items()))
        assert self._signature is not None
        return self._signature


def _an_atom(condition: Formula) -> Formula:
    """The first test in a formula that is none of others."""
    while isinstance(condition, (Not, All, Any_)):
        condition = condition.part if isinstance(condition, Not) else condition.parts[0]
    return condition


def mentions(key: str, name: str) -> bool:
    """Whether ``name`` stands in a key as a whole name, and not as an attribute of another."""
    at = key.find(name)
    while at >= 0:
        end = at + len(name)
        if not _is_word(key[end : end + 1]) and not _is_word(key[at - 1 : at] if at else "", "."):
            return True
        at = key.find(name, at + 1)
    return False


def _is_word(char: str, also: str = "_") -> bool:
    return char.isalnum() or (char != "" and char in "_" + also)
