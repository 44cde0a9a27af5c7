"""AMP116: a scaled loss is divided by the scale of the next step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.mistake import Account, At, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Diagnostic, Severity
from amp_lint.vocabulary import written
from amp_lint.vocabulary.amp import GET_SCALE
from amp_lint.vocabulary.meaning import Kind, Role
from amp_lint.vocabulary.table import words
from amp_lint.vocabulary.training import SAME_NUMBERS

if TYPE_CHECKING:
    from amp_lint.model import Model

_MAX_STEPS = 6
_KEEPS = SAME_NUMBERS | {"item", "mean", "sum"}
_MESSAGE = (
    "the scale is that of the next step: where it just changed, this is twice or half the loss"
)
_HELP = f"read `{GET_SCALE.word}()` before the update, or keep the loss before it is scaled"


class ScaleReadAfterUpdate(Rule):
    """``scaler.update()``, then ``scaled.item() / scaler.get_scale()``."""

    code = "AMP116"
    name = "scale-read-after-update"
    severity = Severity.WARNING
    preview = True
    given = written.SCALED
    requires = (words(Role.SCALED_LOSS), words(Role.SCALE), words(Kind.UPDATE))
    observed = (
        Account(
            Mistake.LATE_SCALE,
            "the loss was multiplied by {then:g} and is divided by {now:g}, the scale of the next "
            "step: {times:g} times the loss",
            _HELP,
            {At.CAUSE: "scaled here"},
        ),
    )

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report every division by a scale that was read too late."""
        for division, top, bottom in _divisions(model):
            reads = [call for call in _values(model, bottom) if _reads(model, call)]
            if not reads:
                continue
            is_scale = model.steps.recognizer.is_scale
            scaled = (call for call in _values(model, top) if is_scale(call))
            pairs = (
                (call, _update_between(model, call, read)) for call in scaled for read in reads
            )
            known = next(((call, update) for call, update in pairs if update is not None), None)
            if known is not None:
                related = [(known[0], "scaled here"), (known[1], "updated here")]
                yield self.report(model, division, _MESSAGE, related, help=_HELP)


def _divisions(
    model: Model,
) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression, cst.BaseExpression]]:
    """Every division of one thing by another, in all its spellings."""
    for kind in (cst.BinaryOperation, cst.AugAssign, cst.Call):
        for node in model.tree.nodes(kind):
            match node:
                case cst.AugAssign(target=top, operator=cst.DivideAssign(), value=bottom):
                    yield node, top, bottom
                case cst.BinaryOperation(left=top, operator=cst.Multiply(), right=factor):
                    for one, by in ((top, factor), (factor, top)):
                        inverse = _held(model, by)
                        if isinstance(inverse, cst.BinaryOperation) and _is_inverse(inverse):
                            yield node, one, inverse.right
                case cst.BinaryOperation(left=top, operator=cst.Divide(), right=bottom):
                    yield node, top, bottom
                case cst.Call() if (made := model.operations.of(node)) is not None:
                    other = made.args.get(0, "other")
                    if made.name == "div" and made.input is not None and other is not None:
                        yield node, made.input, other


def _is_inverse(node: cst.BinaryOperation) -> bool:
    from amp_lint.flow.values import literal

    return isinstance(node.operator, cst.Divide) and literal(node.left) == 1


def _held(model: Model, node: cst.BaseExpression) -> cst.BaseExpression:
    """What a variable certainly holds; an expression itself."""
    held = model.flow.held(node)
    return held.value if held is not None and held.value is not None else node


def _values(model: Model, node: cst.BaseExpression, steps: int = _MAX_STEPS) -> Iterator[cst.Call]:
    """The calls that an expression may have the numbers of, or a part of them."""
    inner: list[cst.BaseExpression | None] = []
    match node:
        case cst.Name():
            inner += [each.value for each in model.flow.reaching(node) if each.kind == "assign"]
        case cst.IfExp(body=body, orelse=orelse):
            inner += [body, orelse]
        case cst.BinaryOperation(left=left, operator=cst.Divide()):
            inner.append(left)
        case cst.Attribute(value=owner, attr=cst.Name(value="data")):
            inner.append(owner)
        case cst.Call(func=func, args=[one]) if model.names.is_any(func, {"builtins.float"}):
            inner.append(one.value)
        case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name(value=name))):
            if name in _KEEPS:
                inner.append(owner)
            else:
                yield node
    for each in inner if steps else ():
        if each is not None:
            yield from _values(model, each, steps - 1)


def _reads(model: Model, call: cst.Call) -> bool:
    """Whether a call gives the scale of a scaler."""
    func = call.func
    if not isinstance(func, cst.Attribute) or func.attr.value not in words(Role.SCALE):
        return False
    return model.roles.is_scaler(func.value)


def _owner(model: Model, call: cst.Call) -> str:
    return model.tree.source(call.func).rpartition(".")[0]


def _update_between(model: Model, first: cst.Call, last: cst.Call) -> cst.Call | None:
    """The update after one call and before another one, in one round of one function."""
    program, order = model.program, model.tree.order
    home = program.function_of(first)
    for update in model.steps.recognizer.updates:
        if len({_owner(model, each) for each in (first, update, last)}) > 1:
            continue
        function = program.function_of(update)
        calls = program.calls_of(function) if function is not None and function is not home else ()
        for done in (update, *(call for call in calls if program.function_of(call) is home)):
            places = first, done, last
            homes = {id(program.function_of(each)) for each in places}
            loops = {id(program.loop(each)) for each in places}
            if len(homes) == len(loops) == 1 and order(first) < order(done) < order(last):
                return done
    return None
