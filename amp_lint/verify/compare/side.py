"""One of two texts that are compared: what was lifted from it."""

from __future__ import annotations

import builtins
import functools
import itertools
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import libcst as cst

from amp_lint.flow.values import literal
from amp_lint.model import Model
from amp_lint.syntax.tree import descendants
from amp_lint.verify.compare.dynamic.handed_on import handed_on
from amp_lint.verify.compare.effect_free import active
from amp_lint.verify.compare.effects import Effects, Walker
from amp_lint.verify.compare.lift import Lifter
from amp_lint.verify.compare.traces import Tracer
from amp_lint.verify.compare.units import Unit, name_of, units
from amp_lint.verify.compare.uses import AmpUse, amp_uses, argument_term
from amp_lint.verify.obligations import Autocast
from amp_lint.verify.terms import Const, Form, Global, Input, Op, Term, mapped
from amp_lint.vocabulary.meaning import Kind, Role
from amp_lint.vocabulary.purity import WRITING_METHODS
from amp_lint.vocabulary.table import methods, words

_BUILTINS = frozenset(dir(builtins)) | {"__file__", "__name__", "__doc__", "__path__", "__class__"}
States = dict[Term, list[tuple[cst.CSTNode, Autocast | None]]]
"""Operations, with their places and what is active there."""
_CAST_OPERATORS = (
    cst.MatrixMultiply, cst.MatrixMultiplyAssign, cst.Power, cst.PowerAssign
)  # fmt: skip
_KEPT = frozenset({Kind.BACKWARD, Kind.CLIP, Kind.STEP, Kind.UNSCALE, Kind.UPDATE, Kind.ZERO_GRAD})
_KEPT_METHODS = methods(Role.SCALER) - words(Role.SCALED_LOSS)
"""Events that may be kept for later, and the methods of a scaler that are some."""
_Operation = cst.Call | cst.BinaryOperation | cst.AugAssign


