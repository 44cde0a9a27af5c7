"""How long a scaler lives: whether it is made once for a training, or again and again.

What a scaler learns, the scale at which gradients fit, is kept in it alone. One that is made in
each round of a training loop, or in a function that such a loop calls, forgets it each time. That
is right only where the training starts anew as well, with another optimizer.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from amp_lint.amp.events import stepped
from amp_lint.flow.attempts import is_recovery
from amp_lint.flow.branches import arms
from amp_lint.flow.values import literal
from amp_lint.model import Model
from amp_lint.syntax.assignments import assigned
from amp_lint.syntax.names import dotted
from amp_lint.syntax.tree import descendants
from amp_lint.vocabulary.amp import GET_SCALE, LOAD_STATE_DICT
from amp_lint.vocabulary.written import STEPS

Loop = cst.For | cst.While
_LOOPS = (cst.For, cst.While)
_FUNCTIONS = (cst.FunctionDef, cst.Lambda)
_ONCE = re.compile(r"^_*(test|main|bench|check|demo|run_test)|test$", re.IGNORECASE)
"""In the names of functions that train, and of which each call is a training of its own."""
_EPOCH = re.compile(r"^(i_|cur_|curr_|current_)?epoch(_?(i|id|idx|index))?$", re.IGNORECASE)
"""What tells a function which epoch it is; ``epochs`` says how many there are."""
_ONE_EPOCH = re.compile(r"(^|_)train(_one)?_epoch$")
"""The name of a function that trains an epoch, whichever."""
(_LOAD,) = LOAD_STATE_DICT.words
_MAX_CALLS = 2  # in each other, that a scaler is followed through
_THROUGH = (cst.With, cst.Try, cst.TryStar, cst.IndentedBlock, cst.SimpleStatementLine)


@dataclass(frozen=True, slots=True)
class Recreation:
    """A scaler that is made again while the training with its optimizer goes on."""

    call: cst.Call
    """The constructor."""
    again: Loop | cst.Call | cst.FunctionDef
    """What repeats it: a loop, a call in a loop of the function in which it stands, or that
    function, where it is one step of a training. Or the call that loaded a state that is lost."""
    assign: cst.Assign | cst.AnnAssign
    before: Loop | None = None
    """The loop before which the assignment can stand, with the same result: the outermost in which
    the optimizer stays the same."""


@dataclass(frozen=True, slots=True)
class _Made:
    """One constructor call whose result gets a plain name."""

    call: cst.Call
    assign: cst.Assign | cst.AnnAssign
    name: str
    """As it is written: a variable, or an attribute of ``self``."""
    tests: tuple[cst.BaseExpression, ...]
    """What decides whether it is made, innermost first."""


class Lifetimes:
    """Finds the scalers that do not live as long as their optimizer."""

    def __init__(self, model: Model) -> None:
        self.tree = model.linked
        self.roles = model.roles
        self.names = model.steps.recognizer.names
        self.program = model.program
        self.recognizer = model.steps.recognizer

    @functools.cached_property
    def recreated(self) -> list[Recreation]:
        """Every such scaler, in source order."""
        found: dict[int, Recreation] = {}
        for made in (made for call in self.roles.scaler_calls for made in self._made(call)):
            ways = (self._in_loop, self._in_function, self._in_step, self._after_load)
            recreation = next(filter(None, (way(made) for way in ways)), None)
            if recreation is not None:
                found.setdefault(id(made.call), recreation)
        return [*found.values()]

    def _made(self, call: cst.Call) -> Iterator[_Made]:
        """The scaler that a call makes, under each of its names."""
        assign = self.tree.ancestor(call, cst.Assign, cst.AnnAssign)
        if (
            not isinstance(assign, (cst.Assign, cst.AnnAssign))
            or self.roles.is_never_on(call)
            or self._continues(call)
            or is_recovery(self.tree, call, self.program.loop(call))
        ):
            return
        tests = tuple(self._tests(call))
        read = {word for test in tests for word in (*_words(test), *_texts(test))}
        pairs = [(t, v) for t, v in assigned(assign) if v and self.tree.contains(v, call)]
        names = {name: v for t, v in pairs if (name := dotted(t)) and _is_owned(name)}
        plain = len(names) == len(pairs) and read.isdisjoint(map(_last, names))
        for name, value in names.items() if plain else ():
            if value is call or isinstance(value, cst.IfExp):
                yield _Made(call, assign, name, tests)

    def _tests(self, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
        """The tests around a node, up to its loop or function."""
        yield from (test for test, _ in self._arms(node))

    def _arms(self, node: cst.CSTNode) -> Iterator[tuple[cst.BaseExpression, bool]]:
        """The same, and how each turned out."""
        loop = self.program.loop(node)
        for test, holds in arms(self.tree, node):
            if loop is None or self.tree.contains(loop, test):
                yield test, holds

    def _continues(self, call: cst.Call) -> bool:
        """Whether the new scaler starts where another one was."""
        scale = self.roles.initial_scale(call)
        scope = self.tree.ancestor(call, cst.FunctionDef) or self.tree.module
        return (
            scale is not None
            and literal(scale) is ...
            and not GET_SCALE.words.isdisjoint(_words(scope))
        )

    # --- in a loop ----------------------------------------------------------------------------

    def _in_loop(self, made: _Made) -> Recreation | None:
        loop = self.program.loop(made.call)
        if loop is None or self._ends_at_once(loop) or self._restores(made, loop):
            return None
        changing = self._assigned(loop) - {made.name}
        if any(changing & self._read(test) for test in made.tests):
            return None
        optimizers = list(self._optimizers(made, loop))
        if not optimizers or any(not self._outlives(o, loop) for o in optimizers):
            return None
        outermost = loop
        for outer in self.program.loops(made.call):
            if not all(self._outlives(optimizer, outer) for optimizer in optimizers):
                break
            outermost = outer
        movable = self._is_movable(made, loop, outermost)
        return Recreation(made.call, loop, made.assign, outermost if movable else None)

    def _is_movable(self, made: _Made, loop: Loop, outermost: Loop) -> bool:
        """Whether the loop's block holds it, and nothing in the outermost loop changes it."""
        line = self.tree.parent(made.assign)
        if not isinstance(line, cst.SimpleStatementLine) or self.tree.parent(line) is not loop.body:
            return False
        if "." in made.name:
            return False  # other methods may need it earlier
        assert isinstance(loop.body, cst.IndentedBlock)
        alone = len(line.body) == 1 and len(loop.body.body) > 1
        bindings = self.names.visible(made.assign, made.name)
        own = [binding for binding in bindings if self.tree.contains(outermost, binding.node)]
        read = {word for arg in made.call.args for word in _words(arg.value)}
        calls = any(isinstance(n, cst.Call) for a in made.call.args for n in descendants(a.value))
        plain = made.assign.value is made.call and not calls
        plain = plain and len(list(assigned(made.assign))) == 1
        return alone and plain and len(own) == 1 and not read & self._assigned(outermost)

    def _optimizers(self, made: _Made, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
        """What the scaler steps below a node, if its scaled losses are from there too."""
        calls = self.tree.below(node, cst.Call)
        original = self.recognizer.values.original
        methods = {
            call: call.func.attr.value
            for call in calls
            if isinstance(call.func, cst.Attribute)
            and dotted(original(call.func.value)) == made.name
        }
        if any(map(self.recognizer.is_scale, methods)):
            steps = [call for call, method in methods.items() if method in STEPS]
            yield from (original(value) for value in map(stepped, steps) if value is not None)
        for call in calls:
            given = [original(arg.value) for arg in call.args if not arg.star]
            target = self.program.target(call)
            passed = any(dotted(value) == made.name for value in given)
            if passed and target is not None and id(target) in self.recognizer.eventful:
                yield from (value for value in given if self.roles.is_optimizer(value))
            if passed and (stepping := self._stepping(call)) is not None:
                yield original(stepping)

    def _stepping(self, call: cst.Call) -> cst.BaseExpression | None:
        """The optimizer of ``optimizer.step(scaler=scaler)``: one that takes the step itself."""
        match call.func:
            case cst.Attribute(value=owner, attr=cst.Name(value=name)) if name in STEPS:
                return owner if self.roles.is_optimizer(owner) else None
        return None

    def _restores(self, made: _Made, node: cst.CSTNode) -> bool:
        """Whether the new scaler gets the state of an old one."""
        return any(self._loads(made, call) for call in self.tree.below(node, cst.Call))

    def _ends_at_once(self, loop: Loop) -> bool:
        """Whether a loop only repeats what failed: it is left at the end of its first round."""
        leaves = (*self.tree.below(loop, cst.Break), *self.tree.below(loop, cst.Return))
        return any(self._is_unconditional(leave, loop) for leave in leaves)

    def _is_unconditional(self, leave: cst.CSTNode, loop: Loop) -> bool:
        for holder in self.tree.ancestors(leave):
            if holder is loop:
                return True
            if not isinstance(holder, _THROUGH):
                return False
        return False

    def _outlives(self, optimizer: cst.BaseExpression, loop: Loop) -> bool:
        """Whether an optimizer is the same in every round, as far as can be seen."""
        name = dotted(optimizer)
        if name is None:
            return False
        made = {name, name.partition(".")[0]} - {"self"}
        return not made & (self._assigned(loop) | self._assigned_in_calls(loop))

    def _assigned_in_calls(self, loop: Loop) -> set[str]:
        """The attributes that the functions called in a loop assign."""
        calls = self.tree.below(loop, cst.Call)
        targets = {id(t): t for c in calls if (t := self.program.target(c)) is not None}
        names = {name for target in targets.values() for name in self._assigned(target)}
        return {name for name in names if "." in name}

    # --- in a function that a loop calls ------------------------------------------------------

    def _in_function(self, made: _Made) -> Recreation | None:
        function = self.tree.ancestor(made.call, *_FUNCTIONS)
        if not isinstance(function, cst.FunctionDef) or self.program.loop(made.call) is not None:
            return None
        if self._restores(made, function) or not self._is_one_epoch(made, function):
            return None
        optimizers = list(self._optimizers(made, function))
        for call in self.program.calls_by_class(function):
            loop = self.program.loop(call)
            if loop is None or self._ends_at_once(loop) or not optimizers:
                continue
            if all(self._is_given(o, function, call, loop) for o in optimizers):
                return Recreation(made.call, call, made.assign)
        return None

    # --- in a step, and after a state was loaded ----------------------------------------------

    def _in_step(self, made: _Made) -> Recreation | None:
        """In a function that trains once, with an optimizer of somebody else: a step, an epoch."""
        function = self.tree.ancestor(made.call, *_FUNCTIONS)
        if not isinstance(function, cst.FunctionDef) or self.program.calls_of(function):
            return None
        if self._restores(made, function) or _ONCE.search(function.name.value):
            return None
        if self.program.loop(made.call) or not self._trains_once(made, function):
            return None
        optimizers = list(self._optimizers(made, function))
        if not optimizers or not all(self._is_older(each, function) for each in optimizers):
            return None
        return Recreation(made.call, function, made.assign)

    def _trains_once(self, made: _Made, function: cst.FunctionDef) -> bool:
        """Whether a function takes one step, or trains the epoch that it is told."""
        scales = [*filter(self.recognizer.is_scale, self.tree.below(function, cst.Call))]
        if scales and not any(self.program.loop(call) for call in scales):
            return True
        told = any(_EPOCH.search(param.name.value) for param in function.params.params)
        return (told or _ONE_EPOCH.search(function.name.value) is not None) and self._is_one_epoch(
            made, function
        )

    def _is_older(self, optimizer: cst.BaseExpression, function: cst.FunctionDef) -> bool:
        """Whether an optimizer is a parameter of a function, or an attribute it leaves alone."""
        name = dotted(optimizer)
        params = (*function.params.params, *function.params.kwonly_params)
        first = name.partition(".")[0] if name is not None else None
        given = any(param.name.value == first for param in params)
        return given and not {name, first} & self._assigned(function)

    def _after_load(self, made: _Made) -> Recreation | None:
        """After the state of the one that it replaces was loaded."""
        holder = self.program.function_of(made.call) or self.tree.module
        if self.program.loop(made.call) or self._restores_later(made, holder):
            return None
        loads = [call for call in self.tree.nodes(cst.Call) if self._loads(made, call)]
        if any(True for _ in self._optimizers(made, holder)):
            own = (load for load in loads if self.tree.is_own(load))
            before = (load for load in own if self._is_before(load, made, holder))
            lost = next((load for load in before if self._is_under(made, load)), None)
        else:
            lost = next(self._run_before(made, holder, loads), None)
        return Recreation(made.call, lost, made.assign) if lost is not None else None

    def _loads(self, made: _Made, call: cst.Call) -> bool:
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value != _LOAD:
            return False
        return made.name in (dotted(func.value), dotted(self.program.values.original(func.value)))

    def _run_before(
        self, made: _Made, holder: cst.CSTNode, loads: list[cst.Call]
    ) -> Iterator[cst.Call]:
        """The loads of an attribute, stepped by its class, in methods that are called above.

        Or of what these are given for it.
        """
        owner = self.tree.ancestor(holder, cst.ClassDef)
        if owner is None or not any(True for _ in self._optimizers(made, owner)):
            return
        running = [(load, self.program.running([load])) for load in loads if "." in made.name]
        for call in self.tree.below(holder, cst.Call):
            if self.tree.order(call) > self.tree.order(made.call) or not self._is_of_self(call):
                continue
            target = self.program.target(call)
            if target is not None and self._is_under(made, call):
                yield from (load for load, functions in running if id(target) in functions)
                yield from self._given_loads(made.name, call)

    def _given_loads(self, scaler: str, call: cst.Call, depth: int = 0) -> Iterator[cst.Call]:
        """The loads, in a function that is given a scaler, of the parameter that it is given as.

        In that function, or in one that it gives it to.
        """
        target = self.program.target(call)
        given = self.program.bind(target, call) if target is not None else {}
        names = {name for name, value in given.items() if dotted(value) == scaler}
        for inner in self.tree.below(target, cst.Call) if target is not None and names else ():
            if dotted(inner.func) in {f"{name}.{_LOAD}" for name in names}:
                yield inner
            elif depth < _MAX_CALLS:
                for name in names:
                    yield from self._given_loads(name, inner, depth + 1)

    def _is_under(self, made: _Made, before: cst.CSTNode) -> bool:
        """Whether all tests that decide whether a scaler is made decide about a place, too."""
        around, needed = (
            {(self.tree.source(test), holds) for test, holds in self._arms(node)}
            for node in (before, made.call)
        )
        return needed <= around

    def _is_of_self(self, call: cst.Call) -> bool:
        """``self.method()``, ``super().method()``."""
        owner = call.func.value if isinstance(call.func, cst.Attribute) else None
        by_super = isinstance(owner, cst.Call) and dotted(owner.func) == "super"
        return by_super or (owner is not None and dotted(owner) == "self")

    def _is_before(self, load: cst.Call, made: _Made, holder: cst.FunctionDef | cst.Module) -> bool:
        """Whether a state is loaded above, or by another method before this one trains."""
        at = self.program.function_of(load) or self.tree.module
        if at is holder:
            return self.tree.order(load) < self.tree.order(made.call)
        owner = self.tree.ancestor(load, cst.ClassDef) if "." in made.name else None
        if owner is None or owner is not self.tree.ancestor(made.call, cst.ClassDef):
            return False
        starts = self.tree.below(owner, cst.Call)
        earlier = (c for c in starts if self.roles.is_constructor(c) and c is not made.call)
        return any(self._is_named(each, made) for each in earlier)

    def _is_named(self, call: cst.Call, made: _Made) -> bool:
        """Whether ``__init__`` makes the same attribute."""
        function = self.program.function_of(call)
        others = {other.name for other in self._made(call)}
        return function is not None and function.name.value == "__init__" and made.name in others

    def _restores_later(self, made: _Made, holder: cst.CSTNode) -> bool:
        """Whether the new scaler gets a state as well, here or in what is called from here."""
        todo, seen = [holder], {id(holder)}
        while todo:
            node = todo.pop()
            for call in self.tree.below(node, cst.Call):
                if node is holder and self.tree.order(call) < self.tree.order(made.call):
                    continue
                if self._loads(made, call):
                    return True
                target = self.program.target(call)
                if target is not None and id(target) not in seen:
                    seen.add(id(target))
                    todo.append(target)
        return False

    def _is_one_epoch(self, made: _Made, function: cst.FunctionDef) -> bool:
        """Whether the losses are scaled in one loop at most: not a training of many epochs."""
        calls = self.tree.below(function, cst.Call)
        own = [call for call in calls if self.recognizer.is_scale(call)]
        return all(len(list(self.program.loops(call))) <= 1 for call in own)

    def _is_given(
        self,
        optimizer: cst.BaseExpression,
        function: cst.FunctionDef,
        call: cst.Call,
        loop: Loop,
    ) -> bool:
        """Whether the function gets its optimizer from outside of the loop that calls it."""
        name = dotted(optimizer)
        if name is None or {name, name.partition(".")[0]} & self._assigned(function):
            return False
        parameters = [
            p.name.value for p in (*function.params.params, *function.params.kwonly_params)
        ]
        if name not in parameters:
            return name.partition(".")[0] not in parameters[1:] and self._outlives(optimizer, loop)
        value = self.program.bind(function, call).get(name)
        return value is not None and self._outlives(value, loop)

    # --- helpers ------------------------------------------------------------------------------

    def _read(self, node: cst.CSTNode) -> set[str]:
        """The names in an expression, those that are only other names followed."""
        names = (part for part in descendants(node) if isinstance(part, cst.Name))
        return {word for name in names for word in _words(self.recognizer.values.original(name))}

    def _assigned(self, node: cst.CSTNode) -> set[str]:
        """The names and attributes that are assigned below a node."""
        names = map(dotted, self.program.assigned(node))
        return {name for name in names if name is not None}


def _is_owned(name: str) -> bool:
    """Whether a name is that of a variable, or of an attribute of ``self``."""
    return "." not in name or (name.startswith("self.") and name.count(".") == 1)


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _texts(node: cst.CSTNode) -> set[object]:
    """The strings below a node: the attributes that ``hasattr`` and ``getattr`` ask for."""
    return {literal(text) for text in descendants(node) if isinstance(text, cst.SimpleString)}


def _words(node: cst.CSTNode) -> set[str]:
    return {name.value for name in descendants(node) if isinstance(name, cst.Name)}
