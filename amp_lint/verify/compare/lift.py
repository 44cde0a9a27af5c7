"""Lifts expressions of a file into terms."""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import libcst as cst

from amp_lint.amp.roles import SCALERS
from amp_lint.flow.conditions import text
from amp_lint.flow.values import arguments, literal
from amp_lint.model import Model
from amp_lint.syntax.assignments import assignments
from amp_lint.syntax.names import PARTIAL, dotted
from amp_lint.syntax.tree import children, descendants
from amp_lint.verify.compare.dynamic.attributes import Computed
from amp_lint.verify.compare.dynamic.names_by_text import asks_for_names
from amp_lint.verify.compare.dynamic.replaced import Replaced
from amp_lint.verify.compare.effect_free import computes, does_more, is_opaque
from amp_lint.verify.terms import (
    AS_EPS,
    EPS_NAME,
    IN_ORDER,
    SMALL,
    WHEN,
    Const,
    Form,
    Global,
    Input,
    Op,
    Seq,
    Term,
    walk,
)
from amp_lint.verify.terms import children as parts_of
from amp_lint.vocabulary.amp import LOAD_STATE_DICT, STATE_DICT
from amp_lint.vocabulary.modules import KEEPING, WITHOUT_PARAMETERS
from amp_lint.vocabulary.purity import PURE_METHODS, QUERIES, is_pure_function
from amp_lint.vocabulary.signatures import OF_MODULES, order
from amp_lint.vocabulary.written import MAKERS, REGION, any_of

Env = Mapping[str, Term]
"""What the local names stand for."""

MAX_SIZE = 400
"""Operations in one term; what is larger becomes an input."""
_AMP_MODULES = ("torch.amp.", "torch.cuda.amp.", "torch.cpu.amp.")
_AMP_FUNCTIONS = re.compile(rf"torch\.({any_of({REGION, *MAKERS})}|(get|set|is)_{REGION}_\w+)$")
_MOVING = KEEPING - {"apply", "compile"}
"""Methods that leave a module without parameters as it is."""
_EMPTY = cst.Module([])
_TOKENS = ("start", "value", "conversion", "star", "operator", "equal")
_MAX_INLINED = 4  # calls of helper functions within one another
ERASED = Const("AMP object")
"""Stands for a GradScaler or an autocast context."""
SCALED = "scaled"
"""The name of ``scaler.scale(x)``."""

_BINARY = {
    cst.Add: "add", cst.Subtract: "sub", cst.Multiply: "mul", cst.Divide: "truediv",
    cst.FloorDivide: "floordiv", cst.Modulo: "mod", cst.Power: "pow",
    cst.MatrixMultiply: "matmul", cst.BitAnd: "and_", cst.BitOr: "or_", cst.BitXor: "xor",
    cst.LeftShift: "lshift", cst.RightShift: "rshift",
}  # fmt: skip
_AUGMENTED = {
    cst.AddAssign: "add", cst.SubtractAssign: "sub", cst.MultiplyAssign: "mul",
    cst.DivideAssign: "truediv", cst.FloorDivideAssign: "floordiv", cst.ModuloAssign: "mod",
    cst.PowerAssign: "pow", cst.MatrixMultiplyAssign: "matmul", cst.BitAndAssign: "and_",
    cst.BitOrAssign: "or_", cst.BitXorAssign: "xor", cst.LeftShiftAssign: "lshift",
    cst.RightShiftAssign: "rshift",
}  # fmt: skip
_OF_TENSORS = frozenset({"T", "data", "device", "dtype", "mT", "ndim", "shape"})
_WITHOUT_GRADIENT = frozenset({"item", "tolist"})
"""Methods that give no tensor, so that nothing is detached before them."""
_COMPUTED = (Form.FUNCTION, Form.METHOD, Form.OPERATOR)
_UNARY = {cst.Minus: "neg", cst.Plus: "pos", cst.BitInvert: "invert", cst.Not: "not_"}
_COMPARED = {
    cst.LessThan: "lt", cst.LessThanEqual: "le", cst.GreaterThan: "gt",
    cst.GreaterThanEqual: "ge", cst.Equal: "eq", cst.NotEqual: "ne", cst.Is: "is_",
    cst.IsNot: "is_not", cst.In: "in_", cst.NotIn: "not_in",
}  # fmt: skip


