"""Which expressions are gradients, and which calls tell how large they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import libcst as cst

from amp_lint.amp.operations import Form, Operations
from amp_lint.flow.program import Program
from amp_lint.flow.values import Values, arguments
from amp_lint.syntax.memo import per_node
from amp_lint.syntax.names import Binding, Names, callee, dotted
from amp_lint.syntax.tree import Tree, children, descendants, is_a
from amp_lint.vocabulary.meaning import Kind, Role
from amp_lint.vocabulary.operations import CASTS, LIKE, RANDOM, SIZES, WHOLE
from amp_lint.vocabulary.operations import operations as table
from amp_lint.vocabulary.table import methods, rows, words
from amp_lint.vocabulary.training import ADDING, MEASURES, PLOTS, READING, REPLACING, SAME_NUMBERS
from amp_lint.vocabulary.written import ABOUT_GRADIENTS, LOOKED_FOR, NOT_FINITE

_NO_GRAD = frozenset({"torch.no_grad", "torch.inference_mode"})
_LIMITS = methods(Role.GRADIENT, rows(Kind.GRADIENT_READ))
_FUNCTIONS = frozenset(
    {"torch.linalg.norm", "torch.linalg.vector_norm", "torch._foreach_norm"}
    | {f"torch.{name}" for name in MEASURES - READING}
)
_REPLACING = frozenset(f"torch.{name}" for name in REPLACING)
_JOINING = frozenset({"torch.cat", "torch.concat", "torch.stack"})
_CUTTING = frozenset({"detach"} | {name for name, dtype in CASTS.items() if dtype in WHOLE})
_DETACHING = frozenset({"detach"})
_FROM_OUTSIDE = frozenset({"__call__", "forward"})
"""The methods that run where an object is called, in whatever file."""
_OF_ARRAYS = frozenset({"numpy", "scipy"})
_NUMBERS = frozenset({"builtins.bool", "builtins.float", "builtins.int"})
"""What makes a number of Python's of a tensor."""
_GOING_BACK = words(Kind.BACKWARD) | {"append", "grad"}
"""What takes gradients, or keeps a value."""
_FILLING = frozenset({"masked_fill", "masked_fill_"})
_CHOOSING = frozenset({"torch.where"})
_MASK = (0, "mask")
"""Where what fills in some numbers, or chooses them, is given which; ``where`` by position."""
_MAX_STEPS = 8


def is_gradient(node: cst.BaseExpression) -> bool:
    """Whether an expression is ``p.grad`` or ``p.grad.data``."""
    return _owner(node) is not None


def _owner(node: cst.CSTNode) -> cst.CSTNode | None:
    """``p`` of ``p.grad`` or ``p.grad.data``; None of what is no gradient."""
    while is_a(node, cst.Attribute):
        if node.attr.value == "grad":
            return node.value
        node = node.value
    return None


def is_limit(call: cst.Call) -> bool:
    """Whether a change of gradients depends on how large they are: ``p.grad.clamp_(-1, 1)``."""
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in _LIMITS


def _addition(
    tree: Tree, write: cst.CSTNode
) -> tuple[cst.CSTNode | None, cst.BaseExpression | None]:
    """The gradients that a change adds something to, and that: ``p.grad += x``."""
    match write:
        case cst.AugAssign(
            target=target, operator=cst.AddAssign() | cst.SubtractAssign(), value=value
        ):
            return target, value
        case cst.Call(
            func=cst.Attribute(value=target, attr=cst.Name(value=name)),
            args=[cst.Arg(value=value, keyword=None), *_],
        ) if name in ADDING:
            return target, value
    match tree.parent(tree.parent(write) or write):
        case cst.Assign(
            value=cst.BinaryOperation(left=left, operator=cst.Add() | cst.Subtract(), right=right)
        ):
            others = [part for part in (left, right) if not is_gradient(part)]
            return (write, others[0]) if len(others) == 1 else (None, None)
    return None, None