@dataclass(eq=False)
class Side:
    """One of the two texts, and what was lifted from it."""

    model: Model
    lifter: Lifter = field(init=False)
    alias: dict[Term, Term] = field(default_factory=dict)
    """Losses that were found to be those of the other side, written in another way."""
    whole: bool = False
    """Whether what comes after a step or an update belongs to the same trace."""
    _tracers: dict[bool, Tracer] = field(default_factory=dict)
    _states: dict[str, States] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lifter = Lifter(self.model)

    @functools.cached_property
    def units(self) -> dict[str, Unit]:
        """Functions, classes and the script by name."""
        return dict(units(self.model))

    @functools.cached_property
    def effects(self) -> dict[str, Effects]:
        """What each unit does."""
        return {name: Walker(self.lifter, unit).found for name, unit in self.units.items()}

    @functools.cached_property
    def uses(self) -> list[AmpUse]:
        """Where torch's AMP interface is used."""
        return [*amp_uses(self.lifter)]

    @functools.cached_property
    def active(self) -> frozenset[str]:
        """The names of functions and methods that change something, and of what computes itself."""
        return active(self.model) | self.lifter.computed.made

    @property
    def tracer(self) -> Tracer:
        """Makes the programs of this side."""
        if self.whole not in self._tracers:
            found = self.effects.values()
            losses = {key: term for e in found for key, term in e.losses.items()}
            made = Tracer(self.lifter, losses, self.alias, whole=self.whole)
            self._tracers[self.whole] = made
        return self._tracers[self.whole]

    @functools.cached_property
    def unbound(self) -> dict[tuple[str, str], cst.Name]:
        """The names that nothing binds, each with its first use.

        And those that only later lines of their function bind, which is the second part of the key.
        """
        found: dict[tuple[str, str], cst.Name] = {}
        names = self.model.names
        if names.module.star_imports:
            return found
        imported = self._imported
        for node in self.model.tree.nodes(cst.Name):
            if not self._is_read(node) or id(node) in imported:
                continue
            if node.value not in _BUILTINS and not names.bindings(node):
                found.setdefault((node.value, ""), node)
            elif names.is_early(node.value, node):
                found.setdefault((node.value, name_of(self.model, node)), node)
        return found

    def _is_read(self, node: cst.Name) -> bool:
        """Whether a name stands for its value here, and is not a part of something longer."""
        holder = self.model.tree.parent(node)
        if isinstance(holder, cst.Param):
            return holder.name is not node
        if isinstance(holder, cst.AnnAssign):
            return holder.target is not node  # which binds nothing, where there is no value
        return not isinstance(holder, (cst.Attribute, cst.Arg)) or holder.value is node

    @property
    def _imported(self) -> set[int]:
        """The nodes of import statements, by id."""
        tree = self.model.tree
        imports = (*tree.nodes(cst.Import), *tree.nodes(cst.ImportFrom))
        return {id(node) for statement in imports for node in descendants(statement)}

    @functools.cached_property
    def has_kept_events(self) -> bool:
        """Whether events of a training step are kept, and run when somebody calls what has them.

        In a ``lambda``, as a method that is bound: ``step = scaler.step``, or in one that is called
        without its name: ``__exit__``.
        """
        tree, recognizer = self.model.tree, self.model.steps.recognizer
        functions = (f for f in tree.nodes(cst.FunctionDef) if _is_implicit(f.name.value))
        for node in itertools.chain[cst.CSTNode](tree.nodes(cst.Lambda), functions):
            if _KEPT.intersection(map(recognizer.kind, tree.below(node, cst.Call))):
                return True
        for word in (each for name in sorted(_KEPT_METHODS) for each in tree.named(name)):
            method = tree.parent(word)
            if isinstance(method, cst.Attribute) and method.attr is word:
                call = tree.parent(method)
                is_called = isinstance(call, cst.Call) and call.func is method
                if not is_called and self.model.roles.is_scaler(method.value):
                    return True
        return False

    def mentions(self, *words: str) -> bool:
        """Whether the file has one of some names: as such, or as a text that ends in it."""
        named = self.model.tree.named
        return any(named(word) or word in self._texts for word in words)

    @functools.cached_property
    def _texts(self) -> frozenset[str]:
        """The last names of the literal texts, as ``getattr`` and its like are given them."""
        texts = (literal(node) for node in self.model.tree.nodes(cst.SimpleString))
        return frozenset(each.rpartition(".")[2] for each in texts if isinstance(each, str))

    @functools.cached_property
    def handed_on(self) -> frozenset[int | str]:
        """The functions and classes, by id, that are read for more than to call them.

        Whoever gets one may ask for what it says of itself. Methods of any object by their names.
        """
        return frozenset(handed_on(self.model))

    def line(self, node: cst.CSTNode) -> int:
        """The line on which a node starts."""
        return self.model.source.position(self.model.tree.span(node)[0])[0]

    def last_line(self, node: cst.CSTNode) -> int:
        """The line on which a node ends."""
        return self.model.source.position(self.model.tree.span(node)[1])[0]

    @functools.cached_property
    def calls(self) -> dict[int, list[cst.Call]]:
        """Id of a function, class or the script -> the calls in it, but not in those within."""
        found: dict[int, list[cst.Call]] = defaultdict(list)
        for call in self.model.tree.nodes(cst.Call):
            found[id(self.holder(call))].append(call)
        return found

    def holder(self, node: cst.CSTNode) -> Unit:
        """The function, class or script that a place belongs to."""
        for found in self.model.tree.ancestors(node):
            if isinstance(found, (cst.FunctionDef, cst.ClassDef)):
                return found
        return self.model.tree.module

    def states(self, name: str) -> States:
        """What may be cast by autocast in a unit, with the state that it runs in."""
        if name not in self._states:
            self._states[name] = self._find_states(name)
        return self._states[name]

    def _find_states(self, name: str) -> States:
        found: States = defaultdict(list)
        terms = self.effects[name].terms
        lifted = [self._operations[key] for key in terms if key in self._operations]
        for _, node in sorted(lifted, key=lambda item: item[0]):
            term = terms[id(node)]
            if self._is_cast(node, term) and self.model.tree.contains(self.units[name], node):
                found[term].append((node, self.state(node)))
        return found

    def state(self, node: cst.CSTNode) -> Autocast | None:
        """The region that a place runs in; None for none."""
        around = self.model.regions.around(node)
        return _casts(self.tracer.autocast(around[0], node) if around else None)

    def switches(self, node: cst.CSTNode) -> frozenset[Term]:
        """What decides about the region around a node and is no literal."""
        around = self.model.regions.around(node)
        given = (around[0].enabled, around[0].dtype, around[0].device) if around else ()
        return open_terms(argument_term(self.lifter, each) for each in given if each is not None)

    @functools.cached_property
    def _operations(self) -> dict[int, tuple[int, _Operation]]:
        """By id, the calls and then the operators, each with its number."""
        nodes: list[_Operation] = [
            *self.model.tree.nodes(cst.Call),
            *self.model.tree.nodes(cst.BinaryOperation),
            *self.model.tree.nodes(cst.AugAssign),
        ]
        return {id(node): (number, node) for number, node in enumerate(nodes)}

    def _is_cast(self, node: _Operation, term: Term) -> bool:
        if not isinstance(node, cst.Call):
            return isinstance(node.operator, _CAST_OPERATORS)
        if not isinstance(term, Op) or self.model.regions.is_inert_call(node):
            return False
        writes = term.form is Form.METHOD and term.name in WRITING_METHODS
        return not writes or term.name in self._defined

    @functools.cached_property
    def _defined(self) -> frozenset[str]:
        """The names of the functions and methods of the file."""
        return frozenset(each.name.value for each in self.model.tree.nodes(cst.FunctionDef))


def _is_implicit(name: str) -> bool:
    """Whether a method is called by syntax, or when an object ends."""
    return name.startswith("__") and name.endswith("__") and name not in ("__init__", "__call__")


def open_terms(terms: Iterable[Term]) -> frozenset[Term]:
    """Those that are neither literals nor names of torch's."""
    return frozenset(term for term in terms if not isinstance(term, (Const, Global)))


def timeless(term: Term) -> Term:
    """A term, whenever its inputs are read."""
    if isinstance(term, Input):
        return Input(term.key)
    return mapped(term, timeless) if isinstance(term, Op) else term


def _casts(state: Autocast | None) -> Autocast | None:
    """What decides about the dtype of one operation."""
    return state and replace(state, cache_enabled=None, entry="", lasting=False)
