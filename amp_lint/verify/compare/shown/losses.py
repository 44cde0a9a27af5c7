"""Which names are tensors of one float, since a backward pass starts from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from amp_lint.amp.events import Kind as Event
from amp_lint.flow.values import literal
from amp_lint.verify.compare.shown.course import Course
from amp_lint.verify.compare.shown.formats import NUMBERS, Kind
from amp_lint.verify.terms import Form, Op
from amp_lint.vocabulary.signatures import order

_STARTING = ("create_graph", "retain_graph")
"""Keywords of a backward pass that starts from a number."""
_SUMS = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide)
_REDUCED = (None, "mean", "sum")
_ALL = frozenset({"torch.mean", "torch.sum"})
_EACH = frozenset({"abs", "bfloat16", "clone", "contiguous", "cpu", "detach", "double", "exp",
                   "float", "half", "log", "neg", "sqrt"})  # fmt: skip
_NO_TENSORS = frozenset({"get", "item", "tolist"})
_GATHERING = ("DataParallel", "data_parallel")
"""What gives one number for each device, with a dimension of its own."""


class Losses:
    """What the backward passes of one function start from."""

    def __init__(self, course: Course, kind: Callable[[cst.BaseExpression], Kind | None]) -> None:
        self._course, self._kind = course, kind
        self._open: set[int] = set()
        """Ids of the names that are being looked at."""

    def is_one(self, name: cst.Name) -> bool:
        """Whether a backward pass starts from the very value that a name has here.

        It did, or it does so next. What is no single number raises there.
        """
        if not self._course.is_local(name) or id(name) in self._open:
            return False
        self._open.add(id(name))
        found = any(self._is_of(backward, name) for backward in self._backwards())
        self._open.discard(id(name))
        return found

    def _backwards(self) -> Iterator[cst.Call]:
        """The backward passes from a number, but for what classes of the file call so."""
        model = self._course.model
        own = {f.name.value for f in model.tree.nodes(cst.FunctionDef) if not f.decorators}
        for call in model.tree.below(self._course.unit, cst.Call):
            given = (arg.keyword.value if arg.keyword else "" for arg in call.args)
            word = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
            is_backward = model.steps.recognizer.kind(call) is Event.BACKWARD
            if is_backward and word not in own and all(each in _STARTING for each in given):
                yield call

    def _is_of(self, backward: cst.Call, name: cst.Name) -> bool:
        course, order_of = self._course, self._course.model.tree.order
        if course.dominates(backward, name):
            start, end = course.stretch(backward, name)
        elif course.leads(name, backward):
            start, end = order_of(name), order_of(backward)
        else:
            return False
        if course.is_rebound(name, start, end) or course.is_written(name, start, end):
            return False
        recognizer = course.model.steps.recognizer
        loss = recognizer.loss(backward)
        if isinstance(loss, cst.Call) and recognizer.is_scale(loss):
            loss = loss.args[0].value if loss.args else None
        return loss is not None and any(each.value == name.value for each in self._parts(loss))

    def _parts(self, loss: cst.BaseExpression, *, alone: bool = True) -> Iterator[cst.Name]:
        """The names in a sum or product that are tensors: the only one that is no number, or all.

        What torch gave, or a loss function, is one; a weight may be a number.
        """
        match loss:
            case cst.BinaryOperation(left=left, operator=op, right=right) if isinstance(op, _SUMS):
                yield from self._parts(left, alone=alone and self._is_number(right))
                yield from self._parts(right, alone=alone and self._is_number(left))
            case cst.Name() if alone or self._is_computed(loss):
                yield loss

    def _is_number(self, node: cst.BaseExpression) -> bool:
        return self._kind(node) in NUMBERS

    def _is_computed(self, name: cst.Name) -> bool:
        """Whether all that a name may be bound to is what torch, or something called, gives."""
        found = self._course.eraser.side.lifter.found
        bound = [*self._course.reaching(name)]
        terms = [found.get(id(each.value)) if each.value is not None else None for each in bound]
        return bool(terms) and all(
            isinstance(term, Op)
            and (term.form is Form.APPLY or (term.form is Form.FUNCTION and "torch." in term.name)
                 or (term.form is Form.METHOD and term.name not in _NO_TENSORS))
            for term in terms
        )  # fmt: skip

    # --- dimensions ---------------------------------------------------------------------------

    def is_flat(self, name: cst.Name) -> bool:
        """Whether a tensor of one number has no dimensions, as what a loss function gives."""
        if self._course.eraser.side.mentions(*_GATHERING):
            return False
        return self._is_flat(name, 0)

    def _is_flat(self, node: cst.BaseExpression, depth: int) -> bool:
        if depth > _DEEP:
            return False
        match node:
            case cst.Name():
                bound = [*self._course.reaching(node)]
                values = [each.value if each.kind == "assign" else None for each in bound]
                return bool(values) and all(
                    each is not None and self._is_flat(each, depth + 1) for each in values
                )
            case cst.BinaryOperation(left=left, operator=op, right=right) if isinstance(op, _SUMS):
                sides = (left, right)
                return all(
                    self._is_number(each) or self._is_flat(each, depth + 1) for each in sides
                )
            case cst.Call():
                return self._is_reduced(node, depth)
        return False

    def _is_reduced(self, call: cst.Call, depth: int) -> bool:
        """Whether a call gives a tensor without dimensions, as far as anything tells."""
        model = self._course.model
        known = model.names.qualified(call.func)
        if known:
            one = known <= _ALL and len(call.args) == 1
            return one or all(_is_averaged(name, call) for name in known)
        if isinstance(call.func, cst.Attribute) and not call.args:
            if call.func.attr.value in ("mean", "sum"):
                return True
            if call.func.attr.value in _EACH:
                return self._is_flat(call.func.value, depth + 1)
        if model.program.target(call) is not None or not call.args or not self._is_own(call.func):
            return False
        return all(
            isinstance(each, cst.Call)
            and all(_is_averaged(name, each) for name in model.names.qualified(each.func) or {""})
            for each in self._called(call.func)
        )

    def _called(self, func: cst.BaseExpression) -> Iterator[cst.CSTNode]:
        """What is known to be called by a name: what it is bound to, but for what it is given."""
        course = self._course
        if isinstance(func, cst.Name):
            local = course.is_local(func)
            bound = course.reaching(func) if local else course.model.names.bindings(func)
            yield from (each.value or each.node for each in bound if each.kind not in _GIVEN)
        elif isinstance(func, cst.Attribute):
            values = course.model.values.attribute_values(func)
            yield from (each for each in values if not isinstance(each, cst.Name))

    def _is_own(self, func: cst.BaseExpression) -> bool:
        """Whether what is called is a name, or ``self.x``: no method of a tensor."""
        if isinstance(func, cst.Attribute):
            owner = func.value
            return isinstance(owner, cst.Name) and self._course.is_receiver(owner)
        return isinstance(func, cst.Name)


_DEEP = 8
_GIVEN = frozenset({"import", "parameter"})


def _is_averaged(name: str, call: cst.Call) -> bool:
    """Whether a loss of torch, as a function or a module, makes one number of all."""
    given = {arg.keyword.value: arg.value for arg in call.args if arg.keyword}
    reduction = literal(given["reduction"]) if "reduction" in given else None
    old = not given.keys().isdisjoint({"reduce", "size_average"}) or any(a.star for a in call.args)
    is_loss = name.startswith("torch.nn.") and (
        name.endswith(("_loss", "Loss", "kl_div", "entropy", "with_logits"))
        or "reduction" in order(name)
    )
    positional = [arg for arg in call.args if not arg.keyword]
    many = len(positional) > (2 if name.startswith("torch.nn.functional.") else 1)
    return is_loss and not old and not many and reduction in _REDUCED
