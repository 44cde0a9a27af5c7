"""What a path knows about the values its tests looked at.

Two tests of the same unassigned expression agree on a path: after ``if use_amp:`` a second
``if use_amp:`` has one way to go, ``if scaler is None:`` none that uses the scaler. Tests become
formulas over *keys*, texts that name a value (``self.scaler``, ``args.precision``).
"""

from __future__ import annotations

import ast
import contextlib
import functools
import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import libcst as cst

from amp_lint.flow.values import literal
from amp_lint.syntax.tree import children, descendants
from amp_lint.vocabulary.purity import SETTINGS

MAX_ALTERNATIVES = 8
"""Ways to satisfy one formula that are told apart."""

Constant = bool | int | float | str | bytes | None
KeyOf = Callable[[cst.BaseExpression], str | None]
"""Names the value of an expression; None where the expression has no name."""


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


def formula(test: cst.BaseExpression, key_of: KeyOf) -> Formula:
    """The formula that a test stands for."""
    value = literal(test)
    if value is not ...:
        return bool(value)
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return opposite(formula(test.expression, key_of))
    if isinstance(test, cst.BooleanOperation):
        parts = (formula(test.left, key_of), formula(test.right, key_of))
        return both(*parts) if isinstance(test.operator, cst.And) else either(*parts)
    if isinstance(test, cst.IfExp):
        condition = formula(test.test, key_of)
        chosen, other = formula(test.body, key_of), formula(test.orelse, key_of)
        return either(both(condition, chosen), both(opposite(condition), other))
    if isinstance(test, cst.NamedExpr):
        return formula(test.value, key_of)
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        return _comparison(test, key_of)
    if _is_bool_call(test):
        assert isinstance(test, cst.Call)
        return formula(test.args[0].value, key_of)
    return Truthy(key_of(test) or text(test))


def matches(subject: cst.BaseExpression, pattern: cst.MatchPattern, key_of: KeyOf) -> Formula:
    """The formula of a ``case``: constants are equal, what is not understood is its own test."""
    match pattern:
        case cst.MatchAs(pattern=None):
            return True
        case cst.MatchAs(pattern=cst.MatchPattern() as inner):
            return matches(subject, inner, key_of)
        case cst.MatchOr():
            parts = (matches(subject, each.pattern, key_of) for each in pattern.patterns)
            return either(*parts)
        case cst.MatchValue(value=value) | cst.MatchSingleton(value=value):
            found = _equals(key_of(subject) or text(subject), value)
            if found is not None:
                return found
    return Truthy(f"{text(subject)} matches {_SPACE.sub(' ', _EMPTY.code_for_node(pattern))}")


def captured(pattern: cst.CSTNode) -> list[cst.BaseExpression]:
    """The names that a pattern binds."""
    parts = (part for part in (pattern, *descendants(pattern)) if isinstance(part, cst.MatchAs))
    return [part.name for part in parts if part.name is not None]


def _is_bool_call(test: cst.BaseExpression) -> bool:
    return (
        isinstance(test, cst.Call)
        and isinstance(test.func, cst.Name)
        and test.func.value == "bool"
        and len(test.args) == 1
    )


def _comparison(test: cst.Comparison, key_of: KeyOf) -> Formula:
    left, target = test.left, test.comparisons[0]
    if literal(left) is not ...:
        left, right = target.comparator, left
    else:
        right = target.comparator
    key = key_of(left) or text(left)
    match target.operator:
        case cst.Equal() | cst.Is():
            return _equals(key, right) or Truthy(text(test))
        case cst.NotEqual() | cst.IsNot():
            return Not(_equals(key, right) or Truthy(_positive_text(test)))
        case cst.In():
            return _member(key, right) or Truthy(text(test))
        case cst.NotIn():
            return Not(_member(key, right) or Truthy(_positive_text(test)))
    return _ordered(test, key_of)


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


