"""Whether a program may save a scaler anywhere."""

from __future__ import annotations

import functools

import libcst as cst

from amp_lint.flow.values import literal
from amp_lint.model import Model
from amp_lint.syntax.names import dotted
from amp_lint.vocabulary.amp import STATE_DICT
from amp_lint.vocabulary.purity import ASKING, DICT_CHANGES

from .data import OwnScaler
from .naming import LOOKED_UP, OF_SCALER, SAVES, STATE_METHODS, TRAINS, last, names_scaler
from .places import Places
from .saves import Saves
from .scalers import Scalers
from .states import asked_for_state

_ABOUT_ATTRIBUTES = frozenset({"builtins.delattr", "builtins.hasattr"})
_LOOKING = frozenset({"builtins.getattr", "builtins.vars"})
_DICT = frozenset({"builtins.dict"})


class Kept:
    """Looks for all that may keep a scaler's state."""

    def __init__(self, model: Model) -> None:
        self.places = model.part(Places)
        self.scalers = model.part(Scalers)
        self.saves = model.part(Saves)
        self.own = model.tree
        self.tree = model.linked
        self.names = model.names
        self.values = model.values
        self.roles = model.roles
        self.program = model.program
        self.items = model.items

    @functools.cached_property
    def is_any_kept(self) -> bool:
        """Whether the program may save a scaler anywhere: its state, itself, or by another."""
        strings = (*self.tree.nodes(cst.SimpleString), *self.tree.nodes(cst.FormattedString))
        keys = (text for text in strings if names_scaler(str(literal(text))))
        kept = (key for key in keys if not self.is_aside(key) and not self._is_read(key))
        kept = (key for key in kept if not self.scalers.is_of_another(self._kept_as(key)))
        kept = (key for key in kept if not self._is_taken_apart(self.tree.ancestor(key, cst.Dict)))
        if any(self.is_reached(key) and not self._is_for_nobody(key) for key in kept):
            return True
        entries = self.tree.nodes(cst.DictElement)
        held = (entry for entry in entries if self.roles.is_scaler(entry.value))
        held = (entry for entry in held if not self.scalers.is_of_another(entry.value))
        held = (e for e in held if not self._is_taken_apart(self.tree.ancestor(e, cst.Dict)))
        if any(map(self.is_reached, held)):
            return True
        calls = filter(self._may_save_scaler, self.tree.nodes(cst.Call))
        return any(map(self.is_reached, calls))

    def _kept_as(self, key: cst.BaseExpression) -> cst.BaseExpression | None:
        """Of what the state is kept under a key: ``x`` of ``"key": x.state_dict()``."""
        holder = self.tree.ancestor(key, cst.DictElement, cst.Assign)
        value = holder.value if isinstance(holder, (cst.DictElement, cst.Assign)) else None
        return asked_for_state(value) if value is not None else None

    def _is_taken_apart(self, made: cst.CSTNode | None) -> bool:
        """Whether all that may save a dict takes single things out of it, each by its key."""
        if not isinstance(made, cst.Dict | cst.Call) or self.values.items(made) is None:
            return False
        takers = self.items.takers(made)
        return takers is not None and not any(SAVES.search(last(each.func)) for each in takers)

    def _is_for_nobody(self, key: cst.BaseExpression) -> bool:
        """Whether a string is the key of what is asked of a parameter that no call gives."""
        statement = self.tree.ancestor(key, cst.Assign)
        given = statement.value if isinstance(statement, cst.Assign) else None
        func = given.func if isinstance(given, cst.Call) else None
        return isinstance(func, cst.Attribute) and self.program.is_left_out(func.value)

    def is_reached(self, node: cst.CSTNode) -> bool:
        """Whether a place is in something that is called, or in a file that calls this one."""
        unit = self.places.unit(node)
        if not isinstance(unit, cst.FunctionDef) or self.program.calls_of(unit):
            return True
        if any(self.places.unit(scaler.call) is unit for scaler in self.scalers.made):
            return True  # or nobody trains with it either
        if self.own.is_own(node):
            named = any(n is not unit.name for n in self.tree.named(unit.name.value))
            return named or bool(unit.decorators) or not self._is_library
        run = (
            each for call in self.tree.below(unit, cst.Call) for each in self.places.reached(call)
        )
        return any(map(self.own.is_own, run))

    @functools.cached_property
    def _is_library(self) -> bool:
        """Whether other files call functions of this one: what none of them names is not run.

        Unless something looks names up, of a module or of this one.
        """
        if self.tree.named("globals") or any(map(self._is_looked_into, self.tree.nodes(cst.Call))):
            return False
        functions = filter(self.own.is_own, self.tree.nodes(cst.FunctionDef))
        calls = (call for each in functions for call in self.program.calls_of(each))
        return not all(map(self.own.is_own, calls))

    def _is_looked_into(self, call: cst.Call) -> bool:
        """``getattr(module, name)`` or ``vars(module)``."""
        given = call.args[0].value if call.args else None
        if not isinstance(given, cst.Name) or not self.names.is_any(call.func, _LOOKING):
            return False
        return any(binding.kind == "import" for binding in self.names.bindings(given))

    def is_aside(self, text: cst.BaseExpression) -> bool:
        """Whether a string is in an annotation, or says how a wrapper's state is called.

        Or which attribute is asked for, or taken away.
        """
        if self.tree.ancestor(text, cst.Annotation) is not None:
            return True
        call = self.tree.ancestor(text, cst.Call)
        if call is not None and self.names.is_any(call.func, _ABOUT_ATTRIBUTES):
            return True
        owner = self.tree.ancestor(text, cst.ClassDef)
        return owner is not None and id(owner) in self.scalers.wrappers

    def _is_read(self, key: cst.BaseExpression) -> bool:
        """Whether a string says what is looked for in a checkpoint, which is put nowhere else."""
        holder = self.tree.parent(key)
        above = self.tree.parent(holder) if holder is not None else None
        if self.tree.ancestor(key, cst.DictElement, cst.Return) or self.saves.is_in_save(key):
            return False
        match holder:
            case cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(operator=sign)]):
                return left is key and isinstance(sign, (cst.In, cst.NotIn))
            case cst.Index() if above is not None:
                place = self.tree.parent(above)
                given = self.tree.parent(place) if place is not None else None
                return not isinstance(given, (cst.AssignTarget, cst.AugAssign))
            case cst.Arg():
                return isinstance(above, cst.Call) and last(above.func) in LOOKED_UP
        return False

    def _may_save_scaler(self, call: cst.Call) -> bool:
        func = call.func
        if isinstance(func, cst.Attribute) and func.attr.value in STATE_METHODS:
            asks = func.attr.value in STATE_DICT.words and (
                self.scalers.is_scaler(func.value) or self.scalers.may_hold_scaler(func.value)
            )
            left_out = asks and self.program.is_left_out(func.value)
            left_out = left_out or self.scalers.is_of_another(func.value)
            goes_on = (
                asks and not self.scalers.is_passed_on(call) and not self.saves.is_only_shown(call)
            )
            return goes_on and not left_out
        target = self.program.target(call)
        if target is not None:
            return self._is_among_the_rest(target, call)  # what else it does is seen there
        if self.names.definition(func) is not None:
            return False
        if self.roles.is_constructor(call) or self.names.is_any(func, ASKING):
            return False
        if self._is_taken_apart(call):
            return False
        if any(arg.keyword and OF_SCALER.search(arg.keyword.value) for arg in call.args):
            return not TRAINS.search(last(func)) and not self._is_spread_to_train(call)
        given = any(self.scalers.is_scaler(arg.value) for arg in call.args)
        hidden = not self.own.is_own(call) and not TRAINS.search(last(func))
        return given and (hidden or bool(SAVES.search(last(func))))

    def _is_spread_to_train(self, call: cst.Call) -> bool:
        """Whether a dict of arguments joins those that are spread into calls which train alone."""
        parent = self.tree.parent(call)
        joined = self.tree.parent(parent) if isinstance(parent, cst.Arg) else None
        if not self.names.is_any(call.func, _DICT) or not isinstance(joined, cst.Call):
            return False
        rest = joined.func.value if isinstance(joined.func, cst.Attribute) else None
        if last(joined.func) not in DICT_CHANGES or not isinstance(rest, cst.Name):
            return False
        uses = self.places.uses_in(self.places.scope(call), rest.value)
        others = [use for use in uses if not isinstance(self.tree.parent(use), cst.Param)]
        others = [use for use in others if use is not rest]
        return bool(others) and all(map(self._is_spread_into_training, others))

    def _is_spread_into_training(self, use: cst.Name) -> bool:
        """``**kwargs`` in the call of a function that trains."""
        arg = self.tree.parent(use)
        call = self.tree.parent(arg) if isinstance(arg, cst.Arg) and arg.star == "**" else None
        return isinstance(call, cst.Call) and TRAINS.search(last(call.func)) is not None

    def _is_among_the_rest(self, function: cst.FunctionDef, call: cst.Call) -> bool:
        """Whether a function gets a scaler in its ``**rest``, and saves."""
        if function.params.star_kwarg is None or not SAVES.search(function.name.value):
            return False
        known = (*function.params.params, *function.params.kwonly_params)
        names = {param.name.value for param in known}
        rest = (arg for arg in call.args if arg.keyword and arg.keyword.value not in names)
        return any(self.scalers.is_scaler(arg.value) for arg in rest)

    def is_state_of_scaler(self, call: cst.Call) -> bool:
        asks = isinstance(call.func, cst.Attribute) and call.func.attr.value in STATE_DICT.words
        return asks and self.roles.is_scaler(owner(call)) and not self.saves.is_only_shown(call)

    def is_handed_to_save(self, scaler: OwnScaler) -> bool:
        """Whether a call that does not train gets a scaler, or something keeps it."""
        name = dotted(scaler.target)
        entries = (each.value for each in self.tree.nodes(cst.DictElement))
        calls = (call for call in self.tree.nodes(cst.Call) if not self.scalers.trains(call))
        given = (arg.value for call in calls for arg in call.args)
        return any(dotted(value) == name for value in (*entries, *given))


def owner(call: cst.Call) -> cst.BaseExpression:
    """``x`` of ``x.method()``."""
    assert isinstance(call.func, cst.Attribute)
    return call.func.value
