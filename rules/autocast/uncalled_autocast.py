"""AMP207: the autocast class where a context was meant, or one that nobody enters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.amp.plain_regions import are_entered
from amp_lint.edit import edits
from amp_lint.mistake import Account, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Edit, Fix, Severity, quoted
from amp_lint.vocabulary.amp import AUTOCAST, DEVICE_AUTOCAST
from amp_lint.vocabulary.meaning import Role
from amp_lint.vocabulary.table import names, words

if TYPE_CHECKING:
    from amp_lint.model import Model
    from amp_lint.syntax.facts import Facts
    from amp_lint.syntax.references import Reference

_ALONE = (
    "makes a context that nothing enters: what follows runs without autocast",
    "put it into a `with`",
)
_YIELDED = (
    "is yielded and not entered: the block of the `with` runs without autocast",
    "enter it around a bare `yield`",
)
_PASSED_OVER = (
    "is not entered: `and` gives its last operand, the block runs without autocast",
    "write `with a, b:`",
)
"""What becomes of a context that nothing enters, and what to do."""
_MANAGERS = frozenset({"contextlib.contextmanager", "contextlib.asynccontextmanager"})
_BINDING = frozenset({"classmethod", "property", "staticmethod"})


class UncalledAutocast(Rule):
    """Autocast that is not called, or called and not entered."""

    code = "AMP207"
    name = "uncalled-autocast"
    severity = Severity.ERROR
    fixes = (Applicability.SAFE, Applicability.UNSAFE, Applicability.SUGGEST)
    requires = (words(Role.REGION),)
    observed = (
        Account(
            Mistake.UNENTERED_REGION,
            "this region is thrown away before it is entered: autocast is off",
            _ALONE[1],
        ),
        Account(
            Mistake.UNUSED_REGION,
            "this region was never entered, nor any other: autocast was off for {rounds} backward "
            "passes",
            _ALONE[1],
        ),
    )

    def may(self, facts: Facts) -> bool:
        """Whether a region may not be entered."""
        return not facts.asked(are_entered)

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report each class in a ``with``, as a decorator, and each call that is a statement."""
        from amp_lint.amp.kinds import certain
        from amp_lint.syntax.references import references

        classes = names(Role.REGION)
        for reference in references(model.tree, model.names, classes):
            if certain(model.names, reference.node, classes) is None:
                continue
            holder = model.tree.parent(reference.node)
            if isinstance(holder, cst.WithItem):
                message = "is the class, not a context: `with` raises TypeError"
                yield self._uncalled(model, reference, message, fixable=True)
            elif isinstance(holder, cst.Decorator):
                yield self._uncalled(
                    model, reference, _decorated(reference), _is_fixable(model, holder)
                )
            elif isinstance(holder, cst.Call) and _is_left(model, reference):
                yield self._unentered(model, reference, holder, *_ALONE)
            elif isinstance(holder, cst.Call) and _is_yielded(model, holder):
                yield self._unentered(model, reference, holder, *_YIELDED)
            elif isinstance(holder, cst.Call) and model.regions.is_passed_over(holder):
                yield self._unentered(model, reference, holder, *_PASSED_OVER)

    def _uncalled(
        self, model: Model, reference: Reference, effect: str, fixable: bool
    ) -> Diagnostic:
        message = f"{quoted(model.tree.source(reference.node))} {effect}"
        fix = _fix(model, reference) if fixable else None
        help = f"call the class: {_called(model, reference)}"
        return self.report(model, reference.node, message, fix=fix, help=help)

    def _unentered(
        self, model: Model, reference: Reference, call: cst.Call, effect: str, help: str
    ) -> Diagnostic:
        """A warning: the code runs, as slowly as without autocast."""
        message, fix = f"{_called(model, reference)} {effect}", _enter(model, call)
        found = self.report(model, call, message, fix=fix, help=help)
        return replace(found, severity=Severity.WARNING)


