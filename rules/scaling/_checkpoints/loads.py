"""Where the states of optimizers are loaded."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import libcst as cst

from amp_lint.flow.values import arguments, lookup
from amp_lint.model import Model
from amp_lint.vocabulary.amp import LOAD_STATE_DICT

from .states import States


class Loads:
    """The loads that a program may come to."""

    def __init__(self, model: Model) -> None:
        self.states = model.part(States)
        self.own = model.tree
        self.tree = model.linked
        self.names = model.names
        self.roles = model.roles
        self.origins = model.origins

    @functools.cached_property
    def calls(self) -> list[cst.Call]:
        """``optimizer.load_state_dict(...)``, as far as a program may come to it."""
        return [
            call
            for call in self.tree.nodes(cst.Call)
            if isinstance(call.func, cst.Attribute)
            and call.func.attr.value in LOAD_STATE_DICT.words
            and self.states.may_be_optimizer(call.func.value)
            and self._is_asked_for(call)
        ]

    def _is_asked_for(self, load: cst.Call) -> bool:
        """Whether a load is more than how a wrapper hands on what nobody asks it for.

        In another file it has to be in something that is named where this file sees it.
        """
        function = self.tree.ancestor(load, cst.FunctionDef)
        if function is None:
            return True
        name = function.name.value
        if name in LOAD_STATE_DICT.words and self._hands_on(load):
            return self._is_loaded_itself(load)
        used = (each for each in self.tree.named(name) if each is not function.name)
        return self.own.is_own(load) or bool(function.decorators) or any(used)

    def _hands_on(self, load: cst.Call) -> bool:
        """Whether a function has something else load all that it is given itself."""
        given = arguments(load).get(0, LOAD_STATE_DICT.order[0])
        bindings = self.names.bindings(given) if isinstance(given, cst.Name) else ()
        return any(binding.kind == "parameter" for binding in bindings)

    def _is_loaded_itself(self, load: cst.Call) -> bool:
        """Whether an object of the class in which a load stands is asked to load."""
        owner = self.tree.ancestor(load, cst.ClassDef)
        calls = (call for call in self.tree.nodes(cst.Call) if call is not load)
        funcs = (call.func for call in calls if isinstance(call.func, cst.Attribute))
        asked = (func.value for func in funcs if func.attr.value in LOAD_STATE_DICT.words)
        return owner is not None and any(owner in self.origins.classes(each) for each in asked)

    def is_loaded(self, optimizer: cst.BaseExpression) -> bool:
        loaded = (call.func for call in self.calls)
        owners = (func.value for func in loaded if isinstance(func, cst.Attribute))
        return any(self.origins.same(owner, optimizer) for owner in owners)

    @property
    def own_loads(self) -> Iterator[cst.BaseExpression]:
        """The optimizers whose state is restored in this file itself."""
        own = (load.func for load in self.calls if self.own.is_own(load))
        return (func.value for func in own if isinstance(func, cst.Attribute))

    @functools.cached_property
    def keys(self) -> list[str]:
        """The keys under which scalers are looked for in what is loaded; "" if one is not plain."""
        found = []
        for call in self.tree.nodes(cst.Call):
            match call:
                case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name(value=name))) if (
                    name in LOAD_STATE_DICT.words and self.roles.is_scaler(owner)
                ):
                    given = arguments(call).get(0, LOAD_STATE_DICT.order[0])
                    found.append(_key(given) if given is not None else "")
        return found


def _key(given: cst.BaseExpression) -> str:
    """``"scaler"`` of ``state["scaler"]`` or ``state.get("scaler")``, as it is written; or ""."""
    found = lookup(given) if isinstance(given, (cst.Subscript, cst.Call)) else None
    return found[1].value if found and isinstance(found[1], cst.SimpleString) else ""
