"""Autocast regions: which contexts are autocast, with which device, dtype and switch."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from amp_lint.amp.frameworks import is_owner
from amp_lint.amp.kinds import imported_as
from amp_lint.flow.forwarding import completed, passed_on, spread
from amp_lint.flow.program import Program
from amp_lint.flow.values import Arguments, arguments, literal
from amp_lint.syntax.names import PARTIAL, dotted
from amp_lint.syntax.returns import is_property, returned
from amp_lint.syntax.tree import descendants
from amp_lint.vocabulary.amp import CUDA_CUSTOM_FWD, CUSTOM_BWD, CUSTOM_FWD, IS_ENABLED
from amp_lint.vocabulary.meaning import Kind, Meaning, Part, Role
from amp_lint.vocabulary.operations import FLOAT16
from amp_lint.vocabulary.table import BY_METHOD, BY_NAME, methods, names, words

_MAX_STEPS = 6
_MAX_CALLS = 20  # that give something for one parameter
_ENDING = frozenset({"close", "pop_all"})  # what a stack holds
_CUSTOM_FWD = frozenset({*CUSTOM_FWD.names, *CUDA_CUSTOM_FWD.names})
_CAST_INPUTS = CUSTOM_FWD.order[-1]
_FUNCTION = frozenset({"torch.autograd.Function", "torch.autograd.function.Function"})
_INERT_FUNCTIONS = (
    *names(Kind.CLIP),
    *names(Kind.BACKWARD),
    "torch.cuda.",
    "torch.distributed.",
    "torch.isfinite",
    "torch.isinf",
    "torch.isnan",
    "torch.tensor",
    "gc.",
    "logging.",
    "math.",
    "time.",
)  # names, and modules
_CAST_OPERATORS = (cst.MatrixMultiply, cst.MatrixMultiplyAssign, cst.Power)
_INERT_METHODS = frozenset(
    {
        "add_scalar", "append", "cpu", "debug", "detach", "dim", "extend", "format", "get",
        "get_lr", "get_last_lr", "info", "item", "items", "keys", "log", "nelement", "no_sync",
        "numel", "numpy", "parameters", "set_description", "set_postfix", "size",
        "skip_synchronize", "synchronize", "to", "tolist", "values", "warning", "write",
    }
    | methods(Role.SCALER) | methods(Role.OPTIMIZER) | methods(Role.LOSS)
    | words(Role.SCALE) | IS_ENABLED.words
)  # fmt: skip
_COUNTS, _RESULT = words(Kind.UPDATE), "compute"
"""What a metric is told by, and what it is asked by then."""
_INERT_BUILTINS = frozenset(
    {"bool", "dict", "enumerate", "float", "format", "getattr", "hasattr", "int", "isinstance",
     "len", "list", "max", "min", "print", "range", "round", "str", "tuple", "zip"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tail:
    """Statements of a block that need no autocast, from ``first`` up to ``rest``."""

    holder: cst.With
    item: cst.WithItem
    """The autocast context."""
    first: cst.BaseStatement
    rest: cst.BaseStatement | None = None
    """The next statement, for which autocast has to be on; None at the end of the block."""

    @property
    def whole(self) -> bool:
        """Whether nothing is before them."""
        return self.holder.body.body[0] is self.first


@dataclass(frozen=True, slots=True)
class Region:
    """One call that makes an autocast context.

    ``device``, ``dtype``, ``enabled`` are the expressions given, or None for the default.
    """

    node: cst.BaseExpression
    """The call, or the expression that stands for it; where to point."""
    function: str
    """Qualified name of what is called; "" for a framework's own context."""
    dtype: cst.BaseExpression | None = None
    enabled: cst.BaseExpression | None = None
    device: cst.BaseExpression | None = None
    cache_enabled: cst.BaseExpression | None = None
    starred: bool = False
    """Whether some arguments are hidden in ``*args`` or ``**kwargs``."""
    conditional: bool = False
    """Whether the context may be something else, such as ``nullcontext``."""
    choices: tuple[cst.BaseExpression, ...] = ()
    """Then the autocast contexts that it may be; () where that is decided elsewhere."""
    of_several: bool = False
    """Whether a region of another dtype may be entered in its place."""

    @property
    def never_enabled(self) -> bool:
        """Whether the call says ``enabled=False``."""
        return literal(self.enabled) is False

    @property
    def may_say_cache(self) -> bool:
        """Whether the call says, or may say, if casts are kept."""
        return self.starred or self.cache_enabled is not None


