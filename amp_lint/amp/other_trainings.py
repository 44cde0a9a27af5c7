"""Where another file of the project runs models under CUDA autocast, to train them."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from amp_lint.amp.events import Kind, Recognizer
from amp_lint.amp.gradient_values import is_untracked
from amp_lint.amp.reach import Reach
from amp_lint.flow.program import is_stub
from amp_lint.flow.values import Values
from amp_lint.syntax.assignments import assigned, targets_of
from amp_lint.syntax.names import Names, dotted
from amp_lint.syntax.tree import Tree
from amp_lint.vocabulary.amp import LOAD_STATE_DICT
from amp_lint.vocabulary.modules import CASTING, KEEPING, MODES, PARAMETERS, WRAPPED
from amp_lint.vocabulary.table import words
from amp_lint.vocabulary.written import BACKWARD, REGION, is_scaler, is_stepped

_MODEL = re.compile(
    r"(^|_)(model|net|network|module|pipeline|generator)(_?[gd])?(_func|_fn)?\d*$", re.IGNORECASE
)
"""What models are called, those of a generator and a discriminator too."""
_TESTING = re.compile(
    r"^(?!.*train).*(eval|valid|test|infer|predict|sample|generate)", re.IGNORECASE
)
_STEPS = words(Kind.STEP)
_OF_MODULES = PARAMETERS | MODES
"""Methods that show what they are called on to be a module."""
_ASIDE = KEEPING | CASTING | LOAD_STATE_DICT.words
"""Methods of modules that take something and compute nothing."""


def _parted(node: cst.BaseExpression) -> tuple[str, str, str]:
    return (dotted(node) or "").rpartition(".")


def _is_model(name: str) -> bool:
    """Whether something is called like a model, between underscores or not."""
    return _MODEL.search(name.strip("_")) is not None


def tries_out(tree: Tree, backward: cst.Call) -> bool:
    """Whether a backward is of a test, or of a file that is run itself, where nothing steps."""
    home: cst.CSTNode | None = tree.ancestor(backward, cst.FunctionDef)
    if isinstance(home, cst.FunctionDef):
        home = home if _TESTING.search(home.name.value) else None
    else:
        home = next(filter(_is_of_script, tree.ancestors(backward)), None)
    return home is not None and not any(map(_is_step, tree.below(home, cst.Call)))


def _is_of_script(node: cst.CSTNode) -> bool:
    """Whether it is ``if __name__ == "__main__":``."""
    match node:
        case cst.If(
            test=cst.Comparison(
                left=cst.Name("__name__"), comparisons=[cst.ComparisonTarget(cst.Equal())]
            )
        ):
            return True
    return False


def _is_step(call: cst.Call) -> bool:
    name = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
    return isinstance(name, cst.Name) and name.value in _STEPS


@dataclass(frozen=True, slots=True)
class Trainer:
    """A place that runs models under autocast."""

    name: str
    """The path of its file."""
    line: int
    dtypes: frozenset[str] = frozenset()
    """What the region may cast to."""
    outside: frozenset[str] = frozenset()
    """The methods of models that the file calls, and not in a region."""
    models_only: bool = False
    """Whether losses do not run in half precision there, be they modules."""


class Trainings:
    """Looks for calls of a model that is not known here, with autocast on, in code that trains."""

    def __init__(
        self, tree: Tree, names: Names, values: Values, reach: Reach, recognizer: Recognizer
    ) -> None:
        self.tree = tree
        self.names = names
        self.values = values
        self.reach = reach
        self.recognizer = recognizer

    @functools.cached_property
    def under_autocast(self) -> cst.CSTNode | None:
        """The first region for CUDA in which such a model runs, if it may be on."""
        return next(self._regions(), None) if self.trains else None

    @property
    def of_parts(self) -> cst.CSTNode | None:
        """The same of a model of this file, whose parts other files may define."""
        return next(self._regions(known=True), None) if self.trains else None

    @property
    def by_name(self) -> cst.CSTNode | None:
        """Where such a model runs in what is called like autocast, and comes from elsewhere."""
        calls = self.tree.nodes(cst.Call) if self.trains else ()
        models = (call for call in calls if self._is_model(call, known=False))
        trained = (call for call in models if not self._is_tested(call))
        return next((each for call in trained for each in self._called_autocast(call)), None)

    def _called_autocast(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """``with amp_autocast():`` around a place, of which nothing tells what it is."""
        for holder in self.tree.ancestors(node):
            for item in holder.items if isinstance(holder, cst.With) else ():
                made = item.item
                if not isinstance(made, cst.Call) or made.args or self.names.qualified(made.func):
                    continue
                if REGION in _parted(made.func)[2].lower():
                    yield made

    @property
    def by_framework(self) -> bool:
        """Whether a framework goes backward, which may run models in a precision of its own."""
        calls = self.tree.nodes(cst.Call)
        backward = (call for call in calls if self.recognizer.kind(call) is Kind.BACKWARD)
        return any(self.recognizer.framework(call) is not None for call in backward)

    @functools.cached_property
    def trains(self) -> bool:
        """Whether the file runs backward, or something of another file that seems to.

        But for what tries out a model.
        """
        calls = self.tree.nodes(cst.Call)
        return any(
            (self.recognizer.kind(call) is Kind.BACKWARD and not tries_out(self.tree, call))
            or self._names_backward(call)
            or self._takes_step(call)
            for call in calls
        )

    def _takes_step(self, call: cst.Call) -> bool:
        """``loss_scaler(loss, optimizer)``: a scaler that takes a whole step when it is called."""
        _, _, name = _parted(call.func)
        given = (_parted(arg.value)[2] for arg in call.args[1:])
        return is_scaler(name) and any(map(is_stepped, given))

    def _names_backward(self, call: cst.Call) -> bool:
        """``self._backward(loss)``, of a base class in another file."""
        name = (dotted(call.func) or "").rpartition(".")[2]
        is_own = self.values.function(call.func) is not None
        return name.strip("_") in BACKWARD and bool(call.args) and not is_own

    @functools.cached_property
    def outside(self) -> frozenset[str]:
        """The methods of models that the file calls, and none of them in a region for CUDA."""
        found: dict[str, bool] = {}
        for call in self.tree.nodes(cst.Call):
            for owner, _, method in map(_parted, self._called(call.func)):
                if method != "forward" and _is_model(owner.rpartition(".")[2]):
                    inside = next(self.reach.running(call), None) is not None
                    found[method] = found.get(method, False) or inside
        return frozenset(method for method, inside in found.items() if not inside)

    def _regions(self, *, known: bool = False) -> Iterator[cst.CSTNode]:
        for call in self.tree.nodes(cst.Call):
            if self._is_model(call, known=known) and not self._is_tested(call):
                for chain in self.reach.running(call):
                    yield chain.entered[0].region.node

    def _is_model(self, call: cst.Call, *, known: bool) -> bool:
        names = (dotted(each) or "" for each in self._called(call.func))
        named = any(self._names_model(call, name.removesuffix(".forward")) for name in names)
        runs_one = named or self._gives_loss(call) or self._takes_model(call)
        if not runs_one or self.names.qualified(call.func):
            return False
        return any(not is_stub(each) for each in self.reach.targets(call)) is known

    def _takes_model(self, call: cst.Call) -> bool:
        """``loss = diffusion.loss(x, model=model)``: what is given a model, and gives something."""
        is_used = not isinstance(self.tree.parent(call), cst.Expr)
        return is_used and any(_is_model(_parted(arg.value)[2]) for arg in call.args)

    def _gives_loss(self, call: cst.Call) -> bool:
        """Whether a method that other classes define gives what goes backward: it runs a model."""
        owner, _, _ = _parted(call.func)
        function = self.values.function(call.func)
        if owner != "self" or not (function is None or is_stub(function)):
            return False
        home = self.tree.ancestor(call, cst.FunctionDef)
        given = targets_of(self.tree, call) or self._unpacked(call)
        return any((id(home), name) in self._losses for name in map(dotted, given) if name)

    def _unpacked(self, call: cst.Call) -> list[cst.BaseExpression]:
        """The targets of ``output, loss = call()``."""
        holder = self.tree.parent(call)
        return [target for target, _ in assigned(holder)] if holder is not None else []

    @functools.cached_property
    def _losses(self) -> frozenset[tuple[int, str]]:
        """What goes backward, scaled or not: the function, and the name that it has there."""
        calls = self.tree.nodes(cst.Call)
        backward = (call for call in calls if self.recognizer.kind(call) is Kind.BACKWARD)
        found = ((call, self.recognizer.loss(call)) for call in backward)
        named = ((c, name) for c, loss in found if loss for name in self.tree.below(loss, cst.Name))
        return frozenset((id(self.tree.ancestor(c, cst.FunctionDef)), n.value) for c, n in named)

    def _called(self, func: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """What is called, and what it may be called for: ``f = f or self.model.loss``."""
        yield func
        bindings = self.names.bindings(func) if isinstance(func, cst.Name) else []
        todo = [binding.value for binding in bindings]
        for value in todo:  # grows while it is read
            if isinstance(value, cst.BooleanOperation):
                todo += [value.left, value.right]
            elif isinstance(value, cst.IfExp):
                todo += [value.body, value.orelse]
            elif isinstance(value, cst.Attribute):
                yield value

    def _names_model(self, call: cst.Call, name: str) -> bool:
        """Whether a dotted name is that of a model, or of a method of one that computes."""
        owner, _, last = name.rpartition(".")
        of_model = _is_model(owner.rpartition(".")[2]) or owner in self._used_as_modules
        return (
            _is_model(last)
            or name in self._used_as_modules
            or (of_model and self._computes(call, last))
        )

    @functools.cached_property
    def _used_as_modules(self) -> frozenset[str]:
        """The dotted names of which the file asks what modules have: parameters, and a mode."""
        funcs = (call.func for call in self.tree.nodes(cst.Call))
        methods = (func for func in funcs if isinstance(func, cst.Attribute))
        owners = (dotted(func.value) for func in methods if func.attr.value in _OF_MODULES)
        return frozenset(owner.removesuffix(f".{WRAPPED}") for owner in owners if owner)

    def _computes(self, call: cst.Call, method: str) -> bool:
        """Whether a method of a model computes with what it is given, as ``model.loss(x)`` does."""
        is_used = not isinstance(self.tree.parent(call), cst.Expr)
        return is_used and bool(call.args) and method not in _ASIDE

    def _is_tested(self, call: cst.Call) -> bool:
        """Whether it runs without gradients."""
        home = self.tree.ancestor(call, cst.FunctionDef)
        if home is not None and _TESTING.search(home.name.value):
            return True
        return is_untracked(self.tree, self.names, call)