class Lifter:
    """Makes terms of the expressions of one file.

    AMP is erased: a GradScaler or an autocast context is one and the same constant, and a module
    that is trained in float16 is that module. ``scaler.scale(loss)`` is ``loss`` only for the
    backward pass: see `loss`.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._sizes: dict[int, tuple[Term, int]] = {}
        self._paths: dict[int, str] = {}
        self._halves = {id(half.cast): half for half in model.modules.half_trainings}
        self._inlined = 0
        self._clock = self._ticks = 0
        self._since = 0
        self._handed: dict[str, int] = {}
        self._others: list[tuple[int, int, dict[str, int]]] = []
        self._env: Env | None = None
        self._known: dict[int, Term] = {}
        self._inner: list[Env] = []
        self._making: set[int] = set()
        self._replaced = Replaced(model)
        self.computed = Computed(model)
        self.unstable: frozenset[str] = frozenset()
        """The names of the function that is lifted which do not stand for one thing in it."""
        self.absent: set[str] = set()
        """The inputs that are None where nobody gives them: parameters by their default."""
        self.found: dict[int, Term] = {}
        """Id of an expression -> what it stands for where it is written."""

    def begin(self, env: Env) -> None:
        """Another statement is about to be lifted, with this knowledge of names."""
        self._env, self._known = env, {}

    def restart(self) -> None:
        """Nothing was done yet."""
        self._clock = self._ticks = self._since = 0
        self._handed.clear()

    def tick(self, *handed: str, everything: bool = False) -> None:
        """Something was done: what is read of objects from here on may be something else.

        So may the values of names, if they were handed to it; or of all.
        """
        self._ticks += 1
        self._clock = self._ticks
        self._handed.update(dict.fromkeys(handed, self._clock))
        self._since = self._clock if everything else self._since

    @contextlib.contextmanager
    def instead(self) -> Iterator[None]:
        """What is lifted here is done instead of what is lifted next, not before it."""
        known = self._clock, self._since, dict(self._handed)
        yield
        self._others.append((self._clock, self._since, self._handed))
        self._clock, self._since, self._handed = known

    def either(self) -> None:
        """Go on behind what was done, or `instead` of it."""
        clock, since, handed = self._others.pop()
        self._clock, self._since = max(clock, self._clock), max(since, self._since)
        for name, at in handed.items():
            self._handed[name] = max(at, self._handed.get(name, 0))

    def fresh(self, name: str) -> Input:
        """What a name stands for from here on, if nothing is known of it."""
        return Input(name, self._clock)

    def size(self, term: Term) -> int:
        """The number of operations in a term, counted as a tree."""
        known = self._sizes.get(id(term))
        if known is None:
            known = term, 1 + sum(map(self.size, parts_of(term)))
            self._sizes[id(term)] = known
        return known[1]

    def term(self, node: cst.BaseExpression, env: Env) -> Term:
        """The term of an expression; an input where it is too large."""
        if env is not self._env:
            made = self._bounded(node, env)
            if any(env is inner for inner in self._inner):
                self.found[id(node)] = made
            return made
        if id(node) not in self._known:
            self._known[id(node)] = self.found[id(node)] = self._bounded(node, env)
        return self._known[id(node)]

    def _bounded(self, node: cst.BaseExpression, env: Env) -> Term:
        found = self._term(node, env)
        return found if self.size(found) <= MAX_SIZE else Input(text(node), self._clock)

    def _term(self, node: cst.BaseExpression, env: Env) -> Term:
        constant = literal(node)
        if constant is None or isinstance(constant, (bool, int, float, str)):
            return Const(constant)
        match node:
            case cst.Name():
                return self._name(node, env)
            case cst.Attribute():
                return self._attribute(node, env)
            case cst.Call():
                return self.call(node, env)
            case cst.Subscript(value=value):
                return self._operator("getitem", self.term(value, env), self._index(node, env))
            case cst.BinaryOperation(left=left, right=right) if type(node.operator) in _BINARY:
                name = _BINARY[type(node.operator)]
                return self._operator(name, self.term(left, env), self.term(right, env))
            case cst.UnaryOperation(expression=inner) if type(node.operator) in _UNARY:
                return self._operator(_UNARY[type(node.operator)], self.term(inner, env))
            case cst.Comparison(left=left, comparisons=[one]) if type(one.operator) in _COMPARED:
                name = _COMPARED[type(one.operator)]
                return self._operator(name, self.term(left, env), self.term(one.comparator, env))
            case cst.NamedExpr(value=value):
                return self.term(value, env)
            case cst.Tuple() | cst.List():
                return self._sequence(node, env)
        return self._other(node, env)

    def _operator(self, name: str, *args: Term) -> Term:
        return Op(Form.OPERATOR, name, args)

    def _sequence(self, node: cst.Tuple | cst.List, env: Env) -> Term:
        kind = "tuple" if isinstance(node, cst.Tuple) else "list"
        items = tuple(
            Op(Form.OTHER, "*", (self.term(item.value, env),))
            if isinstance(item, cst.StarredElement)
            else self.term(item.value, env)
            for item in node.elements
        )
        return Seq(kind, items)

    def _index(self, node: cst.Subscript, env: Env) -> Term:
        items = [self._slice(element.slice, env) for element in node.slice]
        return items[0] if len(items) == 1 else Seq("tuple", tuple(items))

    def _slice(self, node: cst.BaseSlice, env: Env) -> Term:
        if isinstance(node, cst.Index):
            return self.term(node.value, env)
        assert isinstance(node, cst.Slice)
        ends = (node.lower, node.upper, node.step)
        return Seq("slice", tuple(Const(None) if e is None else self.term(e, env) for e in ends))

    def _name(self, node: cst.Name, env: Env) -> Term:
        if node.value in env:
            return env[node.value]
        names = self.model.names.qualified(node)
        if len(names) == 1 and self._is_import(node):
            return _global(names)
        values = list(self.model.values.alternatives(node))
        constant = literal(values[0]) if len(values) == 1 and not self.names_by_text else ...
        if constant is None or isinstance(constant, (bool, int, float, str)):
            return Const(constant)
        module = self._module_of(values, node) if self._is_around(node) else None
        read = max(self._handed.get(node.value, 0), self._since)
        return module or Input(self._named(node.value, node), read)

    def _is_around(self, node: cst.Name) -> bool:
        """Whether a name is bound once, and outside of the function that asks for it."""
        bindings, tree = self.model.names.bindings(node), self.model.tree
        if len(bindings) != 1 or self.names_by_text:
            return False
        around, own = (tree.ancestor(each, cst.FunctionDef) for each in (bindings[0].node, node))
        return around is not own

    @functools.cached_property
    def names_by_text(self) -> bool:
        """Whether the file may bind names, or ask for them, by their text."""
        return asks_for_names(self.model)

    def _named(self, key: str, node: cst.Name | cst.Attribute) -> str:
        """What an input is called; a guard by its default is one whatever its name."""
        known = self.model.values.usual(node)
        if None in known:
            self.absent.add(key)
        if EPS_NAME.search(key):
            numbers = [abs(each) for each in known if isinstance(each, (int, float))]
            numbers += self._given_to(key.rpartition(".")[2])
            unknown = not numbers and self._is_setting(node)
            large = any(each > SMALL for each in numbers)
            return f"{key} as number" if large or unknown else key
        small = len(known) == 1 and isinstance(known[0], float) and 0 < known[0] <= SMALL
        return f"{key}{AS_EPS}" if small and not self._is_given(node) else key

    def _is_setting(self, node: cst.Name | cst.Attribute) -> bool:
        """Whether something is an attribute of what is no instance of a class that is seen."""
        owner = node.value if isinstance(node, cst.Attribute) else None
        own = isinstance(owner, cst.Name) and owner.value == "self"
        return owner is not None and not own and not self.model.origins.classes(owner)

    def _given_to(self, keyword: str) -> list[float]:
        """The numbers that some call of this file gives by a keyword."""
        words = self.model.tree.named(keyword)
        holders = ((word, self.model.tree.parent(word)) for word in words)
        args = (h for word, h in holders if isinstance(h, cst.Arg) and h.keyword is word)
        values = (literal(arg.value) for arg in args)
        return [abs(each) for each in values if isinstance(each, (int, float))]

    def _is_given(self, node: cst.Name | cst.Attribute) -> bool:
        """Whether some call of this file gives something for the parameter that a value is."""
        values = self.model.values.alternatives(node)
        return any(isinstance(v, cst.Name) and self.model.origins.given(v) for v in values)

    def _is_import(self, node: cst.Name) -> bool:
        bindings = self.model.names.bindings(node)
        return not bindings or all(binding.kind == "import" for binding in bindings)

    def _is_bound_again(self, node: cst.BaseExpression) -> bool:
        """Whether some function binds the module behind a dotted name to something unknown."""
        while isinstance(node, cst.Attribute):
            node = node.value
        names = self.model.names
        bindings = names.bindings(node) if isinstance(node, cst.Name) else ()
        return any(
            each.kind == "assign" and (each.value is None or not names.qualified(each.value))
            for each in bindings
        ) and any(each.kind == "import" for each in bindings)

    def _attribute(self, node: cst.Attribute, env: Env) -> Term:
        names = self.model.names.qualified(node)
        if len(names) == 1 and not self._is_bound_again(node):
            return _global(names)
        path = self._path(node)
        if path in env:
            return env[path]
        module = self._module(node, env)
        if module is not None:
            return module
        if self.computed.is_computed(node):
            return Op(Form.OTHER, f"{text(node)}, read", (Const(self._nth(node)),))
        owner = self.term(node.value, env)
        if isinstance(owner, Input) and not self._is_of_tensor(node):
            return Input(self._named(f"{owner.key}.{node.attr.value}", node), self._clock)
        return Op(Form.ATTRIBUTE, node.attr.value, (owner,), self._when(owner, node.attr.value))

    @functools.cached_property
    def _methods(self) -> frozenset[str]:
        """The names of what classes of the file do: not the methods that tensors have."""
        functions = self.model.tree.nodes(cst.FunctionDef)
        is_method = self.model.program.is_method
        return frozenset(each.name.value for each in functions if is_method(each))

    def _nth(self, node: cst.Attribute) -> int:
        """How many attributes of that name a function has in front of one."""
        tree = self.model.tree
        home = tree.ancestor(node, cst.FunctionDef) or tree.module
        alike = (
            each for each in tree.below(home, cst.Attribute) if each.attr.value == node.attr.value
        )
        return sum(tree.order(each) < tree.order(node) for each in alike)

    def _when(self, owner: Term, asked: str) -> tuple[tuple[str, Term], ...]:
        """The time at which an object is asked for something that may change."""
        fresh = isinstance(owner, Op) and owner.form in _COMPUTED and not is_opaque(owner)
        changes = asked in QUERIES or (asked not in PURE_METHODS and asked not in _OF_TENSORS)
        return ((WHEN, Const(self._clock)),) if changes and self._clock and not fresh else ()

    def _is_of_tensor(self, node: cst.Attribute) -> bool:
        """Whether an attribute may be one that tensors have: not one that this file assigns."""
        if node.attr.value not in _OF_TENSORS or dotted(node.value) in ("self", "cls"):
            return False
        return text(node) not in self._assigned

    @functools.cached_property
    def _assigned(self) -> frozenset[str]:
        """The attributes that this file assigns, which no tensor lets it."""
        targets = (node.target for node in self.model.tree.nodes(cst.AssignTarget))
        return frozenset(text(t) for t in targets if isinstance(t, cst.Attribute))

    def _path(self, node: cst.BaseExpression) -> str:
        """What `dotted` gives, or "": a long chain is asked for once from each of its links."""
        if not isinstance(node, cst.Attribute):
            return node.value if isinstance(node, cst.Name) else ""
        if id(node) not in self._paths:
            owner = self._path(node.value)
            self._paths[id(node)] = f"{owner}.{node.attr.value}" if owner else ""
        return self._paths[id(node)]

    def _module(self, node: cst.Attribute, env: Env) -> Term | None:
        """The module of torch that ``self.x`` was made as, if there is only one way."""
        return self._module_of(self.model.values.attribute_values(node), node)

    def _module_of(
        self, values: Sequence[cst.BaseExpression], node: cst.Name | cst.Attribute
    ) -> Term | None:
        """The module of torch that something stands for, if it was made in one way only."""
        if len(values) != 1 or not isinstance(values[0], cst.Call) or id(values[0]) in self._making:
            return None  # ``self.x = DataParallel(self.x)`` is made of what it was before
        names = self.model.names.qualified(_unmoved(values[0]).func)
        kind = next(iter(names)) if len(names) == 1 else ""
        if _is_module(kind) and not self._replaced.is_changed(node, kind):
            self._making.add(id(values[0]))
            try:
                made = self.call(values[0], {})
                return made if isinstance(made, Op) and made.form is Form.MODULE else None
            finally:
                self._making.remove(id(values[0]))
        return None

    # --- calls --------------------------------------------------------------------------------

    def call(self, node: cst.Call, env: Env) -> Term:
        """The term of a call."""
        erased = self._erased(node, env)
        if erased is not None:
            return erased
        inlined = self._helper(node, env)
        if inlined is not None:
            return inlined
        made = self._made(node, env)
        named = any(arg.keyword is not None for arg in node.args)
        if not named or not self._is_ordered(node):
            return made
        order = ", ".join(text(arg.keyword) if arg.keyword else "" for arg in node.args)
        return Op(Form.OTHER, IN_ORDER, (made, Const(order)))

    def _made(self, node: cst.Call, env: Env) -> Term:
        args, keywords = self._arguments(node, env)
        names = self.model.names.qualified(node.func)
        if len(names) == 1 and not self._is_bound_again(node.func):
            return _function(next(iter(names)), args, keywords)
        if isinstance(node.func, cst.Attribute):
            callee = self._unless_changed(node.func, self._attribute(node.func, env))
            name = node.func.attr.value
            own = isinstance(callee, Op) and callee.form is not Form.ATTRIBUTE
            own = own or (name in PURE_METHODS | QUERIES and name in self._methods)
            if own or dotted(node.func.value) in ("self", "cls", "super"):
                return _applied(callee, args, keywords)
            owner = self.term(node.func.value, env)
            if name in _WITHOUT_GRADIENT and isinstance(owner, Op) and _is_detached(owner):
                owner = owner.args[0]
            if name in _MOVING and _has_no_tensors(owner):
                return owner
            if name == "forward" and isinstance(owner, Op) and owner.form is Form.MODULE:
                return _applied(owner, args, keywords)
            when = self._when(owner, name) if name in QUERIES else ()
            return Op(Form.METHOD, name, (owner, *args), (*when, *keywords))
        called = self._unless_changed(node.func, self.term(node.func, env))
        return _applied(called, args, keywords)

    def _unless_changed(self, node: cst.BaseExpression, known: Term) -> Term:
        """What is called, but as a module of torch only if it is nothing else."""
        is_module = isinstance(known, Op) and known.form is Form.MODULE
        if isinstance(known, Op) and is_module and self._replaced.is_changed(node, known.name):
            return self.fresh(text(node))
        return known

    def _arguments(
        self, node: cst.Call, env: Env
    ) -> tuple[tuple[Term, ...], tuple[tuple[str, Term], ...]]:
        args = tuple(
            Op(Form.OTHER, arg.star, (self.term(arg.value, env),))
            if arg.star
            else self.term(arg.value, env)
            for arg in node.args
            if arg.keyword is None
        )
        keywords = {a.keyword.value: self.term(a.value, env) for a in node.args if a.keyword}
        if isinstance(node.func, cst.Attribute) and node.func.attr.value == "from_pretrained":
            keywords = {k: v for k, v in keywords.items() if k not in ("torch_dtype", "dtype")}
        placed = self._next_places(node)
        args += tuple(keywords.pop(name) for name in placed)
        return args, tuple(sorted(keywords.items(), key=lambda item: item[0]))

    def placed(self, node: cst.Call) -> list[str]:
        """The keywords of a call that are the next positions behind those that it gives."""
        return [] if self._is_ordered(node) else self._next_places(node)

    def _next_places(self, node: cst.Call) -> list[str]:
        """The same, in whatever order the arguments are computed."""
        known = self.model.names.qualified(node.func)
        given = {arg.keyword.value for arg in node.args if arg.keyword is not None}
        if len(known) != 1 or any(arg.star for arg in node.args) or not given:
            return []
        names = order(next(iter(known)))[len(node.args) - len(given) :]
        return [*itertools.takewhile(given.__contains__, names)]

    def _is_ordered(self, node: cst.Call) -> bool:
        """Whether it may matter which of the arguments is computed first: two do something."""
        doing = (any(map(self._may_do, _calls_in(arg))) for arg in node.args)
        return len(node.args) > 1 and sum(doing) > 1

    def _may_do(self, call: cst.Call) -> bool:
        """Whether a call may do anything but compute."""
        known = self.model.names.qualified(call.func)
        if known:
            return not all(is_pure_function(name) or computes(name) for name in known)
        method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        return method not in PURE_METHODS | QUERIES

    def _erased(self, node: cst.Call, env: Env) -> Term | None:
        """What a call is without AMP; None if it has nothing to do with it."""
        model = self.model
        if model.steps.recognizer.is_scale(node):
            return Op(Form.OTHER, SCALED, (self.term(node.args[0].value, env),))
        if self.is_erased(node):
            return self._without_half(node, env)
        is_context = model.regions.of(node) is not None
        return ERASED if is_context or self.is_amp_call(node) else None

    def is_amp_call(self, node: cst.Call) -> bool:
        """Whether a call is one of torch's AMP interface, or a partial of it."""
        called = node.args[0].value if self.is_partial(node) else node.func
        names = self.model.names.qualified(called)
        return any(map(is_amp, names)) or bool(names & SCALERS)

    def is_partial(self, node: cst.Call) -> bool:
        """Whether a call makes a function of another one and arguments of it."""
        return bool(node.args) and self.model.names.is_any(node.func, PARTIAL)

    def is_erased(self, node: cst.Call) -> bool:
        """Whether a call only casts a trained module to float16."""
        return id(node) in self._halves and not self._halves[id(node)].made

    def _without_half(self, node: cst.Call, env: Env) -> Term:
        """What ``model.half()`` or ``model.to("cuda", torch.float16)`` is without the cast."""
        half = self._halves[id(node)]
        assert isinstance(node.func, cst.Attribute)
        kept = [arg for arg in node.args if arg is not half.dtype]
        owner = self.term(node.func.value, env)
        if not kept:
            return owner
        args, keywords = self._arguments(node.with_changes(args=kept), env)
        return Op(Form.METHOD, node.func.attr.value, (owner, *args), keywords)

    def is_inlined(self, call: cst.Call) -> bool:
        """Whether a call of a helper is the same as what the helper returns."""
        return self._helper(call, {}) is not None

    def _helper(self, node: cst.Call, env: Env) -> Term | None:
        """The result of a function of this file that is a single ``return``, arguments put in."""
        result = self.model.operations.helper_result(node)
        function = self.model.values.function(node.func) if result is not None else None
        if result is None or function is None or self._inlined >= _MAX_INLINED:
            return None
        given = arguments(node)
        if given.starred or not _is_plain(function):
            return None
        if self.names_by_text or self._is_captured(result, function, node):
            return None
        bound = self.model.program.bind(function, node)
        inner: dict[str, Term] = {}
        for param in function.params.params:
            value = bound.get(param.name.value)
            if value is not None:
                inner[param.name.value] = self.term(value, env)
            elif param.default is not None:
                inner[param.name.value] = self.term(param.default, {})
                if not isinstance(inner[param.name.value], (Const, Global)):
                    return None  # it was computed when the function was made
        self._inlined += 1
        try:
            made = self.term(result, inner)
        finally:
            self._inlined -= 1
        return None if does_more(made, *inner.values()) else made

    def _is_captured(
        self, result: cst.BaseExpression, function: cst.FunctionDef, call: cst.Call
    ) -> bool:
        """Whether a name of a helper means something else where the helper is called."""
        own = {param.name.value for param in function.params.params}
        free = {n.value for n in self.model.tree.below(result, cst.Name)} - own
        around = (a for a in self.model.tree.ancestors(call) if isinstance(a, cst.FunctionDef))
        return any(free.intersection(self.model.names.scope_of(each).bindings) for each in around)

    # --- what is only compared ----------------------------------------------------------------

    def _other(self, node: cst.BaseExpression, env: Env) -> Term:
        """A choice, a comprehension, a lambda: the parts as terms, the rest as text."""
        if isinstance(node, cst.IfExp):
            arms = (node.test, node.body, node.orelse)
            return Op(Form.OTHER, "if", tuple(self.term(arm, env) for arm in arms))
        if isinstance(node, cst.Lambda):
            (body,) = self._inside(node, [node.body], env)
            params = _EMPTY.code_for_node(node.params)
            return Op(Form.OTHER, "lambda", (Const(" ".join(params.split())), body))
        if isinstance(node, cst.Dict):
            return self._dict(node, env)
        parts = self._inside(node, self.model.steps.relevance.expressions(node), env)
        return Op(Form.OTHER, type(node).__name__, (Const(_outline(node)), *parts))

    def _inside(
        self, node: cst.BaseExpression, parts: Sequence[cst.BaseExpression], env: Env
    ) -> tuple[Term, ...]:
        """The terms of what stands inside a lambda or a comprehension."""
        inner = self._unbound(node, env)
        own = env is self._env or any(env is each for each in self._inner)
        self._inner += [inner] * own
        found = tuple(self.term(part, inner) for part in parts)
        if own:
            self._inner.pop()
        return found

    def _dict(self, node: cst.Dict, env: Env) -> Term:
        """A display of a dict, without the state of a scaler, which a checkpoint may hold."""
        parts: list[Term] = []
        for element in node.elements:
            if not self.is_scaler_state(element.value):
                key = getattr(element, "key", None)
                parts.append(Const("**") if key is None else self.term(key, env))
                parts.append(self.term(element.value, env))
        return Op(Form.OTHER, "dict", tuple(parts))

    def is_scaler_state(self, node: cst.BaseExpression) -> bool:
        """Whether an expression saves the state of a scaler, or loads what was saved so."""
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
            return False
        if not self.model.roles.is_scaler(node.func.value):
            return False
        if node.func.attr.value in STATE_DICT.words:
            return True
        given = node.args[0].value if len(node.args) == 1 else None
        loads = node.func.attr.value in LOAD_STATE_DICT.words
        if not loads or not isinstance(given, cst.Subscript):
            return False
        return self._saved_under(given) and self._is_asked_for_more(given)

    def _is_asked_for_more(self, item: cst.Subscript) -> bool:
        """Whether the function that asks for an item asks the same object for others."""
        owner, tree = self.model.tree.source(item.value), self.model.tree
        holder = tree.ancestor(item, cst.FunctionDef) or tree.module
        others = (each for each in tree.below(holder, cst.Subscript) if each is not item)
        return any(tree.source(each.value) == owner for each in others)

    def _saved_under(self, item: cst.Subscript) -> bool:
        """Whether an item is one under whose key this file saves the state of a scaler."""
        entries = [
            (literal(element.key), element.value)
            for display in self.model.tree.nodes(cst.Dict)
            for element in display.elements
            if isinstance(element, cst.DictElement)
        ]
        entries += [
            (_key(target), value)
            for target, value in assignments(self.model.tree)
            if isinstance(target, cst.Subscript) and value is not None
        ]
        key = _key(item)
        return key is not ... and any(
            key == other and self.is_scaler_state(value) for other, value in entries
        )

    def _unbound(self, node: cst.BaseExpression, env: Env) -> Env:
        """What is known inside a lambda or a comprehension: not the names that it binds itself."""
        if not isinstance(
            node, (cst.Lambda, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)
        ):
            return env
        own = set(self.model.names.scope_of(node).bindings)
        if isinstance(node, (cst.Lambda, cst.GeneratorExp)):
            own |= self.unstable  # it runs later
        return {
            name: term for name, term in env.items() if name not in own and not own & _inputs(term)
        }

    def loss(self, node: cst.BaseExpression, env: Env) -> Term:
        """What a backward pass starts from, without the scale: the traces say what scales it."""
        return unscaled(self.term(node, env))

    def augmented(self, node: cst.AugAssign, env: Env) -> Term:
        """The term of what ``x += y`` makes of x."""
        name = _AUGMENTED.get(type(node.operator), "add")
        return self._operator(name, self.term(node.target, env), self.term(node.value, env))


