"""Whether a function makes of gradients that are twice as large what is twice as large.

And does nothing else with them: it does not note them, compare them, or add something to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from amp_lint.amp.gradient_values import is_gradient
from amp_lint.flow.values import literal
from amp_lint.model import Model
from amp_lint.syntax.tree import children, statements_of
from amp_lint.vocabulary.operations import LIKE, NEW, SIZE_METHODS, SIZES
from amp_lint.vocabulary.purity import KEEPING, is_pure_function
from amp_lint.vocabulary.training import ADDING, COPY, LINEAR, READING

_TELLING_SIZE = SIZES | (SIZE_METHODS - READING) | {"dtype", "is_contiguous"}
_OF_SIZE = LIKE | NEW | {"isinstance", "len"}
_GRADIENT = "grad"
_NOTHING, _CHOOSING = frozenset({"torch.zeros_like"}), frozenset({"torch.where"})
_CHOICES = 3
"""Arguments of ``torch.where``: a mask, and what it chooses between."""
_CONTAINERS = frozenset({"builtins.list", "builtins.tuple", "builtins.reversed"})
_PRODUCTS = (cst.Multiply, cst.MatrixMultiply)
_SUMS = (cst.Add, cst.Subtract)
_FACTORS = (cst.MultiplyAssign, cst.DivideAssign, cst.MatrixMultiplyAssign)
_ADDED = (cst.AddAssign, cst.SubtractAssign)
_ZERO, _FILLED = "zero_", ("masked_fill", "masked_fill_")
_OF_TENSORS = ("data", "T", "mT", "H", "mH")
_SILENT = (cst.Pass, cst.Import, cst.ImportFrom, cst.Global, cst.Nonlocal)


class Linear:
    """Follows gradients through a function."""

    def __init__(self, model: Model, names: Iterable[str]) -> None:
        """Prepare.

        Args:
            model: of the file.
            names: what stands for gradients, or holds them; besides ``p.grad`` of anything.
        """
        self._model = model
        self._names = set(names)
        self._others: set[str] = set()
        """The names that stood for something else."""

    def is_linear(self, function: cst.FunctionDef | cst.Lambda) -> bool:
        """Whether all that a function does with gradients, and gives back, is."""
        if isinstance(function, cst.Lambda):
            return self._is_given(function.body) or self._only_notes(function.body)
        return self._block(function.body)

    # --- statements ---------------------------------------------------------------------------

    def _block(self, body: cst.BaseSuite) -> bool:
        return all(map(self._statement, _lines(body)))

    def _statement(self, node: cst.CSTNode) -> bool:
        match node:
            case cst.Return(value=value):
                return value is None or self._is_given(value)
            case cst.Assign(targets=[cst.AssignTarget(target=target)], value=value):
                return self._assigned(target, value)
            case cst.AugAssign(target=target, operator=operator, value=value):
                return self._changed(target, operator, value)
            case cst.Expr(value=value):
                return self._is_quiet(value) or self._writes(value)
            case cst.If(test=test, body=body, orelse=orelse):
                other = orelse is None or (
                    self._statement(orelse)
                    if isinstance(orelse, cst.If)
                    else self._block(orelse.body)
                )
                return self._is_free(test) and self._block(body) and other
            case cst.For(target=target, iter=walked, body=body, orelse=None):
                return self._walked(target, walked) and self._block(body)
            case cst.With(items=items, body=body):
                return all(self._is_free(item.item) for item in items) and self._block(body)
            case cst.Assert() | cst.AnnAssign():
                return self._is_free(node)
        return isinstance(node, _SILENT)

    def _assigned(self, target: cst.BaseExpression, value: cst.BaseExpression) -> bool:
        if isinstance(target, cst.Name):
            is_of, name = self._is_of(value), target.value
            (self._names if is_of else self._others).add(name)
            return (is_of or self._is_free(value)) and not {name} <= self._names & self._others
        if self._mentions(target):
            return self._is_of(value)
        return self._is_free(value)

    def _changed(
        self, target: cst.BaseExpression, operator: cst.BaseAugOp, value: cst.BaseExpression
    ) -> bool:
        """``grad *= 2``, ``grad += other``, ``count += 1``."""
        if not self._mentions(target):
            return self._is_free(value)
        if isinstance(operator, _FACTORS):
            return self._is_of(target) and self._is_free(value)
        return isinstance(operator, _ADDED) and self._is_of(target) and self._is_of(value)

    def _walked(self, target: cst.BaseExpression, walked: cst.BaseExpression) -> bool:
        if not self._mentions(walked):
            return True
        if isinstance(target, cst.Name) and self._is_of(walked):
            self._names.add(target.value)
            return True
        return False

    def _writes(self, node: cst.BaseExpression) -> bool:
        """``grad.mul_(2)``, ``p.grad.add_(other)``: what changes gradients where they stand."""
        match node:
            case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name(value=name)), args=args):
                if not self._is_of(owner):
                    return False
                if name in ADDING or name == COPY:
                    return all(self._is_of(a.value) for a in args[:1]) and self._are_free(args[1:])
                filled = name in _FILLED and self._is_zero(args[-1].value)
                return (name in LINEAR or name == _ZERO or filled) and self._are_free(args)
        return False

    def _is_quiet(self, node: cst.BaseExpression) -> bool:
        """Whether an expression has no gradients, and calls nothing that may ask for them."""
        return self._is_free(node) and all(map(self._is_known, _calls(node)))

    def _only_notes(self, node: cst.BaseExpression) -> bool:
        """Whether an expression notes something, and gives nothing back."""
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
            return False
        return not self._model.names.qualified(node.func) and self._is_quiet(node)

    def _is_known(self, call: cst.Call) -> bool:
        """Whether a call computes, or notes something: of what it is given."""
        if self._model.steps.recognizer.kind(call) is not None:
            return False
        known = self._model.names.qualified(call.func)
        if known:
            return all(map(is_pure_function, known))
        return isinstance(call.func, cst.Attribute) and call.func.attr.value in KEEPING

    # --- expressions --------------------------------------------------------------------------

    def _is_given(self, node: cst.BaseExpression) -> bool:
        """Whether that may be returned: nothing, gradients, or several of both."""
        if isinstance(node, (cst.Tuple, cst.List)):
            return all(self._is_given(each.value) for each in node.elements)
        return literal(node) is None or self._is_of(node)

    def _is_of(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is gradients, or is linear in them."""
        match node:
            case cst.Name(value=name):
                return name in self._names or literal(node) is None
            case cst.Integer() | cst.Float():
                return self._is_zero(node)
            case cst.Attribute(value=owner, attr=cst.Name(value=name)):
                return is_gradient(node) or (name in _OF_TENSORS and self._is_of(owner))
            case cst.Subscript(value=owner, slice=index):
                return self._is_of(owner) and all(map(self._is_free, index))
            case cst.UnaryOperation(operator=cst.Minus() | cst.Plus(), expression=inner):
                return self._is_of(inner)
            case cst.BinaryOperation(left=left, operator=operator, right=right):
                return self._combined(left, operator, right)
            case cst.IfExp(test=test, body=one, orelse=other):
                return self._is_free(test) and self._is_of(one) and self._is_of(other)
            case cst.Tuple() | cst.List():
                return self._is_given(node)
            case cst.GeneratorExp(elt=each, for_in=loop) | cst.ListComp(elt=each, for_in=loop):
                plain = loop.inner_for_in is None and all(self._is_free(i.test) for i in loop.ifs)
                return plain and self._walked(loop.target, loop.iter) and self._is_given(each)
            case cst.Call():
                return self._called(node)
        return False

    def _combined(
        self, left: cst.BaseExpression, operator: cst.BaseBinaryOp, right: cst.BaseExpression
    ) -> bool:
        if isinstance(operator, _SUMS):
            return self._is_of(left) and self._is_of(right)
        if isinstance(operator, cst.Divide):
            return self._is_of(left) and self._is_free(right)
        if not isinstance(operator, _PRODUCTS):
            return False
        one, other = (self._is_of(each) for each in (left, right))
        return (one and self._is_free(right)) or (other and self._is_free(left))

    def _called(self, call: cst.Call) -> bool:
        """Whether a function or method gives what is linear in one of its arguments."""
        known, given = self._model.names.qualified(call.func), [arg.value for arg in call.args]
        if known:
            if known <= _NOTHING:
                return True
            if known <= _CONTAINERS and len(given) == 1:
                return self._is_of(given[0])
            if known <= _CHOOSING and len(given) == _CHOICES:
                return self._is_free(given[0]) and all(map(self._is_of, given[1:]))
            names = {name.rpartition(".")[2] for name in known if name.startswith("torch.")}
            is_linear = len(names) == len(known) and names <= LINEAR
        elif isinstance(call.func, cst.Attribute):
            name = call.func.attr.value
            given = [call.func.value, *given]
            filled = name in _FILLED and self._is_zero(given[-1])
            is_linear = name in LINEAR or filled
        else:
            return False
        kinds = [self._mentions(each) for each in given]
        return is_linear and sum(kinds) == 1 and self._is_of(given[kinds.index(True)])

    def _is_zero(self, node: cst.BaseExpression) -> bool:
        return literal(node) == 0 and literal(node) is not False

    def _are_free(self, args: Iterable[cst.Arg]) -> bool:
        return not any(self._mentions(arg.value) for arg in args)

    def _is_free(self, node: cst.CSTNode) -> bool:
        return not self._mentions(node)

    def _mentions(self, node: cst.CSTNode) -> bool:
        """Whether an expression has numbers of gradients in it, and not only their size."""
        match node:
            case cst.Name(value=name):
                return name in self._names
            case cst.Attribute(attr=cst.Name(value=name), value=owner):
                return name not in _TELLING_SIZE and (is_gradient(node) or self._mentions(owner))
            case cst.Call(func=func, args=args) if words := self._asked(func):
                of_owner = isinstance(func, cst.Attribute) and not self._model.names.qualified(func)
                if words <= _TELLING_SIZE | _OF_SIZE:
                    return any(map(self._mentions, args[not of_owner :]))
                return any(map(self._mentions, children(node)))
            case cst.SimpleString():
                return literal(node) == _GRADIENT
            case cst.Comparison(left=left, comparisons=[one]) if isinstance(
                one.operator, (cst.Is, cst.IsNot)
            ):
                return literal(one.comparator) is not None and self._mentions(left)
            case cst.Arg(value=value):
                return self._mentions(value)
        return any(map(self._mentions, children(node)))

    def _asked(self, func: cst.BaseExpression) -> set[str]:
        """The last names of what is called."""
        names = {name.rpartition(".")[2] for name in self._model.names.qualified(func)}
        return names or ({func.attr.value} if isinstance(func, cst.Attribute) else set())


def _lines(body: cst.BaseSuite) -> Iterator[cst.CSTNode]:
    for line in statements_of(body):
        is_text = isinstance(line, cst.Expr) and isinstance(literal(line.value), str)
        yield from () if is_text else (line,)


def _calls(node: cst.CSTNode) -> Iterator[cst.Call]:
    if isinstance(node, cst.Call):
        yield node
    for part in children(node):
        yield from _calls(part)
