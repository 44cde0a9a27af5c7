"""Rules that are pairs: an expression that fails, and what computes the same without failing."""

from __future__ import annotations

import ast
import contextlib
import functools
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from amp_lint._lazy import cst
from amp_lint.rule import Rule
from amp_lint.syntax.excerpts import excerpts
from amp_lint.syntax.facts import operands
from amp_lint.text.diagnostic import Applicability, Diagnostic, Fix, Severity
from amp_lint.vocabulary.expressions import BETWEEN, CLASSES, Apply, Pair, parsed, stages, words
from amp_lint.vocabulary.operations import HOLDERS
from amp_lint.vocabulary.written import NO_TEXT, Look, pattern

from ._differentiated import is_never_differentiated
from ._fuse import last_name

if TYPE_CHECKING:
    from amp_lint.amp.operations import Operation
    from amp_lint.amp.patterns import Match
    from amp_lint.model import Model
    from amp_lint.syntax.facts import Definition, Facts
    from amp_lint.syntax.names import Binding


_DIM_NAME = re.compile(r"(^|_|\.)(dim|axis)(_|$|\d)", re.IGNORECASE)
_SMALL = 8.0
"""No exponential of a number below that overflows float16, and no probability rounds to 0 or 1."""
_OF_ONE_NUMBER: dict[str, Callable[[float], float]] = {
    f"math.{each.__name__}": each for each in (math.exp, math.log, math.log2, math.sqrt)
}
"""Functions that tests write numbers with."""
_OF_NUMBERS = (r"\bmath\.", r"\bnp\.", r"\bnumpy\.", r"\w")
"""What stands before the name of a function that is not torch's."""
_OF_VALUES = r"[ \t]*(?:[-+*/%]|=(?!=)|\.[ \t]*[^\W\d])"
"""What stands behind a name that is no function's: of a number, a parameter, a logger."""
_GROUP = r"\((?:[^()'\"]|\([^()'\"]*\))*\)"
_OPERAND = rf"(?:[\w.]+(?:{_GROUP})?|{_GROUP})"
_NUMBER = r"\d[\w.]*"
_COMPUTED = {
    ("neg",): rf"-\s*{_OPERAND}",
    ("rdiv", "rsub"): rf"{_NUMBER}\s*[-/]\s*{_OPERAND}",
    ("mul", "pow", "square", "sqrt"): rf"{_NUMBER}(?:\s*\*\*?\s*{_OPERAND})+",
    ("div", "mul", "pow", "square", "sqrt", "sub"): (
        rf"(?!\d){_OPERAND}(?:\s*(?:[-/]|\*\*?)\s*{_OPERAND})+"
    ),
}
"""Operations -> all that a function is given, where that is the result of one of them."""