def _enter(model: Model, call: cst.Call) -> Fix | None:
    """``with`` around a bare ``yield``, where the ``yield`` is a line of its own."""
    holder = model.tree.parent(call)
    small = model.tree.parent(holder) if isinstance(holder, cst.Yield) else None
    line = model.tree.parent(small) if small is not None else None
    if not isinstance(small, cst.Expr) or not isinstance(line, cst.SimpleStatementLine):
        return None
    if len(line.body) > 1:
        return None
    edit = edits.enter_around(model.tree, line, call, "yield")
    return Fix("Enter it around a bare `yield`", (edit,), Applicability.SUGGEST)


def _called(model: Model, reference: Reference) -> str:
    return quoted(f"{model.tree.source(reference.node)}(...)")


def _decorated(reference: Reference) -> str:
    """What becomes of a function that the class decorates."""
    if reference.name in AUTOCAST.names:
        return "is not called: it takes the function for a device and raises ValueError"
    return "is not called: the function becomes a context, its calls raise TypeError"


def _is_fixable(model: Model, decorator: cst.Decorator) -> bool:
    """Whether autocast around the decorated thing is what a call would give.

    Not around a class, a generator or a coroutine, nor around what is no function yet.
    """
    function = model.tree.parent(decorator)
    if not isinstance(function, cst.FunctionDef) or function.asynchronous is not None:
        return False
    yields = model.tree.below(function, cst.Yield)
    if any(model.tree.ancestor(each, cst.FunctionDef) is function for each in yields):
        return False
    return not any(
        isinstance(other.decorator, cst.Name) and other.decorator.value in _BINDING
        for other in function.decorators[list(function.decorators).index(decorator) :]
    )


def _fix(model: Model, reference: Reference) -> Fix:
    end = model.tree.span(reference.node)[1]
    if reference.name in DEVICE_AUTOCAST:
        return Fix("Call it", (Edit(end, end, "()"),), Applicability.SAFE)
    trust = Applicability.SAFE if model.devices.only_cuda else Applicability.UNSAFE
    return Fix('Call it with `"cuda"`', (Edit(end, end, '("cuda")'),), trust)


def _is_yielded(model: Model, call: cst.Call) -> bool:
    """Whether a context manager gives a context to its users, who enter it in its stead."""
    function = model.tree.ancestor(call, cst.FunctionDef)
    if not isinstance(model.tree.parent(call), cst.Yield) or function is None:
        return False
    decorators = (decorator.decorator for decorator in function.decorators)
    users = map(model.tree.parent, model.steps.program.calls_of(function))
    kept = any(isinstance(user, cst.WithItem) and user.asname is not None for user in users)
    return not kept and any(model.names.is_any(each, _MANAGERS) for each in decorators)


def _is_left(model: Model, reference: Reference) -> bool:
    """Whether a call is a statement, or gives a variable of a function that nothing reads.

    Not where it is there to see whether it raises.
    """
    from amp_lint.flow.attempts import is_attempt

    if reference.call is None:
        return False
    node: cst.CSTNode = reference.call
    holder = model.tree.parent(node)
    while isinstance(holder, cst.IfExp) and node is not holder.test:
        node, holder = holder, model.tree.parent(holder)
    unread = isinstance(holder, cst.Assign) and _is_unread(model, holder)
    return (isinstance(holder, cst.Expr) or unread) and not is_attempt(model.tree, reference.call)


def _is_unread(model: Model, assign: cst.Assign) -> bool:
    """Whether a variable of a function alone is assigned, and its name stands nowhere else."""
    target = assign.targets[0].target
    function = model.tree.ancestor(assign, cst.FunctionDef, cst.ClassDef)
    if not isinstance(target, cst.Name) or not isinstance(function, cst.FunctionDef):
        return False
    others = (name for name in model.tree.named(target.value) if name is not target)
    alone = len(assign.targets) == 1
    return alone and not any(model.tree.contains(function, name) for name in others)
