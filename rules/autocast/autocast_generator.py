"""AMP208: autocast around a body that runs, or goes on, later."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.amp.plain_regions import are_entered
from amp_lint.mistake import Account, At, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Diagnostic, Severity
from amp_lint.vocabulary.meaning import Role
from amp_lint.vocabulary.table import words

if TYPE_CHECKING:
    from amp_lint.amp.regions import Entered
    from amp_lint.model import Model
    from amp_lint.syntax.facts import Facts

_MEANS_TO = re.compile(r"contextmanager|context_manager|fixture|hook", re.IGNORECASE)
"""Decorators of generators that enter and leave a region for others."""
_DECORATED = "autocast is off when the body of {what} runs: it is on only while the object is made"
_INSIDE = "open the region inside the body"


class AutocastGenerator(Rule):
    """A decorator that does not last, or a region that lasts too long."""

    code = "AMP208"
    name = "autocast-generator"
    severity = Severity.WARNING
    requires = (words(Role.REGION),)
    observed = (
        Account(
            Mistake.REGION_LEFT_LATE,
            "this region is left while one that was entered later is still open: autocast "
            "is off in that one",
            "yield after the region",
            {At.REGION: "this one was entered later", At.STEP: "it is left here"},
        ),
        Account(
            Mistake.REGION_LEAKS,
            "autocast stays on outside of this region: its generator waits at a `yield`, and "
            "others compute",
            "yield after the region",
            {At.STEP: "autocast is on here"},
        ),
        Account(Mistake.BODY_OUTSIDE, _DECORATED, _INSIDE),
    )

    def may(self, facts: Facts) -> bool:
        """Whether a region may be that of a decorator, or left by a ``yield``."""
        return not facts.asked(are_entered)

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report decorated generators and coroutines, and regions with a ``yield`` inside."""
        for function in model.tree.nodes(cst.FunctionDef):
            what = _kind(model, function)
            entered = [e for e in model.regions.entered(function.body) if e.holder is function]
            if what is not None and entered:
                yield self.report(model, entered[0].context, _decorated(what), help=_INSIDE)
        for region, leaving in _leaks(model):
            yield self.report(
                model,
                leaving,
                "autocast stays on outside of this region: `yield` leaves it on for the code that "
                "asks for items",
                [(region.context, "autocast is on from here")],
                help="yield after the region",
            )
        for region in _around_functions(model):
            yield self.report(
                model,
                region.context,
                "the region ends before what is made in it runs, and does nothing for it",
                help=_INSIDE,
            )


def _kind(model: Model, function: cst.FunctionDef) -> str | None:
    if function in model.reach.generators:
        return "a generator"
    return "a coroutine" if function.asynchronous is not None else None


def _decorated(what: str) -> str:
    return _DECORATED.format(what=what)


def _around_functions(model: Model) -> Iterator[Entered]:
    """Every region in which functions or generators are made, and nothing else is done."""
    from amp_lint.syntax.tree import statements_of

    for holder in model.tree.nodes(cst.With):
        defined = [each for each in statements_of(holder.body) if _makes(model, each)]
        if defined and all(e in defined or _is_idle(e) for e in statements_of(holder.body)):
            entered = model.regions.entered(defined[0])
            yield from (each for each in entered if each.holder is holder)


def _makes(model: Model, statement: cst.CSTNode) -> bool:
    """Whether a statement makes a function, or a generator of what is there already."""
    match statement:
        case cst.FunctionDef():
            return True
        case cst.Assign(value=value) | cst.Return(value=value):
            if isinstance(value, cst.GeneratorExp):
                return not any(model.tree.below(value.for_in.iter, cst.Call))
            return isinstance(value, cst.Lambda)
    return False


def _is_idle(statement: cst.CSTNode) -> bool:
    """Whether a statement gives a function back, or is of no consequence."""
    match statement:
        case cst.Import() | cst.ImportFrom() | cst.Pass():
            return True
        case cst.Return(value=cst.Name() | None) | cst.Expr(value=cst.SimpleString()):
            return True
    return False


def _leaks(model: Model) -> Iterator[tuple[Entered, cst.Yield]]:
    """Every region that is on at a ``yield``, with the first such."""
    found: dict[int, tuple[Entered, cst.Yield]] = {}
    for each in model.tree.nodes(cst.Yield):
        entered = model.regions.entered(each)[:1]
        function = model.tree.ancestor(each, cst.FunctionDef, cst.Lambda)
        if not entered or not isinstance(function, cst.FunctionDef) or _is_meant(model, function):
            continue
        if isinstance(entered[0].holder, cst.With) and not entered[0].region.never_enabled:
            found.setdefault(id(entered[0].holder), (entered[0], each))
    yield from found.values()


def _is_meant(model: Model, function: cst.FunctionDef) -> bool:
    """Whether the generator is there to be a context itself."""
    if any(_MEANS_TO.search(model.tree.source(each.decorator)) for each in function.decorators):
        return True
    takers = model.values.takers(function)
    return any(_MEANS_TO.search(model.tree.source(call.func)) for call in takers)