class PatternRule(Rule):
    """Reports the first expression of each of its pairs, and writes the second one instead."""

    severity = Severity.ERROR
    fixes: ClassVar[tuple[Applicability, ...]] = (Applicability.SAFE, Applicability.UNSAFE)
    pairs: ClassVar[tuple[Pair, ...]]
    message: ClassVar[str]
    floored: ClassVar[str] = ""
    """The message where an eps or a clamp hides what happens."""
    inner: ClassVar[str] = ""
    """What the first operation is called, for the place where it stands."""
    help: ClassVar[str]
    harmless: ClassVar[float] = 0.0
    """How far from 0 all that it is made of may be, for it to be right in float16."""
    of_gradients: ClassVar[bool] = False
    """Whether it may do no harm where no gradient goes through it."""
    enters: ClassVar[bool] = False
    """Whether the first operation may be that of a module or function that is called."""
    _last: ClassVar[frozenset[str]]
    _first: ClassVar[frozenset[str]]

    def __init_subclass__(cls) -> None:
        """Derive from the pairs which identifiers a file must have, and what limits numbers."""
        cls.limited_by_models = cls.harmless > 0
        shapes = [parsed(pair.before) for pair in cls.pairs]
        cls._last = _any_word(shape.name for shape in shapes)
        cls._first = _any_word([n for n in shape.along() if n != "neg"][-1] for shape in shapes)
        shared = set.intersection(*({*shape.names()} for shape in shapes))
        groups = [cls._last, cls._first, *map(words, sorted(shared)), frozenset({"torch"})]
        cls.requires = tuple(dict.fromkeys(filter(None, groups)))
        if cls._last:
            sure = [parsed(pair.before) for pair in cls.pairs if pair.sure]
            cls.pattern = _calling(cls._last, shapes)
            cls.pattern_unless_preview = _calling(cls._last, sure) if sure != shapes else None

    def may_in(self, code: bytes, *, preview: bool) -> bool:
        """As far as the functions say in which the last operation is called."""
        looks = self.looks(preview=preview)
        functions = excerpts(code, looks[-1]) if looks and not self._is_of_modules else None
        may = self.may if preview else self.may_unless_preview
        return functions is None or any(map(may, functions))

    def may(self, facts: Facts) -> bool:
        """Whether something that may be the last operation is made of the first one."""
        return self._may(facts, self.pairs)

    def may_unless_preview(self, facts: Facts) -> bool:
        """The same of the pairs that are not reported in preview alone."""
        return self._may(facts, [pair for pair in self.pairs if pair.sure])

    def _may(self, facts: Facts, pairs: Iterable[Pair]) -> bool:
        last = self._last or frozenset({"sum"})
        ways = [way for pair in pairs for way in stages(pair, last)]
        if self._is_of_modules:  # a call of a call has no name
            ways = [way[1:] for way in ways]
        return any(
            facts.leads(value, way, BETWEEN, entering=self.enters)
            for name, calls in facts.calls.items()
            for call in self._candidates(facts, name, calls)
            for value in (call, *self._given(facts, name, call))
            for way in ways
        )

    @property
    def _is_of_modules(self) -> bool:
        """Whether modules do what the last operation does."""
        return not self._last.isdisjoint(CLASSES.values())

    def _given(self, facts: Facts, name: str, call: ast.Call) -> Iterable[ast.expr]:
        """What a call is given that may be one of a module, or of the function that does the same.

        What is a parameter there may be made in another file.
        """
        is_module = self.enters and self._is_of_modules
        return operands(call) if is_module and facts.may_be(name, self._last) else ()

    def _candidates(self, facts: Facts, name: str, calls: list[ast.Call]) -> Iterable[ast.Call]:
        """Those of the calls of one name that may be the last operation."""
        if self._is_of_modules:
            return calls
        last = self._last or {"sum"}
        if not any(word in name.lower() for word in last) or not facts.may_be(name, last):
            return ()
        if name in last or name in facts.values or facts.is_linked(name):
            return [call for call in calls if not _is_of_numbers(facts, call.func)]
        is_helper = any(map(_is_one_return, facts.functions.get(name, ())))
        return [call for call in calls if is_helper and isinstance(call.func, ast.Name)]

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Compare every expression that may be one of a pair."""
        from ._rewrite import fix

        found = [*self._matches(model)]
        called = {id(step.node) for match in found for step in match.steps if step.elsewhere}
        for match in found:
            if id(match.node) in called:
                continue  # it is reported where its function is called
            floored = any(map(model.patterns.is_floor, match.between))
            message = self.floored if floored and self.floored else self.message
            last = match.steps[-1]
            apart = last.elsewhere or bool(match.hops)
            related = [(last.node, self.inner)] if apart and self.inner else []
            offered = self._offered(fix(model, match))
            said = self.report(model, match.node, message, related, offered, help=self.help)
            said = self.adjusted(model, match, said)
            yield replace(said, preview=True) if self._is_unsure(model, match) else said

    def _is_unsure(self, model: Model, match: Match) -> bool:
        if match.chosen or not match.pair.sure:
            return True
        return self.of_gradients and is_never_differentiated(model, match.node)

    def _matches(self, model: Model) -> Iterator[Match]:
        """The places that are wrong, each once."""
        from amp_lint.amp.patterns import places

        seen: set[int] = set()
        for pair in self.pairs:
            for node in places(model.operations, parsed(pair.before).name):
                if id(node) in seen:
                    continue
                match = model.patterns.match(pair, node, entering=self.enters)
                if match is None or self.is_right(model, match):
                    continue
                if not all(step.elsewhere for step in match.steps):
                    seen.add(id(node))
                    yield match  # else it is found in the function that is called

    def adjusted(self, model: Model, match: Match, found: Diagnostic) -> Diagnostic:
        """What to say of a place where it is not as bad as elsewhere."""
        return found

    def _offered(self, found: Fix | None) -> Fix | None:
        """A fix, if the rule offers fixes of its kind, or shows those that it does not."""
        if found is None or found.applicability in self.fixes:
            return found
        shown = replace(found, applicability=Applicability.SUGGEST)
        return shown if shown.applicability in self.fixes else None

    def is_right(self, model: Model, match: Match) -> bool:
        """Whether a place is right as it stands, for a reason that the pair does not show."""
        return (
            _is_bounded_entropy(model, match)
            or _is_written_out(model, match)
            or self._is_near_zero(model, match)
        )

    def _is_near_zero(self, model: Model, match: Match) -> bool:
        """Whether nothing that it is made of is so far from 0 that it matters."""
        if not self.harmless or not match.bound:
            return False
        return all(model.bounds.largest(node) <= self.harmless for node in match.bound.values())


def holds(model: Model, floors: Iterable[Operation]) -> bool:
    """Whether a floor is no 0, as float16 has it, or what it is under is certainly no float16."""
    return any(not model.patterns.vanishes(each) or _is_never_half(model, each) for each in floors)


def may_be_half(model: Model, floor: Operation) -> bool:
    """Whether some run is known in which what a floor is under is float16."""
    return any(run.of(floor.node).may_be("float16") for run in model.dtypes.runs(floor.node))


def is_wide(model: Model, floor: Operation) -> bool:
    """Whether autocast, if it ran the file, would give what a floor is under in float32."""
    runs = model.supposed.runs(floor.node) if model.supposed is not None else ()
    found = [run.of(floor.node) for run in runs if run.ambient.supposed]
    return bool(found) and all(each.is_known and not each.low for each in found)


def _is_never_half(model: Model, floor: Operation) -> bool:
    known = [run.of(floor.node) for run in model.dtypes.runs(floor.node)]
    return bool(known) and all(each.is_known and not each.may_be("float16") for each in known)


_SHIFTS = frozenset({"abs", "amax", "clamp", "clip", "cummax", "logcumsumexp", "logsigmoid",
                     "logsumexp", "log_softmax", "max", "maximum", "minimum"})  # fmt: skip
"""What takes the largest exponent away, or keeps it small."""


def is_shifted(model: Model, match: Match) -> bool:
    """Whether exponents may be kept from growing: ``x - x.max()``, ``-x.abs()``, a clamp."""
    mentions = model.patterns.mentions
    return any(mentions(node, _SHIFTS) for node in match.bound.values()) or _is_chosen(model, match)


def _is_chosen(model: Model, match: Match) -> bool:
    """Whether ``where`` may take something else in the place of a result."""
    tree, flow = model.tree, model.flow
    line = tree.statement(match.node)
    made = [b for b in model.names.every_binding() if tree.statement(b.node) is line]
    uses = [match.node, *(name for binding in made for name in flow.readers(binding))]
    holders = (holder for use in uses for holder in tree.ancestors(use))
    calls = (holder for holder in holders if isinstance(holder, cst.Call))
    return any(getattr(last_name(call.func), "value", "") == "where" for call in calls)


def _is_bounded_entropy(model: Model, match: Match) -> bool:
    """``p * log(p + eps)`` is right to within eps, however small ``p`` is."""
    floors = [step for step in match.between if model.patterns.is_floor(step)]
    weights: list[Binding | str] = [through.binding for through in match.hops]
    weights += [model.tree.source(step.node) for step in match.steps[1:] if not step.elsewhere]
    weighted = model.operations.weighted_by
    return bool(floors) and any(weighted(match.node, weight) for weight in weights)


def _is_written_out(model: Model, match: Match) -> bool:
    """Whether it is computed of small numbers that are written out, as in tests: none overflows."""
    values = [v for node in match.bound.values() for v in model.values.alternatives(node)]
    return bool(values) and all(_is_small(model, value) for value in values)


def _is_small(model: Model, value: cst.BaseExpression) -> bool:
    if not isinstance(value, cst.Call) or not model.names.is_any(value.func, HOLDERS):
        return False
    return bool(value.args) and _are_small(model, value.args[0].value)


def _are_small(model: Model, node: cst.BaseExpression) -> bool:
    """Whether an expression is a small number, or a list of such."""
    if isinstance(node, (cst.List, cst.Tuple)):
        return bool(node.elements) and all(_are_small(model, each.value) for each in node.elements)
    number = _number(model, node)
    return number is not None and abs(number) < _SMALL


def _number(model: Model, node: cst.BaseExpression) -> float | None:
    """A number that is written, or what a function of ``math`` gives of one."""
    from amp_lint.flow.values import literal

    value = literal(node)
    if isinstance(value, (int, float)):
        return value
    if not isinstance(node, cst.Call) or len(node.args) != 1:
        return None
    given = _number(model, node.args[0].value)
    names = model.names.qualified(node.func)
    function = next((_OF_ONE_NUMBER[name] for name in names if name in _OF_ONE_NUMBER), None)
    if function is None or given is None:
        return None
    with contextlib.suppress(ArithmeticError, ValueError):
        return function(given)
    return None


def _any_word(names: Iterable[str]) -> frozenset[str]:
    """The identifiers of which a file has one where it has one of some operations."""
    found = [words(name) for name in names]
    return frozenset().union(*found) if all(found) else frozenset()


def _is_one_return(function: Definition) -> bool:
    """Whether a function consists of one ``return``: else what it does is found in itself."""
    lines = (line for line in function.body if not _is_constant(line))
    return [*map(type, lines)] == [ast.Return]


def _is_of_numbers(facts: Facts, function: ast.expr) -> bool:
    """Whether a function is Python's or NumPy's own."""
    holder = getattr(function, "value", None)
    return isinstance(holder, ast.Name) and facts.imported.get(holder.id) in ("math", "numpy")


def _is_constant(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)


def _calling(last: Set[str], shapes: Sequence[Apply]) -> Look:
    """How some operations are written where they are the last ones of expressions."""
    looks = (_of_tensors(word, _second(shapes, word)) for word in sorted(last))
    return functools.reduce(operator.or_, looks)


def _second(shapes: Iterable[Apply], word: str) -> Set[str]:
    """The operations whose result the last one may be given where it is called so."""
    spines = [shape.along() for shape in shapes if word in words(shape.name)]
    return {name for spine in spines for name in spine[1:2]}


def _of_tensors(word: str, given: Set[str]) -> Look:
    """The name of a function, where it is not of Python's or NumPy's numbers, nor that of a value.

    It begins with plain letters, which `re` looks for quickly. What it is given is not the result
    of an operator, but for those that are ``given`` and for sums.
    """
    others = "".join(f"(?<!{before}{re.escape(word)})" for before in _OF_NUMBERS)
    idle = [text for names, text in _COMPUTED.items() if given.isdisjoint(names)]
    plain = rf"(?!\(\s*(?:{'|'.join(idle)})\s*\))" if idle else ""
    return pattern(rf"{re.escape(word)}{others}(?!\w)(?!{_OF_VALUES}){plain}{NO_TEXT}", word)


def is_over_dim(model: Model, step: Operation) -> bool:
    """Whether it is torch's: a method's argument must be a dimension, and nothing is ``out=``."""
    dim = step.args.get(0, "dim")
    if step.form.name != "METHOD" or "dim" in step.args.keywords:
        return True
    return dim is not None and (
        all(isinstance(value, int) for value in model.values.constants(dim))
        or bool(_DIM_NAME.search(model.tree.source(dim)))
    )
