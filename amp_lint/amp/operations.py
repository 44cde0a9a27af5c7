"""Tensor operations in all their spellings: function, method, module, operator, local helper."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, replace

import libcst as cst

from amp_lint.amp.results import Results
from amp_lint.flow.reaching import Flow
from amp_lint.flow.values import Arguments, Values, arguments, called_on, literal
from amp_lint.syntax.assignments import targets_of
from amp_lint.syntax.names import Binding, Names, dotted
from amp_lint.syntax.tree import Tree
from amp_lint.vocabulary.expressions import ALIASES, CLASSES, LIMITS, TAKES_MORE, root_or_square
from amp_lint.vocabulary.modules import CASTING, KEEPING

_HOMES = ("torch", "torch.nn.functional", "torch.special")
_MODULES = {f"torch.nn.{module}": name for name, module in (CLASSES | LIMITS).items()}
"""Modules that apply one operation, and that operation."""
_OPERATORS = {cst.Add: "add", cst.Subtract: "sub", cst.Multiply: "mul", cst.Divide: "div",
              cst.Power: "pow"}  # fmt: skip
_MAX_STEPS = 12
_KEEPING = KEEPING | CASTING
_FOLLOWED = ("assign", "unpack", "parameter")
"""Kinds of bindings whose value is known, by calls if not by itself."""


class Form(enum.Enum):
    """How an operation is written."""

    FUNCTION = "torch.f(x)"
    METHOD = "x.f()"
    MODULE = "self.f(x), where self.f = nn.F()"
    LAST = "the last module of an nn.Sequential"
    OPERATOR = "x + y, x[i]"


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One operation and what it is applied to."""

    name: str
    """As torch calls it: ``softmax``, ``clamp``, ``add``, ``getitem``.

    One name of several; ``1 - x`` is ``rsub``, ``1 / x`` is ``rdiv``, ``x**0.5`` is ``sqrt`` and
    ``x * x`` is ``square``.
    """
    node: cst.BaseExpression
    form: Form
    input: cst.BaseExpression | None
    """None where the input is hidden, as in an nn.Sequential."""
    args: Arguments
    """The other arguments; for a module those of its constructor."""
    constructor: cst.Call | None = None
    """For a module: the call that makes it."""
    elsewhere: bool = False
    """Whether ``node`` stands in a function that is called, not at the place asked about."""
    via: tuple[Through, ...] = ()
    """The local names through which the result reached the next operation of a chain."""


@dataclass(frozen=True, slots=True, eq=False)
class Through:
    """The use of a local name that certainly holds what ``binding`` gave it."""

    name: cst.Name
    binding: Binding