@dataclass(frozen=True, slots=True, eq=False)
class Entered:
    """One place that enters a region."""

    region: Region
    context: cst.BaseExpression
    """What stands in the ``with``, or as the decorator."""
    holder: cst.With | cst.FunctionDef


def _entered_by(call: cst.Call) -> list[cst.BaseExpression]:
    """The context of ``stack.enter_context(...)``, or of ``context.__enter__()``."""
    match call:
        case cst.Call(func=cst.Attribute(attr=cst.Name(value="enter_context")), args=[given]):
            return [given.value]
        case cst.Call(func=cst.Attribute(value=context, attr=cst.Name(value="__enter__")), args=[]):
            return [context]
    return []


def _entered_operand(context: cst.BaseExpression) -> cst.BaseExpression:
    """The context that a ``with`` enters: the last of those joined by ``and``, for all are true."""
    while isinstance(context, cst.BooleanOperation) and isinstance(context.operator, cst.And):
        if not isinstance(context.left, (cst.Call, cst.BooleanOperation)):
            break
        context = context.right
    return context


class Regions:
    """Finds autocast contexts behind names, attributes, partials, lambdas and helper functions."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.tree = program.tree
        self.names = program.names
        self.values = program.values
        self._known: dict[int, Region | None] = {}

    def of(self, context: cst.BaseExpression) -> Region | None:
        """The region that entering ``context`` opens, if it may be an autocast context."""
        if id(context) not in self._known:
            self._known[id(context)] = None  # what follows itself is no region
            self._known[id(context)] = self._region(_entered_operand(context), _MAX_STEPS)
        return self._known[id(context)]

    def is_passed_over(self, context: cst.BaseExpression) -> bool:
        """Whether a context of a ``with`` stands in front of an ``and``: it is not entered."""
        child: cst.CSTNode = context
        holder = self.tree.parent(context)
        passed = False
        while isinstance(holder, cst.BooleanOperation):
            passed = passed or (isinstance(holder.operator, cst.And) and holder.left is child)
            child, holder = holder, self.tree.parent(holder)
        return passed and isinstance(holder, cst.WithItem)

    def entered_by(self, call: cst.Call) -> Region | None:
        """The region that a call enters by hand, or puts on the stack of a ``with`` around it."""
        func = call.func
        if not isinstance(func, cst.Attribute):
            return None
        if func.attr.value == "enter_context" and not self._lasts(func.value, call):
            return None
        return next(filter(None, map(self.of, _entered_by(call))), None)

    def _lasts(self, stack: cst.BaseExpression, call: cst.Call) -> bool:
        """Whether a stack ends what it holds with a ``with`` around a call, and not before."""
        name, holder = dotted(stack), self.tree.ancestor(call, cst.With)
        while isinstance(holder, cst.With):
            named = [item.asname.name for item in holder.items if item.asname is not None]
            if any(dotted(each) == name for each in named):
                ends = (each.func for each in self.tree.below(holder, cst.Call))
                methods = (end for end in ends if isinstance(end, cst.Attribute))
                return not any(
                    end.attr.value in _ENDING and dotted(end.value) == name for end in methods
                )
            holder = self.tree.ancestor(holder, cst.With)
        return False

    def left_by(self, call: cst.Call) -> Region | None:
        """The region that ``context.__exit__(...)`` ends."""
        func = call.func
        ends = isinstance(func, cst.Attribute) and func.attr.value == "__exit__"
        return self.of(func.value) if ends and isinstance(func, cst.Attribute) else None

    @functools.cached_property
    def all(self) -> list[Region]:
        """Every region that this file opens: with statements, decorators, stacks of contexts."""
        contexts = [item.item for item in self.tree.nodes(cst.WithItem)]
        contexts += [arg for call in self.tree.nodes(cst.Call) for arg in _entered_by(call)]
        contexts += [decorator.decorator for decorator in self.tree.nodes(cst.Decorator)]
        found = [region for context in contexts if (region := self.of(context)) is not None]
        return list({id(region.node): region for region in found}.values())

    def decorating(self, function: cst.FunctionDef) -> Region | None:
        """The region that a decorator makes of the whole body of ``function``."""
        for decorator in function.decorators:
            region = self.of(decorator.decorator)
            if region is not None:
                return region
        return None

    def casts_inputs(self, function: cst.FunctionDef) -> cst.BaseExpression | None:
        """The dtype to which a decorator casts what a function gets, and turns autocast off."""
        for decorator in function.decorators:
            call = decorator.decorator
            if isinstance(call, cst.Call) and self.names.is_any(call.func, _CUSTOM_FWD):
                dtype = arguments(call).keywords.get(_CAST_INPUTS)
                if dtype is not None and literal(dtype) is not None:
                    return dtype
        return None

    def around(self, node: cst.CSTNode) -> list[Region]:
        """The regions that enclose ``node`` in its own function, innermost first."""
        return [entered.region for entered in self.entered(node)]

    def entered(self, node: cst.CSTNode) -> list[Entered]:
        """Where those regions are entered, innermost first."""
        found: list[Entered] = []
        child: cst.CSTNode = node
        for holder in self.tree.ancestors(node):
            if isinstance(holder, cst.With) and child is holder.body:
                contexts = [item.item for item in reversed(holder.items)]
                found += self._entered(contexts, holder)
            elif isinstance(holder, (cst.FunctionDef, cst.Lambda)):
                if isinstance(holder, cst.FunctionDef) and child is holder.body:
                    contexts = [each.decorator for each in holder.decorators]
                    found += self._entered(contexts, holder)[:1]
                break
            child = holder
        return found

    def enters_unknown(self, node: cst.CSTNode) -> bool:
        """Whether something nobody knows is entered around a place: it may be autocast."""
        holders = (each for each in self.tree.ancestors(node) if isinstance(each, cst.With))
        calls = (item.item for each in holders for item in each.items)
        return any(
            isinstance(call, cst.Call)
            and self.of(call) is None
            and not self.names.qualified(call.func)
            for call in calls
        )

    @functools.cached_property
    def entries(self) -> list[Entered]:
        """Every place of the file that enters a region, the decorators first."""
        found: list[Entered] = []
        for function in self.tree.nodes(cst.FunctionDef):
            found += (e for e in self.entered(function.body) if e.holder is function)
        for each in self.tree.nodes(cst.With):
            found += (e for e in self.entered(each.body) if e.holder is each)
        return found

    def _entered(
        self, contexts: list[cst.BaseExpression], holder: cst.With | cst.FunctionDef
    ) -> list[Entered]:
        pairs = [(context, self.of(context)) for context in contexts]
        return [Entered(region, context, holder) for context, region in pairs if region is not None]

    def trailing(self, node: cst.CSTNode) -> Tail | None:
        """What to move so that ``node`` leaves its autocast block and nothing else changes.

        None if autocast would cast something in the statement of the block that holds ``node``, or
        a context of the ``with`` has a name.
        """
        item = self._innermost_item(node)
        holder = self.tree.parent(item) if item is not None else None
        if item is None or not isinstance(holder, cst.With) or holder.asynchronous is not None:
            return None
        if not isinstance(holder.body, cst.IndentedBlock) or self._has_bare_function:
            return None
        statements = list(holder.body.body)
        at = next(i for i, s in enumerate(statements) if self.tree.contains(s, node))
        needs = (i for i in range(at, len(statements)) if not self.is_inert(statements[i]))
        stop = next(needs, len(statements))
        if stop == at or (stop < len(statements) and not self._can_be_made_again(item)):
            return None
        rest = statements[stop] if stop < len(statements) else None
        return Tail(holder, item, statements[at], rest)

    def _innermost_item(self, node: cst.CSTNode) -> cst.WithItem | None:
        """The autocast context of the innermost ``with`` that has one, if it has one alone."""
        for holder in self.tree.ancestors(node):
            if isinstance(holder, (cst.FunctionDef, cst.Lambda)):
                return None
            if isinstance(holder, cst.With):
                items = [item for item in holder.items if self.of(item.item) is not None]
                if items:
                    named = len(holder.items) > 1 and any(each.asname for each in holder.items)
                    return items[0] if len(items) == 1 and not named else None
        return None

    def _can_be_made_again(self, item: cst.WithItem) -> bool:
        """Whether a second region can be opened like the first: by torch's own class."""
        region = self.of(item.item)
        return region is not None and region.node is item.item and item.asname is None

    def is_inert(self, statement: cst.CSTNode, steps: int = 2) -> bool:
        """Whether autocast makes no difference to a statement, by the calls in it."""
        for node in descendants(statement):
            if isinstance(node, (cst.Yield, cst.Await, cst.FunctionDef)):
                return False
            if self.may_be_cast(node, steps):
                return False
        return True

    def may_be_cast(self, node: cst.CSTNode, steps: int = 2) -> bool:
        """Whether autocast may make a difference to an expression by itself."""
        if isinstance(getattr(node, "operator", None), _CAST_OPERATORS):
            return True
        return isinstance(node, cst.Call) and not self.is_inert_call(node, steps)

    def is_inert_call(self, call: cst.Call, steps: int = 2) -> bool:
        """Whether autocast makes no difference to a call, by its name or by what it runs."""
        target = self.program.target(call) if steps > 0 else None
        if target is not None:
            return self.is_inert(target.body, steps - 1)
        return self._is_inert_by_name(call)

    def _is_inert_by_name(self, call: cst.Call) -> bool:
        names = self.names.qualified(call.func)
        if names and all(name.startswith(_INERT_FUNCTIONS) for name in names):
            return True
        if any(name.startswith("torch.") for name in names):
            return False
        if isinstance(call.func, cst.Attribute):
            name = call.func.attr.value  # ``x.log()`` computes, ``run.log(...)`` reports
            known = name in _INERT_METHODS and (name != "log" or bool(call.args))
            return known and not (name in _COUNTS and self._is_metric(call.func.value))
        return isinstance(call.func, cst.Name) and call.func.value in _INERT_BUILTINS

    def _is_metric(self, owner: cst.BaseExpression) -> bool:
        """Whether a result is asked of an object, too: it may compute on what it is given."""
        asked = map(self.tree.parent, self.tree.named(_RESULT))
        return any(
            isinstance(each, cst.Attribute) and each.value.deep_equals(owner) for each in asked
        )

    @functools.cached_property
    def _has_bare_function(self) -> bool:
        """Whether the file defines an autograd Function without custom_fwd and custom_bwd.

        Its backward may rely on autocast being on.
        """
        for owner in self.tree.nodes(cst.ClassDef):
            if any(self.names.is_any(base.value, _FUNCTION) for base in owner.bases):
                decorators = [
                    self.tree.source(decorator.decorator)
                    for decorator in self.tree.below(owner, cst.Decorator)
                ]
                if not any(word in text for text in decorators for word in CUSTOM_BWD.words):
                    return True
        return False

    def _region(self, context: cst.BaseExpression, steps: int) -> Region | None:
        if steps <= 0:
            return None
        alternatives = [*self._alternatives(context)]
        found = [self._of_call(alternative, steps) for alternative in alternatives]
        regions = [region for region in found if region is not None]
        first = self._common(found)
        if first is None or len(regions) == len(alternatives):
            return first
        pairs = zip(alternatives, found, strict=True)
        chosen = tuple(alternative for alternative, region in pairs if region is not None)
        return replace(first, conditional=True, choices=chosen)

    def _common(self, found: Sequence[Region | None]) -> Region | None:
        """What is known of a region that may be any of several, or none at all."""
        regions = [region for region in found if region is not None]
        if not regions:
            return None
        ranks = [self._rank(region) for region in regions]
        first = regions[ranks.index(min(ranks))]
        conditional = first.conditional or len(regions) < len(found)
        several = first.of_several or len({*ranks}) > 1
        return replace(first, conditional=conditional, of_several=several)

    def _rank(self, region: Region) -> int:
        """Of contexts that may be entered, that of float16 counts: it needs more than others."""
        if region.never_enabled:
            return 3
        if region.dtype is None:
            return 1
        return 0 if self.names.is_only(region.dtype, FLOAT16) else 2

    def _alternatives(self, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """What an expression may stand for; a parameter, for what calls in sight give for it."""
        for value in self.values.alternatives(node):
            yield from self._given(value) or (value,)

    def _given(self, node: cst.BaseExpression) -> list[cst.BaseExpression]:
        bindings = self.names.bindings(node) if isinstance(node, cst.Name) else []
        if [binding.kind for binding in bindings] != ["parameter"]:
            return []
        home = self.tree.ancestor(bindings[0].node, cst.FunctionDef)
        calls = self.program.calls_of(home)[:_MAX_CALLS] if home is not None else ()
        bound = (self.program.bind(home, call).get(bindings[0].name) for call in calls if home)
        return [value for each in bound if each for value in self.values.alternatives(each)]

    def _of_property(self, node: cst.BaseExpression, steps: int) -> Region | None:
        """The region that ``self.context`` makes anew each time, where that is a method."""
        made = self.values.function(node) if isinstance(node, cst.Attribute) else None
        if made is None or not is_property(made):
            return None
        region = self._common([self._region(each, steps - 1) for each in _contexts_made(made)])
        hidden = region is not None and self.tree.is_own(node) > self.tree.is_own(region.node)
        return replace(region, node=node) if hidden and region is not None else region

    def _of_call(self, node: cst.BaseExpression, steps: int) -> Region | None:
        if not isinstance(node, cst.Call):
            return self._of_property(node, steps)
        for function in self._alternatives(node.func):
            region = self._of_function(node, function, steps)
            if region is not None:
                return region
        return None

    def _of_function(
        self, call: cst.Call, function: cst.BaseExpression, steps: int
    ) -> Region | None:
        made = self._named(call, function, spread(call, self.values))
        if made is not None:
            return made
        if isinstance(function, cst.Call) and self.names.is_any(function.func, PARTIAL):
            return self._of_partial(call, function)
        if isinstance(function, cst.Call):
            return self._of_maker(call, function, steps)
        if isinstance(function, cst.Lambda):
            return self._region(function.body, steps - 1)
        if isinstance(function, cst.Attribute):
            made = self._of_framework(call, function)
            if made is not None:
                return made
        return self._of_helper(call, function, steps)

    def _named(
        self, call: cst.Call, function: cst.BaseExpression, given: Arguments
    ) -> Region | None:
        """The region of torch's own autocast, in any of its spellings."""
        found = self.names.qualified(function)
        if len(found) > 1 and isinstance(function, (cst.Name, cst.Attribute)):
            found = imported_as(self.names, self.tree, function, found) or found
        for name in sorted(found):
            row = BY_NAME.get(name)
            if row is not None and row.gives is Role.REGION:
                return _build(call, name, row, given)
        return None

    def _of_framework(self, call: cst.Call, function: cst.Attribute) -> Region | None:
        for row in BY_METHOD.get(function.attr.value, ()):
            if row.gives is Role.REGION and is_owner(row, function.value, self.names, self.values):
                handler = arguments(call).get(*row.place(Part.ENABLED))
                return Region(call, "", enabled=self._switch(handler))
        return None

    def _switch(self, handler: cst.BaseExpression | None) -> cst.BaseExpression | None:
        """What is given as ``enabled`` by an object that has it; unknown is the object itself."""
        for value in self.values.alternatives(handler) if handler is not None else ():
            if not isinstance(value, cst.Call):
                return None if literal(value) is None else handler
            rows = (BY_NAME.get(name) for name in self.names.qualified(value.func))
            row = next(filter(None, rows), None)
            return arguments(value).get(*row.place(Part.ENABLED)) if row is not None else handler
        return None

    def _of_maker(self, call: cst.Call, maker: cst.Call, steps: int) -> Region | None:
        """The region of ``make(...)()``, where a function returns what makes the context."""
        definition = self.values.function(maker.func)
        if definition is None or steps <= 0:
            return None
        made = [v for each in returned(definition) for v in self.values.alternatives(each)]
        regions = [self._of_function(call, function, steps - 1) for function in made]
        return self._common([self._seen_from(call, region) for region in regions])

    def _of_partial(self, call: cst.Call, partial: cst.Call) -> Region | None:
        function, given = completed(partial, call)
        return self._named(call, function, given) if function is not None else None

    def _of_helper(self, call: cst.Call, function: cst.BaseExpression, steps: int) -> Region | None:
        """The region of a function that returns a context or yields inside one."""
        definition = self.values.function(function) or self._method(function)
        if definition is None:
            return None
        for context in _contexts_made(definition):
            region = self._region(context, steps - 1)
            if region is not None:
                return self._seen_from(call, region, definition)
        return None

    def _method(self, function: cst.BaseExpression) -> cst.FunctionDef | None:
        """The method of an object that is made here: ``precision.context``."""
        owner = function.value if isinstance(function, cst.Attribute) else None
        made = self.values.instance_class(owner) if owner is not None else None
        return self.values.method(made, function.attr.value) if made is not None else None  # type: ignore[attr-defined]

    def _seen_from(
        self, call: cst.Call, region: Region | None, helper: cst.FunctionDef | None = None
    ) -> Region | None:
        """A region that a linked file makes, as ``call`` opens it here, with its arguments.

        With its arguments, too, where a helper of this file hands on ``**kwargs``.
        """
        if region is None or not self.tree.is_own(call):
            return region
        own = self.tree.is_own(region.node)
        if own and (helper is None or not region.starred):
            return region
        made, place = region.node, region.node if own else call
        if helper is None or not isinstance(made, cst.Call):
            return replace(region, node=place)
        if not self.names.is_any(made.func, {region.function}):
            return replace(region, node=place)
        given = passed_on(made, helper, call, self.program)
        built = _build(call, region.function, BY_NAME[region.function], given)
        return replace(built, node=place, conditional=region.conditional)


def _contexts_made(function: cst.FunctionDef) -> Iterator[cst.BaseExpression]:
    is_manager = any("contextmanager" in (dotted(d.decorator) or "") for d in function.decorators)
    for node in descendants(function.body):
        if isinstance(node, cst.Return) and node.value is not None:
            yield node.value
        elif is_manager and isinstance(node, cst.With):
            yield from (item.item for item in node.items)


def _build(call: cst.Call, name: str, row: Meaning, given: Arguments) -> Region:
    parts = (Part.DTYPE, Part.ENABLED, Part.DEVICE, Part.CACHE)
    dtype, enabled, device, cache = (given.get(*row.place(part)) for part in parts)
    return Region(call, name, dtype, enabled, device, cache, given.starred)