def _unmoved(call: cst.Call) -> cst.Call:
    """The call that makes a module, without those of its methods that give it back."""
    match call.func:
        case cst.Attribute(value=cst.Call() as owner, attr=cst.Name(value=name)) if name in _MOVING:
            return _unmoved(owner)
    return call


def _has_no_tensors(term: Term) -> bool:
    """Whether something is a module that is the same on each device and in each dtype."""
    return (
        isinstance(term, Op)
        and term.form is Form.MODULE
        and bool(WITHOUT_PARAMETERS.search(term.last))
        and all(isinstance(given, Const) for given in parts_of(term))
    )


def _calls_in(arg: cst.Arg) -> Iterator[cst.Call]:
    return (part for part in descendants(arg) if isinstance(part, cst.Call))


def _inputs(term: Term) -> set[str]:
    """The names of what a term is computed from."""
    return {part.key.partition(".")[0] for part in walk(term) if isinstance(part, Input)}


def _key(item: cst.Subscript) -> object:
    """The literal between the brackets; ``...`` for anything else."""
    indices = [e.slice.value for e in item.slice if isinstance(e.slice, cst.Index)]
    return literal(indices[0]) if len(indices) == len(item.slice) == 1 else ...


def _outline(node: cst.CSTNode) -> str:
    """What an expression says beside the expressions right below it: operators, texts, loops."""
    found = [getattr(node, name, None) for name in _TOKENS]
    own = [
        value if isinstance(value, str) else type(value).__name__
        for value in found
        if isinstance(value, (str, cst.CSTNode)) and not isinstance(value, cst.BaseExpression)
    ]
    below = ["_" if isinstance(c, cst.BaseExpression) else _outline(c) for c in children(node)]
    return f"({' '.join([type(node).__name__, *own, *below])})"