def _ordered(test: cst.Comparison, key_of: KeyOf) -> Formula:
    """One formula for all ways to write an order: ``a > 0``, ``0 < a``, ``not a <= 0``."""
    target = test.comparisons[0]
    left, sign, right = test.left, type(target.operator), target.comparator
    is_turned = literal(left) is not ... and literal(right) is ...
    if sign not in _MIRRORED:
        return Truthy(text(test))
    if is_turned:
        left, sign, right = right, _MIRRORED[sign], left
    positive = _OPPOSITES.get(sign, sign)
    number = literal(right)
    if isinstance(number, (int, float)):
        key = f"{text(left)} {_SIGNS[positive]} {text(right)}"
        plain: Formula = Ordered(key, key_of(left) or text(left), positive, number)
    else:
        ends = (left, right) if positive is cst.GreaterThan else (right, left)
        plain = Truthy(" > ".join(map(text, ends)))
    return plain if positive is sign else Not(plain)


def _equals(key: str, node: cst.BaseExpression) -> Formula | None:
    value = literal(node)
    if value is ...:
        name = _constant_name(node)
        return Equals(key, name) if name else None
    assert value is None or isinstance(value, (bool, int, float, str, bytes))
    return Equals(key, value)


def _constant_name(node: cst.BaseExpression) -> str | None:
    """``torch.float16`` and the like are constants too: attributes of a module named torch."""
    name = text(node)
    return name if name.startswith("torch.") and name.count(".") == 1 else None


def _member(key: str, node: cst.BaseExpression) -> Formula | None:
    if not isinstance(node, (cst.Tuple, cst.List, cst.Set)):
        return None
    parts = [_equals(key, item.value) for item in node.elements]
    return Any_(tuple(p for p in parts if p is not None)) if None not in parts else None


def _positive_text(test: cst.Comparison) -> str:
    operator = {cst.NotEqual: "==", cst.IsNot: "is", cst.NotIn: "in"}
    target = test.comparisons[0]
    sign = operator[type(target.operator)]
    return f"{text(test.left)} {sign} {text(target.comparator)}"


_SPACE = re.compile(r"\s+")
_EMPTY = cst.Module([])


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
        if _is_bool_call(test):
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
            return replace(self, excluded=self.excluded | {constant})
        if constant in self.excluded or self.truthy not in (None, bool(constant)):
            return None
        return Fact(True, constant, self.excluded, bool(constant))

    def is_truthy(self, truth: bool) -> Fact | None:
        """This fact and "it counts as true" (or "as false"); None if they contradict."""
        if self.truthy is not None:
            return self if self.truthy is truth else None
        if not truth and {None, False} <= self.excluded:
            return None
        return replace(self, truthy=truth)


@dataclass(frozen=True, slots=True)
class Facts:
    """What a path knows, by key. Immutable."""

    by_key: dict[str, Fact] = field(default_factory=dict)
    _signature: frozenset[tuple[str, Fact]] | None = field(
        default=None, init=False, repr=False, compare=False
    )

    def assume(self, condition: Formula, truth: bool = True) -> list[Facts]:
        """The ways in which ``condition`` can be true (or false) here; [] if it cannot."""
        match condition:
            case bool():
                return [self] if condition is truth else []
            case Not(part):
                return self.assume(part, not truth)
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
            ways = [more for way in ways for more in way.assume(part)][:MAX_ALTERNATIVES]
        return ways

    def _none(self, parts: Iterable[Formula]) -> list[Facts]:
        return self._every(tuple(Not(part) for part in parts))

    def _some(self, parts: Iterable[Formula], *, truth: bool) -> list[Facts]:
        """One part is ``truth``, those before it are not: ways that exclude each other."""
        ways: list[Facts] = []
        rest = [self]
        for part in parts:
            ways += [more for way in rest for more in way.assume(part, truth)]
            rest = [more for way in rest for more in way.assume(part, not truth)]
        return ways[:MAX_ALTERNATIVES]

    def _with(self, key: str, fact: Fact | None) -> list[Facts]:
        return [] if fact is None else [Facts({**self.by_key, key: fact})]

    def forget(self, keys: Iterable[str]) -> Facts:
        """Without what was known of the values that an assignment to ``keys`` changes."""
        names = [key for key in keys if key]
        if not names or not self.by_key:
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