def _summed(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The parts of an expression whose numbers it is made of: no shapes, and no indices."""
    yield node
    match node:
        case cst.Subscript(value=whole):
            yield from _summed(whole)
        case cst.Attribute(attr=cst.Name(value=name)) if name in SIZES:
            return
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=name))) if name in LIKE:
            return
        case _:
            for part in children(node):
                yield from _summed(part)


def limited(call: cst.Call, names: Names) -> cst.BaseExpression | None:
    """What ``torch.clamp(x, -1, 1)`` or ``x.clamp(-1, 1)`` limits; None for another call."""
    plain = {limit.rstrip("_") for limit in _LIMITS}
    if call.args and names.is_any(call.func, {f"torch.{name}" for name in plain}):
        return call.args[0].value
    if isinstance(call.func, cst.Attribute) and call.func.attr.value in plain | _LIMITS:
        return call.func.value
    return None


def is_untracked(tree: Tree, names: Names, node: cst.CSTNode) -> bool:
    """Whether a place is certainly under ``no_grad`` or ``inference_mode`` in its own function."""
    for holder in tree.ancestors(node):
        if isinstance(holder, cst.With):
            contexts = [item.item for item in holder.items]
        elif isinstance(holder, cst.FunctionDef):
            contexts = [decorator.decorator for decorator in holder.decorators]
        else:
            continue
        if any(names.is_only(callee(each), _NO_GRAD) for each in contexts):
            return True
        if isinstance(holder, cst.FunctionDef):
            return False
    return False


def is_never_tracked(program: Program, node: cst.CSTNode, steps: int = _MAX_STEPS) -> bool:
    """Whether a place is under ``no_grad``, or in a function that is only called from there.

    It is a method that its class calls, one that it inherits from, or one that inherits from it; or
    a function inside of another, or by its name of no other file. Who calls another one is not
    known: other files may import it.
    """
    if is_untracked(program.tree, program.names, node):
        return True
    function = program.function_of(node)
    if function is None or steps <= 0:
        return False
    return _is_only_run(
        program,
        function,
        lambda call: is_never_tracked(program, call, steps - 1),
    )


def is_matching_cost(program: Program, node: cst.CSTNode, steps: int = _MAX_STEPS) -> bool:
    """Whether a place is in an object that is called for costs, and is no module: a matcher's.

    Matchers compare all predictions with all targets, by numbers that they detach. Methods that
    such an object only runs when it is called are part of that.
    """
    function = program.function_of(node)
    owner = program.values.enclosing_class(function) if function is not None else None
    if function is None or owner is None or steps <= 0:
        return False
    names = {base.name.value for base in program.values.lineage(owner)}
    if not any(name.endswith("Cost") for name in names):
        return False
    return function.name.value == "__call__" or _is_only_run(
        program, function, lambda call: is_matching_cost(program, call, steps - 1)
    )


def is_in_test(program: Program, node: cst.CSTNode) -> bool:
    """Whether a place is in a function that is run as a test, by its name."""
    functions = (h for h in program.tree.ancestors(node) if isinstance(h, cst.FunctionDef))
    return any(LOOKED_FOR.match(function.name.value) for function in functions)


def _is_only_run(
    program: Program, function: cst.FunctionDef, holds: Callable[[cst.Call], bool]
) -> bool:
    """Whether something holds of all calls of a function, and there are no others."""
    owner, name = program.values.enclosing_class(function), function.name.value
    is_inner = program.tree.ancestor(function, cst.FunctionDef) is not None
    if name in _FROM_OUTSIDE or (owner is None and not is_inner and not name.startswith("_")):
        return False
    calls = {id(call): call for call in program.calls_of(function)}
    if owner is not None:
        calls |= {id(call): call for call in _calls_on_self(program, owner, name)}
    elif len(program.tree.named(name)) > len(calls) + 1:  # it may be handed to others
        return False
    return bool(calls) and all(
        program.function_of(call) is not function and holds(call) for call in calls.values()
    )


def _calls_on_self(program: Program, owner: cst.ClassDef, name: str) -> Iterator[cst.Call]:
    """The calls of a method in its class, in those that this inherits from, and in its heirs."""
    for each in (*program.values.lineage(owner), *program.values.heirs(owner)):
        for call in program.tree.below(each, cst.Call):
            if dotted(call.func) == f"self.{name}":
                yield call


def is_read_out(
    program: Program, operations: Operations, node: cst.CSTNode, steps: int = _MAX_STEPS
) -> bool:
    """Whether a value is only read: as numbers of Python's, in comparisons, for indices, detached.

    So no gradient goes through it. Of what a function returns, or a variable holds, that is so if
    it is wherever the function is called, or the variable read.
    """
    tree, parent = program.tree, program.tree.parent(node)
    if steps <= 0:
        return False
    match parent:
        case cst.Attribute(attr=cst.Name(value=name)) if name in READING:
            return True
        case cst.Comparison() | cst.ComparisonTarget():
            return True
        case cst.Attribute() | cst.Arg() if isinstance(call := tree.parent(parent), cst.Call):
            if _has_no_gradient(operations, call):
                return True
            called = isinstance(parent, cst.Attribute) and call.func is parent
            made = called or _is_of_torch(operations, call)
            return made and is_read_out(program, operations, call, steps - 1)
        case cst.BinaryOperation() | cst.UnaryOperation() | cst.Subscript():
            return is_read_out(program, operations, parent, steps - 1)
        case cst.Return():
            function = program.function_of(parent)
            calls = program.calls_of(function) if function is not None else ()
            return _are_read_out(program, operations, calls, steps)
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name())]):
            bindings = (b for b in program.names.every_binding() if b.value is node)
            readers = [name for each in bindings for name in operations.flow.readers(each)]
            return _are_read_out(program, operations, readers, steps)
    return False


def is_cut_off(program: Program, node: cst.CSTNode) -> bool:
    """Whether all that a function gives back is detached, and what it computes kept nowhere."""
    function = program.function_of(node)
    if function is None:
        return False
    returns = program.tree.below(function, cst.Return)
    targets = program.tree.below(function, cst.AssignTarget)
    calls = program.tree.below(function, cst.Call)
    return (
        bool(returns)
        and all(each.value is not None and _is_detached(each.value) for each in returns)
        and not any(isinstance(each.target, cst.Attribute) for each in targets)
        and not any(_is_of(call.func, _GOING_BACK) for call in calls)
    )


def _is_detached(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.Tuple):
        return all(_is_detached(element.value) for element in node.elements)
    return isinstance(node, cst.Call) and _is_of(node.func, _DETACHING)


def _is_of(func: cst.BaseExpression, names: frozenset[str]) -> bool:
    return isinstance(func, cst.Attribute) and func.attr.value in names


def _are_read_out(
    program: Program, operations: Operations, nodes: Sequence[cst.CSTNode], steps: int
) -> bool:
    return bool(nodes) and all(is_read_out(program, operations, n, steps - 1) for n in nodes)


def _has_no_gradient(operations: Operations, call: cst.Call) -> bool:
    """Whether a call gives truth values or numbers, or what is cut off from the graph.

    NumPy and SciPy refuse a tensor that is not.
    """
    names = operations.names.qualified(call.func)
    if names and all(name.partition(".")[0] in _OF_ARRAYS for name in names):
        return True
    if operations.names.is_only(call.func, _NUMBERS):
        return True
    made = operations.of(call)
    name = made.name if made is not None else ""
    return name in _CUTTING or table().gives.get(name, "") in WHOLE


def _is_of_torch(operations: Operations, call: cst.Call) -> bool:
    """Whether a call is of a function of torch, whose result is made of what it is given."""
    made = operations.of(call)
    return made is not None and made.form is Form.FUNCTION


class GradientValues:
    """Follows gradients through names, casts and products."""

    def __init__(self, names: Names, values: Values) -> None:
        self.names = names
        self.values = values

    def is_measure(self, call: cst.Call) -> bool:
        """Whether a call tells how large gradients are: ``p.grad.norm()``, ``torch.norm(g)``."""
        method = call.func if isinstance(call.func, cst.Attribute) else None
        if method and method.attr.value in MEASURES and self.holds(method.value):
            return True
        plotted = self._plotted(call)
        if plotted is not None:
            return self.holds(plotted)
        if not call.args or not self.names.is_any(call.func, _FUNCTIONS):
            return False
        return self.holds(call.args[0].value)

    def replaced(self, call: cst.Call) -> cst.BaseExpression | None:
        """The gradient that a call gives with other numbers for inf and NaN; None if it is none."""
        given: cst.BaseExpression | None = None
        if self.names.is_any(call.func, _REPLACING):
            given = arguments(call).get(0, "input")
        elif isinstance(call.func, cst.Attribute) and call.func.attr.value in REPLACING:
            given = call.func.value
        else:
            given = self._masked(call)
        return given if given is not None and self.holds(given) else None

    def _masked(self, call: cst.Call) -> cst.BaseExpression | None:
        """What a call fills in or chooses from, where gradients are inf or NaN, or are not."""
        fills = isinstance(call.func, cst.Attribute) and call.func.attr.value in _FILLING
        if not fills and not self.names.is_any(call.func, _CHOOSING):
            return None
        mask = arguments(call).get(*_MASK)
        if mask is None or not self.asks_if_finite(mask):
            return None
        if fills and isinstance(call.func, cst.Attribute):
            return call.func.value
        return next((arg.value for arg in call.args[1:] if self.holds(arg.value)), None)

    def asks_if_finite(self, mask: cst.BaseExpression) -> bool:
        """Whether a mask says where gradients are inf or NaN: ``~torch.isfinite(p.grad)``."""
        parts = (part for value in self.values.alternatives(mask) for part in descendants(value))
        return any(isinstance(part, cst.Call) and self.is_asked(part) for part in parts)

    def is_asked(self, call: cst.Call) -> bool:
        """Whether a call asks gradients where they are inf or NaN: ``torch.isnan(p.grad)``."""
        func = call.func
        name = func.attr if isinstance(func, cst.Attribute) else func
        if not isinstance(name, cst.Name) or name.value not in NOT_FINITE:
            return False
        owner = func.value if isinstance(func, cst.Attribute) else None
        asked = call.args[0].value if call.args else owner
        return asked is not None and self.holds(asked)

    def adds_unscaled(self, tree: Tree, write: cst.CSTNode) -> bool:
        """Whether what a change adds to gradients is made of their weights, or is random.

        Not where it may be made of gradients, or be scaled as they are, by its names.
        """
        gradient, added = _addition(tree, write)
        weight = _owner(gradient) if gradient is not None else None
        if weight is None or added is None:
            return False
        parts = [part for value in self.values.alternatives(added) for part in _summed(value)]
        names = (part.value for part in parts if isinstance(part, cst.Name))
        attributes = (part.attr.value for part in parts if isinstance(part, cst.Attribute))
        if any(map(ABOUT_GRADIENTS.search, (*names, *attributes))):
            return False
        made = (part.func for part in parts if isinstance(part, cst.Call))
        is_random = any(self.names.is_any(func, RANDOM) for func in made)
        return is_random or any(tree.source(part) == tree.source(weight) for part in parts)

    def _plotted(self, call: cst.Call) -> cst.BaseExpression | None:
        """What a call makes a histogram of."""
        for row in PLOTS:
            method = isinstance(call.func, cst.Attribute) and call.func.attr.value in row.methods
            if method or self.names.is_any(call.func, frozenset(row.names)):
                return arguments(call).get(len(row.order) - 1, row.order[-1])
        return None

    @per_node
    def is_kept(self, call: cst.Call) -> bool:
        """Whether a measure is of gradients that were put aside under a name before."""
        measured = [call.func.value] if isinstance(call.func, cst.Attribute) else []
        measured += [arg.value for arg in call.args]
        return any(
            isinstance(part, cst.Name) and self._is_named(part, _MAX_STEPS)
            for whole in measured
            for part in descendants(whole)
        )

    def holds(self, node: cst.BaseExpression, steps: int = _MAX_STEPS) -> bool:
        """Whether an expression is a gradient, several of them, or made of one by arithmetic."""
        if steps <= 0:
            return False
        steps -= 1
        match node:
            case cst.Attribute():
                return is_gradient(node)
            case cst.Name():
                return self._is_named(node, steps)
            case cst.Subscript(value=whole):
                return self.holds(whole, steps)
            case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name(value=method)), args=args):
                if method in SAME_NUMBERS and self.holds(owner, steps):
                    return True
                joined = bool(args) and self.names.is_any(node.func, _JOINING)
                return joined and self.holds(args[0].value, steps)
            case cst.BinaryOperation(left=left, right=right):
                return self.holds(left, steps) or self.holds(right, steps)
            case cst.ListComp(elt=element) | cst.GeneratorExp(elt=element):
                return self.holds(element, steps)
        return False

    def _is_named(self, name: cst.Name, steps: int) -> bool:
        bindings = self.names.bindings(name)
        return bool(bindings) and all(self._is_bound(binding, steps) for binding in bindings)

    def _is_bound(self, binding: Binding, steps: int) -> bool:
        if isinstance(binding.node, (cst.For, cst.CompFor)):
            single = isinstance(binding.node.target, cst.Name)
            return single and self.holds(binding.node.iter, steps)
        if binding.kind != "assign" or binding.value is None:
            return False
        return self.holds(binding.value, steps)