class Operations:
    """Recognises operations, and follows a value back through the operations that made it."""

    def __init__(
        self, tree: Tree, names: Names, values: Values, flow: Flow, results: Results
    ) -> None:
        self.tree = tree
        self.results = results
        self.names = names
        self.values = values
        self.flow = flow

    def of(self, node: cst.CSTNode) -> Operation | None:
        """The operation whose result an expression is, if it is one."""
        if isinstance(node, cst.Call):
            called = self._of_call(node)
            return self._squared(_canonical(called)) if called is not None else None
        if isinstance(node, cst.BinaryOperation) and type(node.operator) in _OPERATORS:
            return self._of_operator(node)
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
            return Operation("neg", node, Form.OPERATOR, node.expression, _NOTHING)
        if isinstance(node, cst.Subscript):
            return Operation("getitem", node, Form.OPERATOR, node.value, _NOTHING)
        return None

    def _of_operator(self, node: cst.BinaryOperation) -> Operation:
        name, left, right = _OPERATORS[type(node.operator)], node.left, node.right
        if name != "pow" and self._is_number(left):
            left, right = right, left
            name = f"r{name}" if name in ("sub", "div") else name
        given = Arguments((right,), {}, False)
        return self._squared(_canonical(Operation(name, node, Form.OPERATOR, left, given)))

    def _squared(self, operation: Operation) -> Operation:
        """A product of something with itself as what it is: a square."""
        other, source = operation.args.get(0, "other"), self.tree.linked.source
        if operation.name != "mul" or operation.input is None or other is None:
            return operation
        if source(operation.input) != source(other):
            return operation
        return replace(operation, name="square", args=_NOTHING)

    def _is_number(self, node: cst.BaseExpression) -> bool:
        """Whether an operand is a number, written out or under a name, and no tensor."""
        return all(isinstance(value, (int, float)) for value in self.values.usual(node))

    def chain(
        self, node: cst.BaseExpression | None, *, entering: bool = False
    ) -> Iterator[Operation]:
        """The operations that made a value, the last one first.

        Follows local names that certainly hold their value, and functions of this file that
        consist of one ``return`` of operations on their first parameter; if ``entering``, also
        functions, methods and modules to the only value that they return, parameters to what the
        only call gives for them, and what is done to a variable under a condition.
        """
        via: tuple[Through, ...] = ()
        entered = False
        for _ in range(_MAX_STEPS):
            if node is None:
                return
            given = self._given(node) if entering else None
            if given is not None:
                node, entered = given, True
                continue
            steps = self._steps(node)
            if steps:
                yield replace(steps[0], via=via, elsewhere=steps[0].elsewhere or entered)
                yield from steps[1:]
                via, node = (), self._source(node, steps)
                continue
            binding = self._held(node, entering=entering)
            if binding is None or not isinstance(node, cst.Name):
                return
            entered = entered or binding is not self.flow.held(node)
            via, node = (*via, Through(node, binding)), self.results.bound(binding)

    def _held(self, node: cst.BaseExpression, *, entering: bool) -> Binding | None:
        """The binding of a name that certainly has its value still, also one of several."""
        if not entering or not isinstance(node, cst.Name):
            return self.flow.held(node)
        found = self.flow.certain(node) or self._changed(node)
        return found if found is not None and found.kind in _FOLLOWED else None

    def _changed(self, name: cst.Name) -> Binding | None:
        """``x = softmax(x)`` under a condition, where it is the last that is done to a variable.

        Or ``p = softmax(x)`` on one way, and ``p = x`` on the other.
        """
        reaching = self.flow.reaching(name)
        for each in reaching[: 2 if len(reaching) == 2 else 1]:
            made = self.of(each.value) if each.kind == "assign" and each.value is not None else None
            if made is None or not isinstance(made.input, cst.Name):
                continue
            others = [other.value for other in reaching if other is not each]
            plain = any(isinstance(o, cst.Name) and o.value == made.input.value for o in others)
            if plain or (each is reaching[0] and made.input.value == name.value):
                return each
        return None

    def given(self, node: cst.BaseExpression | None) -> list[cst.BaseExpression]:
        """What the calls of a function give for a parameter, where there are several."""
        binding = self.flow.certain(node) if node is not None else None
        given = self.results.given(binding) if binding is not None else []
        return [each for each in given if each is not None] if len(given) > 1 else []

    def opposites(self, step: Operation) -> tuple[cst.BaseExpression, ...]:
        """Of ``where(y == 1, p, 1 - p)`` and ``p * y + (1 - p) * (1 - y)`` what is chosen from."""
        if step.name == "where" and step.form is Form.FUNCTION and not step.args.keywords:
            return self._opposed(step.args.positional)
        node = step.node
        if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Add):
            return ()
        sides = [each for each in (node.left, node.right) if isinstance(each, cst.BinaryOperation)]
        if len(sides) != 2 or not all(isinstance(each.operator, cst.Multiply) for each in sides):
            return ()
        (one, other), (first, second) = ((each.left, each.right) for each in sides)
        pairs = (self._opposed((one, first)), self._opposed((other, second)))
        if not all(pairs):
            pairs = (self._opposed((one, second)), self._opposed((other, first)))
        return (*pairs[0], *pairs[1]) if all(pairs) else ()

    def _opposed(self, pair: tuple[cst.BaseExpression, ...]) -> tuple[cst.BaseExpression, ...]:
        """Two values, if one is 1 minus the other."""
        source = self.tree.linked.source
        for one, other in (pair, pair[::-1]) if len(pair) == 2 else ():
            made = self.of(one)
            if made is None or made.name != "rsub" or made.input is None:
                continue
            if literal(made.args.get(0, "other")) == 1 and source(made.input) == source(other):
                return pair
        return ()

    def _given(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """What a call gives that is no operation by itself, or an attribute was assigned last."""
        if isinstance(node, cst.Attribute):
            return self._kept(node)
        if not isinstance(node, cst.Call) or self.helper_result(node) is not None:
            return None
        operation = self.of(node)
        plain = operation is not None and operation.form in (Form.FUNCTION, Form.MODULE, Form.LAST)
        return None if plain else self.results.of(node)

    def _kept(self, node: cst.Attribute) -> cst.BaseExpression | None:
        """What ``self.x`` was assigned above, in the same function and in a block around it."""
        if dotted(node.value) != "self":
            return None
        order, named = self.tree.linked.order, dotted(node)
        values = [each for each in self.values.attribute_values(node) if order(each) < order(node)]
        last = max(values, key=order, default=None)
        block = self._block(last) if last is not None else None
        if last is None or block is None or not self.tree.linked.contains(block, node):
            return None
        targets = [dotted(target) for target in targets_of(self.tree, last)]
        if targets != [named] or isinstance(last, cst.Name) or self._is_written(last, node):
            return None
        return last

    def _is_written(self, made: cst.BaseExpression, node: cst.Attribute) -> bool:
        """Whether a method changes ``self.x`` in place between an assignment and a use."""
        order, named = self.tree.linked.order, dotted(node)
        home = self.tree.linked.ancestor(node, cst.FunctionDef)
        calls = self.tree.linked.below(home, cst.Call) if home is not None else ()
        between = (call.func for call in calls if order(made) < order(call) < order(node))
        return any(
            dotted(func.value) == named and func.attr.value.rstrip("_") == func.attr.value[:-1]
            for func in between
            if isinstance(func, cst.Attribute)
        )

    def _block(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The block of a function in which a node stands."""
        inside = self.tree.linked.ancestor(node, cst.FunctionDef) is not None
        return self.tree.linked.ancestor(node, cst.IndentedBlock) if inside else None

    def _steps(self, node: cst.BaseExpression) -> list[Operation]:
        """The operation that an expression is, or those of the helper function that it calls."""
        result = self.helper_result(node)
        if result is None:
            operation = self.of(node)
            return [operation] if operation is not None else []
        steps: list[Operation] = []
        operation = self.of(result)
        while operation is not None and len(steps) < _MAX_STEPS:
            steps.append(replace(operation, elsewhere=True))
            operation = self.of(operation.input) if operation.input is not None else None
        return steps

    def _source(
        self, node: cst.BaseExpression, steps: list[Operation]
    ) -> cst.BaseExpression | None:
        """What the innermost of ``steps`` is applied to, seen from ``node``."""
        end = steps[-1].input
        if not steps[-1].elsewhere:
            return end
        assert isinstance(node, cst.Call)
        function = self.values.function(node.func)
        first = function.params.params[0].name.value if function is not None else ""
        used = isinstance(end, cst.Name) and end.value == first
        return arguments(node).get(0, first) if used else None

    def weighted_by(self, node: cst.BaseExpression, weight: Binding | str, steps: int = 3) -> bool:
        """Whether a value is only used multiplied by a variable or what is written like ``weight``.

        As in ``p * log(p)``, ``(1 - p) * log(1 - p)``, ``p * (log(p) - log(q))``.
        """
        parent = self.tree.parent(node)
        if isinstance(parent, cst.UnaryOperation) or (
            isinstance(parent, cst.BinaryOperation)
            and isinstance(parent.operator, (cst.Add, cst.Subtract))
        ):
            return self.weighted_by(parent, weight, steps)
        if isinstance(parent, cst.BinaryOperation) and isinstance(parent.operator, cst.Multiply):
            other = parent.left if parent.right is node else parent.right
            return self._reads(other, weight) or self.weighted_by(parent, weight, steps)
        if isinstance(parent, cst.Arg):
            call = self.tree.parent(parent)
            product = self.of(call) if isinstance(call, cst.Call) else None
            if product is None or product.name not in ("mul", "multiply"):
                return False
            factors = (product.input, *product.args.positional)
            return any(each is not None and self._reads(each, weight) for each in factors)
        if targets_of(self.tree, node) and steps > 0:
            bindings = [b for b in self.names.every_binding() if b.value is node]
            readers = [name for binding in bindings for name in self.flow.readers(binding)]
            return bool(readers) and all(self.weighted_by(r, weight, steps - 1) for r in readers)
        return False

    def _reads(self, node: cst.BaseExpression, binding: Binding | str) -> bool:
        """Whether an expression is the variable, or a product with it."""
        if isinstance(binding, str) and self.tree.linked.source(node) == binding:
            return True
        if isinstance(node, cst.UnaryOperation):
            return self._reads(node.expression, binding)
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
            return self._reads(node.left, binding) or self._reads(node.right, binding)
        known = isinstance(node, cst.Name) and isinstance(binding, Binding)
        return known and binding in self.flow.reaching(node)  # type: ignore[arg-type]

    # --- one call -----------------------------------------------------------------------------

    def _of_call(self, call: cst.Call) -> Operation | None:
        args = arguments(call)
        names = self.names.qualified(call.func)
        if names:
            return self._of_function(call, names, args)
        func = call.func
        own = isinstance(func, cst.Attribute) and dotted(func.value) in ("self", "cls")
        if isinstance(func, cst.Attribute) and not own and not self._constructors(func):
            return Operation(func.attr.value, call, Form.METHOD, func.value, args)
        return self._of_module(call, args)

    def _of_function(
        self, call: cst.Call, names: frozenset[str], args: Arguments
    ) -> Operation | None:
        found = {name.rpartition(".") for name in names}
        if any(home not in _HOMES for home, _, _ in found) or args.starred:
            return None
        members = {member for _, _, member in found}
        input_, rest = _split(args)
        if len(members) != 1 or input_ is None:
            return None
        return Operation(members.pop(), call, Form.FUNCTION, input_, rest)

    def _of_module(self, call: cst.Call, args: Arguments) -> Operation | None:
        constructors = self._constructors(call.func)
        input_, rest = _split(args)
        if len(constructors) != 1 or input_ is None:
            return None
        constructor = constructors[0]
        if self.names.is_only(constructor.func, {"torch.nn.Sequential"}):
            return self._of_sequential(call, constructor)
        name = self._module_name(constructor)
        more = bool(rest.positional or rest.keywords)
        if name is None or more is not (name in TAKES_MORE):
            return None
        settings = rest if more else arguments(constructor)
        return Operation(name, call, Form.MODULE, input_, settings, constructor)

    def _of_sequential(self, call: cst.Call, sequential: cst.Call) -> Operation | None:
        parts = arguments(sequential)
        if not parts.positional or parts.starred:
            return None
        last = list(self.values.alternatives(parts.positional[-1]))
        if len(last) != 1 or not isinstance(last[0], cst.Call):
            return None
        name = self._module_name(last[0])
        return Operation(name, call, Form.LAST, None, arguments(last[0]), last[0]) if name else None

    def _module_name(self, constructor: cst.Call) -> str | None:
        names = self.names.qualified(constructor.func)
        return _MODULES.get(next(iter(names))) if len(names) == 1 else None

    def _constructors(self, func: cst.BaseExpression) -> list[cst.Call]:
        """The calls that make the module ``func`` stands for; [] if it may be anything else."""
        made = [called_on(value, _KEEPING) for value in self._modules(func)]
        if not all(isinstance(value, cst.Call) for value in made):
            return []
        return [*{id(value): value for value in made if isinstance(value, cst.Call)}.values()]

    def _modules(self, func: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """What is called as ``func``; of a parameter, what all calls give for it."""
        for value in self.values.alternatives(func):
            given = self.results.handed(value) if isinstance(value, cst.Name) else []
            yield from (made for each in given for made in self.values.alternatives(each))
            yield from () if given else (value,)

    # --- helper functions ---------------------------------------------------------------------

    def helper_result(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """What a function of this file that consists of one ``return`` makes of its argument."""
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Name):
            return None
        function = self.values.function(node.func)
        if function is None or not function.params.params:
            return None
        return _only_return(function)


_NOTHING = Arguments((), {}, False)


def _canonical(operation: Operation) -> Operation:
    """An operation by the one name that it has here."""
    name = ALIASES.get(operation.name, operation.name)
    power = root_or_square(name, literal(operation.args.get(0, "exponent")))
    if power:
        return replace(operation, name=power, args=_NOTHING)
    return operation if name == operation.name else replace(operation, name=name)


def _split(args: Arguments) -> tuple[cst.BaseExpression | None, Arguments]:
    """The input of a function and its other arguments."""
    if "input" in args.keywords:
        rest = {name: value for name, value in args.keywords.items() if name != "input"}
        return args.keywords["input"], Arguments(args.positional, rest, args.starred)
    if not args.positional:
        return None, args
    return args.positional[0], Arguments(args.positional[1:], args.keywords, args.starred)


def _only_return(function: cst.FunctionDef) -> cst.BaseExpression | None:
    """What a function of one statement returns; a docstring does not count."""
    body = function.body.body
    lines = [line for line in body if isinstance(line, cst.SimpleStatementLine)]
    small = [s for line in lines for s in line.body if not _is_docstring(s)]
    if len(lines) != len(body) or len(small) != 1 or not isinstance(small[0], cst.Return):
        return None
    return small[0].value


def _is_docstring(statement: cst.CSTNode) -> bool:
    return isinstance(statement, cst.Expr) and isinstance(
        statement.value, (cst.SimpleString, cst.ConcatenatedString)
    )
