"""Runs a function over abstract dtypes, statement by statement: what each expression may be.

Forward and once: branches are joined, loops go round until nothing changes, and what still does
after `_ROUNDS` is unknown. Nothing is assumed of code that is not in reach.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import libcst as cst

from amp_lint.amp.dtype_calls import Calls
from amp_lint.amp.dtypes import (
    ANY,
    COMPLEX,
    LOW,
    OTHER,
    SOME_NUMBER,
    UNKNOWN,
    Ambient,
    Dims,
    Kind,
    Run,
    Value,
    applied,
    held,
    join,
    number,
    progressed,
    record,
    tensor,
)
from amp_lint.flow.values import literal
from amp_lint.syntax.assignments import taken
from amp_lint.syntax.names import Names, dotted
from amp_lint.syntax.tree import Tree, children, statements_of
from amp_lint.vocabulary.amp import IS_ON
from amp_lint.vocabulary.modules import LOGITS
from amp_lint.vocabulary.operations import (
    ASKS_FOR_TENSOR,
    ATTRIBUTES,
    DTYPES,
    PLANES,
    RANGES,
    SIZES,
    TENSOR,
)

_ROUNDS = 3
_OPERATORS: dict[type[cst.CSTNode], str] = {
    cst.Add: "add", cst.Subtract: "sub", cst.Multiply: "mul", cst.Divide: "div",
    cst.FloorDivide: "floor_divide", cst.Modulo: "remainder", cst.Power: "pow",
    cst.MatrixMultiply: "matmul", cst.BitAnd: "mul", cst.BitOr: "mul", cst.BitXor: "mul",
    cst.AddAssign: "add", cst.SubtractAssign: "sub", cst.MultiplyAssign: "mul",
    cst.DivideAssign: "div", cst.PowerAssign: "pow", cst.MatrixMultiplyAssign: "matmul",
}  # fmt: skip
_COMPUTED: dict[type[cst.CSTNode], Callable[[float, float], float]] = {
    cst.Add: lambda a, b: a + b,
    cst.Subtract: lambda a, b: a - b,
    cst.Multiply: lambda a, b: a * b,
    cst.Divide: lambda a, b: a / b,
    cst.FloorDivide: lambda a, b: a // b,
    cst.Modulo: lambda a, b: a % b,
}
_DIVIDING = (cst.Divide, cst.FloorDivide, cst.Modulo)
_ISINSTANCE = frozenset({"builtins.isinstance"})
_CASTS = frozenset({"float", "to", "type", "type_as"})
_COLLECTING = frozenset({"append", "appendleft", "extend", "insert"})
Env = dict[str, Value]


class Program(Protocol):
    """What a run asks of the file."""

    tree: Tree
    names: Names

    def ambient(self, context: cst.BaseExpression, outer: Ambient) -> Ambient | None:
        """The autocast state inside of a ``with``; None if it is no such context."""
        ...

    def of_global(self, name: cst.Name) -> Value:
        """What a name of the module is."""
        ...

    def of_attribute(self, node: cst.Attribute) -> Value:
        """What the class of a method gives an attribute."""
        ...


class _Asked(NamedTuple):
    """A question about a dtype."""

    owner: str
    """Whose it is."""
    dtypes: frozenset[str]
    equal: bool
    """Whether it is to be one of these dtypes, or none of them."""
    read: cst.CSTNode
    """Where it is read."""


class Runner:
    """Goes through the statements of one function."""

    def __init__(self, program: Program, calls: Calls, run: Run) -> None:
        self.program = program
        self.calls = calls
        self.run = run
        self.ambient = run.ambient
        self._loops: list[list[Env]] = []
        self._stored: Env = {}
        function = run.function
        self.configures = (
            isinstance(function, cst.FunctionDef) and function.name.value == "__init__"
        )

    # --- statements ---------------------------------------------------------------------------

    def suite(self, statements: Iterable[cst.CSTNode], env: Env | None) -> Env | None:
        """The variables after some statements; None if their end is not reached."""
        for statement in statements:
            if env is None:
                return None
            env = self._statement(statement, env)
        return env

    def _statement(self, node: cst.CSTNode, env: Env) -> Env | None:
        handler = _STATEMENTS.get(type(node))
        return handler(self, node, env) if handler is not None else env

    def _assign(self, node: cst.Assign, env: Env) -> Env:
        value = self.value(node.value, env)
        for target in node.targets:
            self.bind(target.target, value, env)
        return env

    def _annotated(self, node: cst.AnnAssign, env: Env) -> Env:
        if node.value is not None:
            self.bind(node.target, self.value(node.value, env), env)
        return env

    def _augmented(self, node: cst.AugAssign, env: Env) -> Env:
        """A tensor is changed in place, and keeps its dtype; a number may become a tensor."""
        old, other = self.value(node.target, env), self.value(node.value, env)
        self.run.ambients[id(node)] = self.ambient
        if old.kind is Kind.TENSOR:
            return env
        name = _OPERATORS.get(type(node.operator), "")
        new = self._operation(name, type(node.operator), (old, other), node)
        self.bind(node.target, new, env)
        return env

    def _expression(self, node: cst.Expr, env: Env) -> Env:
        self.value(node.value, env)
        return env

    def _return(self, node: cst.Return, env: Env) -> None:
        value = self.value(node.value, env) if node.value is not None else OTHER
        known = self.run.result
        self.run.result = value if known is None else join(known, value)

    def _leave(self, node: cst.CSTNode, env: Env) -> None:
        if self._loops and not isinstance(node, cst.Raise):
            self._loops[-1].append(env)

    def _assert(self, node: cst.Assert, env: Env) -> Env:
        self.value(node.test, env)
        return self._told(node.test, True, env)

    def _defined(self, node: cst.FunctionDef | cst.ClassDef, env: Env) -> Env:
        env[node.name.value] = OTHER
        return env

    def _if(self, node: cst.If, env: Env) -> Env | None:
        self.value(node.test, env)
        then = self.suite(statements_of(node.body), self._told(node.test, True, dict(env)))
        if then is not None and self._asks_for_autocast(node.test):
            # it goes on in a region that nobody sees here
            for each in self.program.tree.below(node.body, cst.AssignTarget):
                self.bind(each.target, UNKNOWN, then)
        other: Env | None = self._told(node.test, False, env)
        if isinstance(node.orelse, cst.If):
            other = self._if(node.orelse, env)
        elif node.orelse is not None:
            other = self.suite(statements_of(node.orelse.body), other)
        return joined(then, other)

    def _asks_for_autocast(self, test: cst.BaseExpression) -> bool:
        calls = self.program.tree.below(test, cst.Call)
        return any(self.program.names.is_any(call.func, IS_ON) for call in calls)

    def _told(self, test: cst.BaseExpression, holds: bool, env: Env) -> Env:
        """The variables where a test of a dtype, or of a device, holds, or does not."""
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            return self._told(test.expression, not holds, env)
        if isinstance(test, cst.BooleanOperation):
            both = isinstance(test.operator, cst.And) == holds
            left = self._told(test.left, holds, env) if both else env
            alone = not holds and self._holds_of_tensors(test.left)
            return self._told(test.right, holds, left) if both or alone else left
        if isinstance(test, cst.Name) and not holds:
            made = self._made(test)
            is_test = isinstance(made, (cst.Comparison, cst.BooleanOperation))
            return self._told(made, False, env) if is_test else env
        placed = self._placed(test)
        if placed is not None and placed[1] is not holds and placed[0] in env:
            env[placed[0]] = _left(env[placed[0]])
        if not isinstance(test, cst.Comparison):
            return env
        if (compared := self._compared(test)) is not None:
            _tell_of_itself(test.left, *compared, holds, env)
        asked = self._asked(test)
        known = env.get(asked.owner) if asked is not None else None
        if asked is None or known is None or not known.is_tensor:
            return env
        if holds == asked.equal and asked.read is not getattr(test, "left", None):
            # it may have been cast since it was read, but not, unless that is seen, to less
            kept = known.dtypes if asked.dtypes & LOW else known.dtypes - LOW
            env[asked.owner] = replace(known, dtypes=kept or known.dtypes)
            return env
        said = asked.dtypes
        told = said <= LOW or not said & LOW
        unknown = said if told else known.dtypes  # a list of all that is supported says nothing
        kept = unknown if ANY in known.dtypes else known.dtypes & said or known.dtypes
        dtypes = kept if holds == asked.equal else known.dtypes - said
        env[asked.owner] = replace(known, dtypes=dtypes or frozenset({ANY}))
        return env

    def _holds_of_tensors(self, test: cst.BaseExpression) -> bool:
        """Whether a test asks if something is a tensor; of tensors it then holds."""
        if not isinstance(test, cst.Call):
            return False
        types = [arg.value for arg in test.args[1:]]
        is_any = self.program.names.is_any
        return is_any(test.func, ASKS_FOR_TENSOR) or (
            is_any(test.func, _ISINSTANCE) and len(types) == 1 and is_any(types[0], TENSOR)
        )

    def _placed(self, test: cst.BaseExpression) -> tuple[str, bool] | None:
        """Of what a test asks for the device, and whether it holds for what is on CUDA."""
        if isinstance(test, cst.Attribute) and test.attr.value in ("is_cuda", "is_cpu"):
            return dotted(test.value) or "", test.attr.value == "is_cuda"
        if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
            return None
        (comparison,), kind = test.comparisons, test.left
        if not isinstance(kind, cst.Attribute) or kind.attr.value != "type":
            return None
        device = self._made(kind.value) if isinstance(kind.value, cst.Name) else kind.value
        owner, _, attribute = (dotted(device) or "").rpartition(".")
        named = literal(comparison.comparator)
        if attribute != "device" or named not in ("cuda", "cpu"):
            return None
        equal = isinstance(comparison.operator, cst.Equal)
        if not equal and not isinstance(comparison.operator, cst.NotEqual):
            return None
        return owner, equal is (named == "cuda")

    def _asked(self, test: cst.Comparison) -> _Asked | None:
        """What a comparison asks of the dtype of a value."""
        left = self._made(test.left) if isinstance(test.left, cst.Name) else test.left
        owner, _, attribute = (dotted(left) or "").rpartition(".")
        compared = self._compared(test) if attribute == "dtype" and owner else None
        return _Asked(owner, *compared, left) if compared is not None else None

    def _compared(self, test: cst.Comparison) -> tuple[frozenset[str], bool] | None:
        """The dtypes that something is compared with, and whether it is to be one of them."""
        if len(test.comparisons) != 1:
            return None
        comparison = test.comparisons[0]
        right = comparison.comparator
        items = right.elements if isinstance(right, (cst.Tuple, cst.List, cst.Set)) else ()
        values = [each.value for each in items] or [right]
        said = {DTYPES.get(n) for value in values for n in self.program.names.qualified(value)}
        if not said or None in said:
            return None
        equal = isinstance(comparison.operator, (cst.Equal, cst.Is, cst.In))
        if not equal and not isinstance(comparison.operator, (cst.NotEqual, cst.IsNot, cst.NotIn)):
            return None
        return frozenset(dtype for dtype in said if dtype), equal

    def _made(self, name: cst.Name) -> cst.BaseExpression:
        """What a variable is that is nothing else, but for literals."""
        found = [v for v in self.calls.values.alternatives(name) if literal(v) is ...]
        return found[0] if len(found) == 1 else name

    @functools.cached_property
    def _tested(self) -> dict[object, frozenset[str]]:
        """What the function asks whether it is low: parameters by name, targets by identity.

        Of several targets the last before the question. What may be float32 as well says nothing.
        """
        tree = self.program.tree
        found: dict[object, frozenset[str]] = dict.fromkeys(self._returned_to(), LOW)
        targets = [(dotted(each.target), each.target)
                   for each in tree.below(self.run.function, cst.AssignTarget)]  # fmt: skip
        for test in tree.below(self.run.function, cst.Comparison):
            asked = self._asked(test)
            if asked is not None and asked.dtypes <= LOW:
                at = tree.order(asked.read)
                before = [t for name, t in targets if name == asked.owner and tree.order(t) < at]
                key = id(before[-1]) if before else asked.owner
                found[key] = found.get(key, frozenset()) | asked.dtypes
        return found

    def _returned_to(self) -> Iterator[str]:
        """The parameters of which something is made in float32, and given their dtype back."""
        function = self.run.function
        if not isinstance(function, cst.FunctionDef):
            return
        raised, returned = set[str](), set[str]()
        for call in self.program.tree.below(function, cst.Call):
            if isinstance(call.func, cst.Attribute) and call.func.attr.value in _CASTS:
                owner = dotted(call.func.value) or ""
                to = [arg.value for arg in call.args if arg.keyword is None or _says_dtype(arg)]
                names = {DTYPES.get(n) for each in to for n in self.program.names.qualified(each)}
                if call.func.attr.value == "float" or names == {"float32"}:
                    raised.add(owner)
                elif len(to) == 1 and self._is_returned(call):
                    like = self._made(to[0]) if isinstance(to[0], cst.Name) else to[0]
                    returned.add((dotted(like) or "").removesuffix(".dtype"))
        if not (raised and returned):
            return
        for each in self.program.tree.below(function, cst.Assign):
            if isinstance(each.value, cst.Name) and dotted(each.targets[0].target) in raised:
                raised.add(each.value.value)
        params = (param.name.value for param in function.params.params)
        yield from (name for name in params if name in raised & returned)

    def _is_returned(self, node: cst.BaseExpression) -> bool:
        """Whether a function returns a value, under a name or with other things."""
        function, tree = self.run.function, self.program.tree
        names = set[str]()
        for holder in tree.ancestors(node):
            if isinstance(holder, cst.Return):
                return True
            if isinstance(holder, cst.Assign):
                names = {dotted(each.target) or "" for each in holder.targets}
            if isinstance(holder, cst.BaseSmallStatement) or holder is function:
                break
        returns = tree.below(function, cst.Return) if names else ()
        return any(name.value in names for each in returns for name in tree.below(each, cst.Name))

    def begun(self, name: str, value: Value, target: cst.CSTNode | None = None) -> Value:
        """A value that is bound: what the function asks may be so, where nothing else is known."""
        asked = self._tested.get(name if target is None else id(target), frozenset())
        if asked and value.is_tensor and ANY in value.dtypes:
            return replace(value, dtypes=value.dtypes | asked)
        return value

    def _loop(self, node: cst.For | cst.While, env: Env) -> Env | None:
        iterated = self.value(node.iter, env) if isinstance(node, cst.For) else None
        self._loops.append([])
        for round_ in range(3 * _ROUNDS):
            start = dict(env)
            if isinstance(node, cst.For) and iterated is not None:
                self._bind_elements(node, iterated, start)
            elif isinstance(node, cst.While):
                self.value(node.test, start)
            end = self.suite(statements_of(node.body), start)
            after = env
            for left in (end, *self._loops[-1]):
                after = joined(after, left) or after
            if after == env:
                break
            if round_ == 3 * _ROUNDS - 1:
                after = dict.fromkeys(after, UNKNOWN)
            env = after if round_ < _ROUNDS else _widened(env, after)
        self._loops.pop()
        if node.orelse is not None:
            return self.suite(statements_of(node.orelse.body), env)
        return env

    def _bind_elements(self, loop: cst.For | cst.CompFor, iterated: Value, env: Env) -> None:
        """Give the targets of a loop what each round has of what is looped over."""
        self.bind(loop.target, self._element(loop.iter, iterated), env)
        for target, container in taken(loop):
            if container is not loop.iter:
                self.bind(target, self._element(container, self.value(container, env)), env)

    def _element(self, node: cst.BaseExpression, iterated: Value) -> Value:
        if iterated.kind is Kind.TENSOR:
            return replace(iterated, dims=Dims.UNKNOWN)
        if iterated.kind is Kind.ITEMS and iterated.items:
            return functools.reduce(join, iterated.items)
        counted = isinstance(node, cst.Call) and dotted(node.func) == "range"
        return number(None, floating=False) if counted else UNKNOWN

    def _with(self, node: cst.With, env: Env) -> Env | None:
        before = self.ambient
        for item in node.items:
            self.value(item.item, env)
            inside = self.program.ambient(item.item, self.ambient)
            self.ambient = inside if inside is not None else self.ambient
            if item.asname is not None:
                self.bind(item.asname.name, UNKNOWN, env)
        end = self.suite(statements_of(node.body), env)
        self.ambient = before
        return end

    def _try(self, node: cst.Try | cst.TryStar, env: Env) -> Env | None:
        start = dict(env)
        end = self.suite(statements_of(node.body), env)
        if end is not None and node.orelse is not None:
            end = self.suite(statements_of(node.orelse.body), end)
        broken = _widened(start, env)
        for handler in node.handlers:
            end = joined(end, self.suite(statements_of(handler.body), dict(broken)))
        if node.finalbody is not None:
            final = self.suite(statements_of(node.finalbody.body), end or dict(broken))
            return final if end is not None else None
        return end

    def _match(self, node: cst.Match, env: Env) -> Env | None:
        self.value(node.subject, env)
        end: Env | None = env
        for case in node.cases:
            end = joined(end, self.suite(statements_of(case.body), dict(env)))
        return end

    # --- variables ----------------------------------------------------------------------------

    def bind(self, target: cst.CSTNode, value: Value, env: Env) -> None:
        """Give a target a value."""
        if isinstance(target, (cst.Tuple, cst.List)):
            for index, element in enumerate(target.elements):
                self.bind(element.value, _item(value, index, len(target.elements)), env)
        elif isinstance(target, cst.Subscript):
            self.value(target, env)
            if (owner := dotted(target.value)) is not None:
                stored = self._stored.get(owner, value)
                self._stored[owner] = join(stored, value)
                self._store(owner, target, value, env)
        elif isinstance(target, cst.StarredElement):
            self.bind(target.value, UNKNOWN, env)
        elif (name := dotted(target)) is not None:
            if isinstance(target, cst.Attribute):
                self.run.values[id(target)] = value
            for known in [key for key in env if key.startswith(f"{name}.")]:
                del env[known]
            env[name] = self.begun(name, value, target)

    def _store(self, owner: str, target: cst.Subscript, value: Value, env: Env) -> None:
        """Put a value into a record; under a key that is not known, anything may be anywhere."""
        known = env.get(owner)
        if known is not None and known.kind is Kind.RECORD:
            key = key_of(target)
            items = dict(zip(known.names, known.items, strict=True))
            env[owner] = record(items | {key: value}) if key is not None else OTHER

    # --- expressions --------------------------------------------------------------------------

    def value(self, node: cst.BaseExpression, env: Env) -> Value:
        """What an expression is; noted for those who ask."""
        handler = _EXPRESSIONS.get(type(node))
        found = handler(self, node, env) if handler is not None else self._rest(node, env)
        known = self.run.values.get(id(node))
        self.run.values[id(node)] = found if known is None else join(known, found)
        return found

    def _rest(self, node: cst.CSTNode, env: Env) -> Value:
        """An expression of which nothing is known; what is in it is looked at."""
        if not isinstance(node, (cst.Lambda, cst.FunctionDef)):
            for child in children(node):
                if isinstance(child, cst.BaseExpression):
                    self.value(child, env)
                elif isinstance(child, cst.BaseFormattedStringContent):
                    self._rest(child, env)
        return UNKNOWN

    def _literal(self, node: cst.BaseExpression, env: Env) -> Value:
        value = literal(node)
        return (
            number(float(value), isinstance(value, float))
            if isinstance(value, (int, float))
            else OTHER
        )

    def _name(self, node: cst.Name, env: Env) -> Value:
        if node.value in env:
            return env[node.value]
        if (value := literal(node)) is not ...:
            return number(None, False) if isinstance(value, bool) else OTHER
        return self._torch_dtype(node) or self.program.of_global(node)

    def _torch_dtype(self, node: cst.Name | cst.Attribute) -> Value | None:
        found = {DTYPES.get(name) for name in self.program.names.qualified(node)}
        if not found or None in found:
            return None
        return Value(Kind.DTYPE, frozenset(dtype for dtype in found if dtype))

    def _attribute(self, node: cst.Attribute, env: Env) -> Value:
        path = dotted(node)
        if path is not None and path in env:
            return env[path]
        if path is not None and (dtype := self._torch_dtype(node)) is not None:
            return dtype
        if path in _CONSTANTS:
            return number(_CONSTANTS[path])
        if path is not None and path.partition(".")[0] in ("self", "cls"):
            known = self.program.of_attribute(node) if path.count(".") == 1 else UNKNOWN
            if path.count(".") == 1 or isinstance(node.value, cst.Name):
                return self._held(known)
        owner = self.value(node.value, env)
        if node.attr.value == LOGITS and owner == UNKNOWN:
            return self._logits(owner.why)
        return _attribute_of(owner, node.attr.value)

    def _logits(self, call: cst.CSTNode | None) -> Value:
        """The logits of a model that is not known: its last layer makes them, in its region."""
        state = self.run.state(call) if call is not None else None
        if state is None or not state.is_on or self.calls.converts_outputs:
            return UNKNOWN
        others = () if state.certain else (ANY,)
        return replace(tensor(*state.dtypes, *others), why=call)

    def _held(self, known: Value) -> Value:
        """What a module holds: somebody may have cast it, unless autocast is on, or moved it."""
        known = replace(known, off_cuda=False)
        if known.is_tensor and not self.ambient.is_on:
            return replace(known, dtypes=known.dtypes | {ANY})
        return known

    def _binary(self, node: cst.BinaryOperation, env: Env) -> Value:
        left, right = self.value(node.left, env), self.value(node.right, env)
        power = literal(node) if isinstance(node.operator, cst.Power) else ...
        if isinstance(power, (int, float)):
            return number(float(power), isinstance(power, float))
        name = _OPERATORS.get(type(node.operator), "")
        return self._operation(name, type(node.operator), (left, right), node)

    def _operation(
        self,
        name: str,
        operator: type[cst.CSTNode],
        operands: tuple[Value, ...],
        node: cst.CSTNode,
    ) -> Value:
        """An operator of two values."""
        self.run.ambients[id(node)] = self.ambient
        if self.configures:  # what a constructor computes with are settings
            known = [value for value in operands if value != UNKNOWN]
            operands = tuple(SOME_NUMBER if v == UNKNOWN and known else v for v in operands)
        kinds = {value.kind for value in operands}
        if kinds == {Kind.NUMBER}:
            return _computed(operator, operands)
        if Kind.TENSOR not in kinds or Kind.ITEMS in kinds or not name:
            return UNKNOWN
        if name == "div" and operands[0].kind is Kind.NUMBER:
            name = "reciprocal"
        return progressed(name, applied(name, operands, self.ambient, node), operands)

    def _unary(self, node: cst.UnaryOperation, env: Env) -> Value:
        value = self.value(node.expression, env)
        if isinstance(node.operator, cst.Not):
            return number(None, floating=False)
        if value.kind is Kind.NUMBER and value.number is not None:
            return (
                replace(value, number=-value.number)
                if isinstance(node.operator, cst.Minus)
                else value
            )
        return value

    def _comparison(self, node: cst.Comparison, env: Env) -> Value:
        values = [self.value(node.left, env)]
        values += [self.value(each.comparator, env) for each in node.comparisons]
        tensors = [value for value in values if value.is_tensor]
        if not tensors or any(isinstance(c.operator, (cst.Is, cst.IsNot, cst.In, cst.NotIn))
                              for c in node.comparisons):  # fmt: skip
            return number(None, floating=False)
        sure = any(value.dtypes != {ANY} for value in tensors)
        return tensor(*({"bool"} if sure else {"bool", ANY}), dims=tensors[0].dims)

    def _either(self, node: cst.BooleanOperation | cst.IfExp, env: Env) -> Value:
        if isinstance(node, cst.IfExp):
            self.value(node.test, env)
            then = self.value(node.body, self._told(node.test, True, dict(env)))
            return join(then, self.value(node.orelse, self._told(node.test, False, dict(env))))
        left, right = self.value(node.left, env), self.value(node.right, env)
        if self.configures and Kind.NUMBER in (left.kind, right.kind):
            return SOME_NUMBER
        return join(left, right)

    def _walrus(self, node: cst.NamedExpr, env: Env) -> Value:
        value = self.value(node.value, env)
        self.bind(node.target, value, env)
        return value

    def _items(self, node: cst.Tuple | cst.List, env: Env) -> Value:
        values = [self.value(element.value, env) for element in node.elements]
        if any(isinstance(element, cst.StarredElement) for element in node.elements):
            return UNKNOWN
        return Value(Kind.ITEMS, items=tuple(values))

    def _subscript(self, node: cst.Subscript, env: Env) -> Value:
        self.run.ambients[id(node)] = self.ambient
        owner = self.value(node.value, env)
        for each in node.slice:
            if isinstance(each.slice, cst.Index):
                self.value(each.slice.value, env)
            else:
                self._rest(each.slice, env)
        index = node.slice[0].slice if len(node.slice) == 1 else None
        if owner.kind is Kind.ITEMS:
            at = literal(index.value) if isinstance(index, cst.Index) else ...
            known = isinstance(at, int) and -len(owner.items) <= at < len(owner.items)
            return owner.items[at] if known and isinstance(at, int) else UNKNOWN
        key = key_of(node)
        if owner.kind is Kind.RECORD and key in owner.names:
            return held(owner, key)
        if owner.kind in (Kind.OTHER, Kind.RECORD):
            return self._item_of(node.value)
        if owner.kind is Kind.TENSOR:
            sliced = any(isinstance(each.slice, cst.Slice) for each in node.slice)
            return replace(owner, dims=owner.dims if sliced else Dims.UNKNOWN)
        return number(None, floating=False) if owner.kind is Kind.NUMBER else UNKNOWN

    def _item_of(self, node: cst.BaseExpression) -> Value:
        """What a dict has under some key: what was stored here, or anything else."""
        value = self._stored.get(dotted(node) or "", UNKNOWN)
        return replace(value, dtypes=value.dtypes | {ANY}) if value.is_tensor else UNKNOWN

    def _dict(self, node: cst.Dict, env: Env) -> Value:
        items: dict[str, Value] = {}
        is_known = True
        for element in node.elements:
            key = literal(element.key) if isinstance(element, cst.DictElement) else None
            if isinstance(element, cst.DictElement):
                self.value(element.key, env)
            value = self.value(element.value, env)
            is_known = is_known and isinstance(key, str)
            items[str(key)] = value
        return record(items) if is_known else OTHER

    def _comprehension(self, node: cst.BaseSimpleComp | cst.DictComp, env: Env) -> Value:
        """What is collected: each element, or value, is such."""
        inner = dict(env)
        clause: cst.CompFor | None = node.for_in
        while clause is not None:
            iterated = self.value(clause.iter, inner)
            self._bind_elements(clause, iterated, inner)
            for test in clause.ifs:
                self.value(test.test, inner)
            clause = clause.inner_for_in
        return self.value(node.value if isinstance(node, cst.DictComp) else node.elt, inner)

    def _call(self, node: cst.Call, env: Env) -> Value:
        self.run.ambients[id(node)] = self.ambient
        receiver = UNKNOWN
        if isinstance(node.func, cst.Attribute):
            receiver = self.value(node.func.value, env)
        elif not isinstance(node.func, cst.Name):
            self.value(node.func, env)
        for arg in node.args:
            self.value(arg.value, env)
        self._collect(node, env)
        result = self.calls.result(node, receiver, self.run, self.ambient)
        return replace(result, why=node) if result == UNKNOWN else result

    def _collect(self, call: cst.Call, env: Env) -> None:
        """``xs.append(x)``: a list is what its elements are, as that of a comprehension is."""
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in _COLLECTING:
            return
        name = dotted(call.func.value)
        known = env.get(name) if name is not None else None
        if name is None or known is None or not call.args:
            return
        added = self.run.of(call.args[-1].value)
        if known.kind is Kind.ITEMS:
            known = functools.reduce(join, known.items) if known.items else added
        if known.is_tensor and added.is_tensor:
            env[name] = replace(join(known, added), dims=Dims.UNKNOWN)
        elif known.kind is not Kind.OTHER:
            env[name] = UNKNOWN


def _tell_of_itself(
    left: cst.BaseExpression, said: frozenset[str], equal: bool, holds: bool, env: Env
) -> None:
    """Narrow the variable that holds a dtype, where a test of it holds, or does not."""
    known = env.get(left.value) if isinstance(left, cst.Name) else None
    if not isinstance(left, cst.Name) or known is None or known.kind is not Kind.DTYPE:
        return
    if holds == equal:
        dtypes = said if ANY in known.dtypes else known.dtypes & said or known.dtypes
    else:
        dtypes = known.dtypes - said or known.dtypes
    env[left.value] = replace(known, dtypes=dtypes)


def _says_dtype(arg: cst.Arg) -> bool:
    return arg.keyword is not None and arg.keyword.value == "dtype"


def key_of(node: cst.Subscript) -> str | None:
    """The text in the brackets, if that is all."""
    index = node.slice[0].slice if len(node.slice) == 1 else None
    key = literal(index.value) if isinstance(index, cst.Index) else None
    return key if isinstance(key, str) else None


def _left(value: Value) -> Value:
    """A tensor that is not on CUDA: its autocast made nothing of it, nor what it was made of."""
    if not value.is_tensor:
        return value
    return replace(value, dtypes=value.dtypes - LOW or frozenset({ANY}), off_cuda=True)


def _computed(operator: type[cst.CSTNode], operands: Sequence[Value]) -> Value:
    """What comes of two numbers."""
    one, other = (value.number for value in operands)
    compute = _COMPUTED.get(operator)
    floating = any(value.floating for value in operands) or operator is cst.Divide
    if one is None or other is None or compute is None or (operator in _DIVIDING and not other):
        return number(None, floating)
    return number(compute(one, other), floating)


def _attribute_of(owner: Value, name: str) -> Value:
    """An attribute of what is known."""
    if owner.kind is Kind.DTYPE:
        return _limit(owner, name)
    if owner.kind is Kind.NUMBER:
        return SOME_NUMBER
    if owner.kind is Kind.ITEMS and name in ("values", "indices") and len(owner.items) == 2:
        return owner.items[name == "indices"]
    if owner.kind is Kind.RECORD:
        return held(owner, name)
    if not owner.is_tensor:
        return UNKNOWN
    if name == "dtype":
        return Value(Kind.DTYPE, owner.dtypes, follows=owner.follows)
    if name in SIZES:
        return number(None, floating=False) if name == "ndim" else SOME_NUMBER
    if name in PLANES and owner.dtypes & COMPLEX:
        return UNKNOWN
    return owner if name in ATTRIBUTES and owner.dtypes != {ANY} else UNKNOWN


def _limit(owner: Value, name: str) -> Value:
    """``torch.finfo(dtype).min`` of a dtype that is known."""
    (dtype, *others) = sorted(owner.dtypes)
    if others or dtype not in RANGES or name not in ("min", "max"):
        return number(None)
    return number(RANGES[dtype][name == "max"])


def _item(value: Value, index: int, count: int) -> Value:
    """What one of several targets gets."""
    if value.kind is Kind.ITEMS:
        return value.items[index] if len(value.items) == count else UNKNOWN
    if value.kind is Kind.TENSOR:
        return replace(value, dims=Dims.UNKNOWN)
    return number(None, floating=False) if value.kind is Kind.NUMBER else UNKNOWN


def joined(one: Env | None, other: Env | None) -> Env | None:
    """The variables after one of two ways; what only one of them binds is unknown."""
    if one is None or other is None:
        return one if other is None else other
    return {
        name: join(one[name], other[name]) if name in one and name in other else UNKNOWN
        for name in one.keys() | other.keys()
    }


def _widened(one: Env, other: Env) -> Env:
    """The variables of which two states say the same; the others are unknown."""
    return {
        name: one[name] if one.get(name) == other.get(name) else UNKNOWN
        for name in one.keys() | other.keys()
    }


_CONSTANTS = {
    "math.inf": float("inf"), "np.inf": float("inf"), "numpy.inf": float("inf"),
    "torch.inf": float("inf"), "math.pi": 3.141592653589793, "torch.pi": 3.141592653589793,
    "np.pi": 3.141592653589793,
}  # fmt: skip
_STATEMENTS: dict[type[cst.CSTNode], Callable[[Runner, Any, Env], Env | None]] = {
    cst.Assign: Runner._assign, cst.AnnAssign: Runner._annotated, cst.AugAssign: Runner._augmented,
    cst.Expr: Runner._expression, cst.Return: Runner._return, cst.Raise: Runner._leave,
    cst.Break: Runner._leave, cst.Continue: Runner._leave, cst.Assert: Runner._assert,
    cst.If: Runner._if, cst.For: Runner._loop, cst.While: Runner._loop, cst.With: Runner._with,
    cst.Try: Runner._try, cst.TryStar: Runner._try, cst.Match: Runner._match,
    cst.FunctionDef: Runner._defined, cst.ClassDef: Runner._defined,
}  # fmt: skip
_EXPRESSIONS: dict[type[cst.CSTNode], Callable[[Runner, Any, Env], Value]] = {
    cst.Integer: Runner._literal, cst.Float: Runner._literal, cst.SimpleString: Runner._literal,
    cst.ConcatenatedString: Runner._literal, cst.Name: Runner._name,
    cst.Attribute: Runner._attribute, cst.BinaryOperation: Runner._binary,
    cst.UnaryOperation: Runner._unary, cst.Comparison: Runner._comparison,
    cst.BooleanOperation: Runner._either, cst.IfExp: Runner._either, cst.NamedExpr: Runner._walrus,
    cst.Tuple: Runner._items, cst.List: Runner._items, cst.Subscript: Runner._subscript,
    cst.ListComp: Runner._comprehension, cst.GeneratorExp: Runner._comprehension,
    cst.SetComp: Runner._comprehension, cst.DictComp: Runner._comprehension,
    cst.Call: Runner._call, cst.Dict: Runner._dict,
}  # fmt: skip