def unscaled(term: Term) -> Term:
    """A term without the scale of what it is linear in: ``scaler.scale(a) + scaler.scale(b)``.

    As it is, where only some of what is added up are scaled: a step unscales all of them.
    """
    return _without_scale(term) or term


def _without_scale(term: Term) -> Term | None:
    """A term that is scaled as a whole, without that; None for any other."""
    match term:
        case Op(Form.OTHER, name, (inner,)) if name == SCALED:
            return inner  # once: what is scaled twice is not unscaled by a step
        case Op(Form.OPERATOR, "add" | "sub" | "neg" | "pos", args):
            found = [each for each in map(_without_scale, args) if each is not None]
            return Op(term.form, term.name, tuple(found)) if len(found) == len(args) else None
        case Op(Form.OPERATOR, "mul", (Const() as first, second)):
            scaled = _without_scale(second)
            return scaled and Op(term.form, term.name, (first, scaled))
        case Op(Form.OPERATOR, "mul", (first, *rest)) | Op(
            Form.OPERATOR | Form.METHOD, "truediv" | "div" | "sum" | "mean", (first, *rest)
        ):
            scaled = _without_scale(first)
            return scaled and Op(term.form, term.name, (scaled, *rest), term.keywords)
    return None


def _is_plain(function: cst.FunctionDef) -> bool:
    """Whether a function has no parameters but those that can be given by position."""
    params = function.params
    starred = isinstance(params.star_arg, cst.Param) or params.star_kwarg is not None
    more = starred or params.kwonly_params or params.posonly_params
    return not (more or function.decorators or function.asynchronous)


