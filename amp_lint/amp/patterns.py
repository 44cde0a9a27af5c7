"""Where code computes an expression that is known to fail, in whatever spelling."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field, replace

import libcst as cst

from amp_lint.amp.operations import Form, Operation, Operations, Through
from amp_lint.flow.values import Arguments, literal
from amp_lint.syntax.tree import descendants
from amp_lint.vocabulary.expressions import (
    CASTS,
    CLASSES,
    FLOORS,
    RENAMED,
    SELECTS,
    SETTINGS,
    Apply,
    Pair,
    parsed,
    words,
)
from amp_lint.vocabulary.operations import VANISHING

_LARGEST_EPS = 1e-3
_MODULE = frozenset({"torch.nn.Module"})
_EPS_NAME = re.compile(r"(^|_|\.)(eps|epsilon|tiny|smallest_normal)(_|$|\d)", re.IGNORECASE)
_SHARED_NAMES = frozenset({"add", "clamp", "dot", "flatten", "getitem", "max", "mean", "min",
                           "reshape", "squeeze", "sum", "transpose", "view"})  # fmt: skip
"""Methods that arrays have as well as tensors."""


@dataclass(slots=True)
class Match:
    """One place that computes what a pair calls wrong."""

    pair: Pair
    node: cst.BaseExpression
    steps: list[Operation] = field(default_factory=list)
    """The operations from the last one to the first one, those in between included."""
    parts: dict[str, list[Operation]] = field(default_factory=dict)
    """Those of the pattern, by name."""
    bound: dict[str, cst.BaseExpression] = field(default_factory=dict)
    """What the variables stand for."""
    between: list[Operation] = field(default_factory=list)
    """Casts, floors, and what rearranges or picks elements, in the order of the steps."""
    sides: list[Operation] = field(default_factory=list)
    """The operations of other operands."""
    entering: bool = False
    """Whether functions that are called are entered."""
    chosen: bool = False
    """Whether it is so of one of several values: those that a condition or a label chooses from,
    that calls give, or that a setting may have."""
    reduced: Operation | None = None
    """The one whose settings are ``*settings``, or the only one that has some."""

    @property
    def all(self) -> list[Operation]:
        """All operations."""
        return [*self.steps, *self.sides]

    @property
    def hops(self) -> list[Through]:
        """The local names through which values were followed."""
        return [through for step in self.all for through in step.via]


class Patterns:
    """Compares the code of one file with patterns."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations
        self._tree = operations.tree
        self._values = operations.values

    def match(
        self, pair: Pair, node: cst.BaseExpression, *, entering: bool = False
    ) -> Match | None:
        """How an expression is what a pair calls wrong, if it is.

        Also where the first operations are those of a function, method or module that is called,
        if ``entering``.
        """
        match = Match(pair, node, entering=entering)
        steps = self._along(parsed(pair.before), node, match, match.steps)
        of_tensors = steps and (_is_of_torch(match) or self._is_in_forward(node))
        return match if of_tensors else None

    def is_floor(self, step: Operation) -> bool:
        """Whether an operation keeps a value from 0: ``+ eps``, ``.clamp(min=eps)``."""
        lower = step.args.get(0, "min")
        return step.name in FLOORS and lower is not None and self._is_small(lower)

    def vanishes(self, floor: Operation) -> bool:
        """Whether a floor is 0 in float16, as far as is known."""
        lower = floor.args.get(0, "min")
        values = self._values.usual(lower) if lower is not None else ()
        return not any(isinstance(value, float) and value > VANISHING for value in values)

    def _is_small(self, node: cst.BaseExpression) -> bool:
        values = self._values.usual(node)
        if all(isinstance(value, float) for value in values):
            return all(0 < value <= _LARGEST_EPS for value in values if isinstance(value, float))
        return bool(_EPS_NAME.search(self._tree.linked.source(node)))

    def _is_in_forward(self, node: cst.BaseExpression) -> bool:
        """Whether it stands in the ``forward`` of a module, which computes with tensors."""
        function = self._tree.linked.ancestor(node, cst.FunctionDef)
        owner = self._values.enclosing_class(node)
        if function is None or function.name.value != "forward" or owner is None:
            return False
        bases = [base.value for each in self._values.lineage(owner) for base in each.bases]
        return any(self.operations.names.is_any(base, _MODULE) for base in bases)

    # --- the comparison -----------------------------------------------------------------------

    def _along(
        self, pattern: Apply, node: cst.BaseExpression, match: Match, steps: list[Operation]
    ) -> bool:
        """Whether a value is what a pattern says; ``steps`` gets the operations that made it."""
        wanted = [*pattern.spine()]
        for step in self.operations.chain(node, entering=match.entering):
            steps.append(step)
            if step.name == wanted[0].name and self._is_part(wanted[0], step, match):
                if len(wanted) == 1:
                    return self._bind(wanted[0].input, step.input, match)
                wanted = wanted[1:]
            elif match.node is step.node:
                return False
            elif match.entering and (choices := self.operations.opposites(step)):
                return self._of_one(wanted[0], choices, match, steps)
            elif not self._is_between(step, match):
                return False
            if match.entering and not match.chosen and (given := self.operations.given(step.input)):
                return self._of_given(wanted[0], step.input, given, match, steps)
        return False

    def _of_given(
        self,
        pattern: Apply,
        parameter: cst.BaseExpression | None,
        given: Sequence[cst.BaseExpression],
        match: Match,
        steps: list[Operation],
    ) -> bool:
        """The same as `_of_one`, of what calls give for a parameter, through which it comes."""
        at = len(steps)
        binding = self.operations.flow.certain(parameter) if parameter is not None else None
        if not self._of_one(pattern, given, match, steps):
            return False
        if isinstance(parameter, cst.Name) and binding is not None and at < len(steps):
            through = Through(parameter, binding)
            steps[at] = replace(steps[at], via=(through, *steps[at].via))
        return True

    def _of_one(
        self,
        pattern: Apply,
        choices: Sequence[cst.BaseExpression],
        match: Match,
        steps: list[Operation],
    ) -> bool:
        """Whether one of several values is what a pattern says; ``match`` gets what is of it."""
        for choice in choices:
            tried = replace(match, bound={**match.bound}, between=[*match.between], chosen=True)
            rest: list[Operation] = []
            if self._along(pattern, choice, tried, rest):
                match.bound, match.between, match.chosen = tried.bound, tried.between, True
                steps += rest
                return True
        return False

    def _is_between(self, step: Operation, match: Match) -> bool:
        if step.name in SELECTS | CASTS or self.is_floor(step):
            match.between.append(step)
            return True
        if step.name == "add" and self._is_idle(step.args.get(0, "other")):
            match.chosen = True
            return True
        return False

    def _is_idle(self, added: cst.BaseExpression | None) -> bool:
        """Whether a setting is added that is 0, as long as nobody says anything else."""
        if added is None or not all(
            isinstance(end, cst.Name) for end in self._values.alternatives(added)
        ):
            return False
        defaults = [value for value in self._values.usual(added) if value is not ...]
        plain = all(isinstance(value, (int, float)) and value is not False for value in defaults)
        return plain and bool(defaults) and not any(defaults)

    def _is_part(self, wanted: Apply, step: Operation, match: Match) -> bool:
        """Whether the other operands and the settings of an operation are those of a pattern."""
        if step.args.starred or "out" in step.args.keywords:
            return False
        found = self._settings(wanted, step, match) and self._operands(wanted, step, match)
        if found:
            match.parts.setdefault(wanted.name, []).append(step)
        return found

    def _operands(self, wanted: Apply, step: Operation, match: Match) -> bool:
        if wanted.name in SETTINGS or wanted.rest:
            return True
        given = [*step.args.positional, *step.args.keywords.values()]
        return len(given) == len(wanted.operands) and all(
            self._operand(operand, node, match)
            for operand, node in zip(wanted.operands, given, strict=True)
        )

    def _operand(self, wanted: Apply | str | float, node: cst.BaseExpression, match: Match) -> bool:
        if isinstance(wanted, Apply):
            return self._along(wanted, node, match, match.sides)
        if isinstance(wanted, str):
            return self._bind(wanted, node, match)
        return self._is_constant(wanted, node)

    def _is_constant(self, wanted: float, node: cst.BaseExpression) -> bool:
        found = literal(node)
        return found == wanted and isinstance(found, bool) is isinstance(wanted, bool)

    def _settings(self, wanted: Apply, step: Operation, match: Match) -> bool:
        if not wanted.rest and wanted.name not in SETTINGS:
            return True
        given = named(step.args, SETTINGS.get(wanted.name))
        if wanted.rest:
            match.reduced = step
            return given is not None and (bool(given) or wanted.name not in SETTINGS)
        if given is None or {*given} != {name for name, _ in wanted.settings}:
            return False
        if given and match.reduced is None:
            match.reduced = step
        return all(self._operand(value, given[name], match) for name, value in wanted.settings)

    def _bind(self, variable: Apply | str, node: cst.BaseExpression | None, match: Match) -> bool:
        if node is None:
            return True  # hidden, as in an nn.Sequential
        assert isinstance(variable, str)
        known = match.bound.setdefault(variable, node)
        return known is node or self._are_same(known, node)

    def _are_same(self, one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
        """Whether two expressions of one statement are written alike."""
        tree = self._tree.linked
        texts = {"".join(tree.source(node).split()) for node in (one, other)}
        return len(texts) == 1 and tree.statement(one) is tree.statement(other)

    # --- what is asked of a match --------------------------------------------------------------

    def mentions(self, node: cst.BaseExpression, names: Set[str], steps: int = 4) -> bool:
        """Whether an expression calls one of some functions, or is of variables that do."""
        parts = [*descendants(node)]
        if any(isinstance(part, cst.Call) and _called(part) in names for part in parts):
            return True
        return steps > 0 and any(
            self.mentions(value, names, steps - 1)
            for part in parts
            if isinstance(part, cst.Name)
            for binding in self.operations.flow.reaching(part)
            if binding.kind != "parameter"
            and isinstance(value := getattr(binding.node, "value", None), cst.BaseExpression)
        )


def named(args: Arguments, order: Sequence[str] | None) -> dict[str, cst.BaseExpression] | None:
    """The further arguments by their names; None if there are others than those in ``order``."""
    if order is None:
        return {str(index): node for index, node in enumerate(args.positional)} | args.keywords
    given = {RENAMED.get(name, name): node for name, node in args.keywords.items()}
    given |= dict(zip(order, args.positional, strict=False))
    known = len(args.positional) <= len(order) and given.keys() <= {*order}
    return given if known else None


def _is_of_torch(match: Match) -> bool:
    """Whether it is known to be of tensors: functions of torch, methods that only they have."""
    return any(
        step.form in (Form.FUNCTION, Form.MODULE, Form.LAST)
        or (step.form is Form.METHOD and step.name not in _SHARED_NAMES)
        for step in match.all
    )


def _called(call: cst.Call) -> str:
    func = call.func
    if isinstance(func, cst.Attribute):
        return func.attr.value
    return func.value if isinstance(func, cst.Name) else ""


def places(operations: Operations, name: str) -> Iterator[cst.BaseExpression]:
    """The expressions that may be an operation: calls by a name that has its word in it.

    All calls where modules do the same, and operators besides where those do.
    """
    wanted = words(name)
    anyhow = not wanted or name in CLASSES
    for call in operations.tree.nodes(cst.Call):
        called = _called(call).lower()
        if isinstance(call.func, cst.Name):
            called = " ".join([called, *operations.names.qualified(call.func)])
        if anyhow or any(word in called for word in wanted):
            yield call
    if not wanted:
        yield from operations.tree.nodes(cst.BinaryOperation)