def is_amp(name: str) -> bool:
    """Whether a qualified name belongs to torch's AMP interface."""
    return name.startswith(_AMP_MODULES) or bool(_AMP_FUNCTIONS.match(name))


def _global(names: Iterable[str]) -> Term:
    (name,) = names
    return ERASED if is_amp(name) else Global(name)


def _is_module(name: str) -> bool:
    return name.startswith("torch.nn.") and name.rpartition(".")[2][:1].isupper()


def _function(name: str, args: tuple[Term, ...], keywords: tuple[tuple[str, Term], ...]) -> Term:
    if _is_module(name):
        return Op(Form.MODULE, name, args, keywords)
    if name.startswith("torch.") and name.rpartition(".")[2][:1].islower():
        return Op(Form.FUNCTION, name, args, keywords)
    return Op(Form.OTHER, name, args, keywords)


def _applied(callee: Term, args: tuple[Term, ...], keywords: tuple[tuple[str, Term], ...]) -> Term:
    """A call of something; of a module of torch with its arguments in their places."""
    given = dict(keywords)
    if isinstance(callee, Op) and callee.form is Form.MODULE:
        placed = [*itertools.takewhile(given.__contains__, OF_MODULES[len(args) :])]
        args += tuple(given.pop(name) for name in placed)
    return Op(Form.APPLY, "", (callee, *args), tuple(given.items()))


def _is_detached(op: Op) -> bool:
    return op.form is Form.METHOD and op.name == "detach" and len(op.args) == 1
