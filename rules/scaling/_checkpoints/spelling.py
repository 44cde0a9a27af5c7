"""How the scaler is written where a checkpoint is made or loaded."""

from __future__ import annotations

import libcst as cst

from amp_lint.flow.values import arguments, literal
from amp_lint.model import Model
from amp_lint.syntax.names import dotted
from amp_lint.vocabulary.amp import LOAD_STATE_DICT

from .data import Load, OwnScaler
from .loads import Loads
from .places import Places
from .scalers import Scalers

_INERT_BASES = frozenset({"torch.nn.Module", "builtins.object"})


class Spelling:
    """What a fix needs to know."""

    def __init__(self, model: Model) -> None:
        self.places = model.part(Places)
        self.scalers = model.part(Scalers)
        self.loads = model.part(Loads)
        self.tree = model.linked
        self.names = model.names
        self.values = model.values

    def of(self, scaler: OwnScaler, place: cst.CSTNode) -> str | None:
        """How to write the scaler in a place, if it is certain to exist there."""
        name = dotted(scaler.target)
        if len(self.scalers.made) != 1 or name is None or not self._is_unconditional(scaler):
            return None
        before = self.tree.order(scaler.call) < self.tree.order(place)
        if "." not in name:
            return (
                name
                if before and self.places.scope(place) is self.places.scope(scaler.call)
                else None
            )
        method, start = self.places.scope(place), self.places.scope(scaler.call)
        if method is start:
            return name if before else None
        return name if self._is_later(method, start, scaler) else None

    def optional(self, scaler: OwnScaler, place: cst.CSTNode) -> str | None:
        """``s if args.amp``, for a local variable that is made under ``if args.amp:`` before."""
        name, home = dotted(scaler.target) or ".", self.places.scope(scaler.call)
        if "." in name:
            return self._optional_attribute(scaler, name, place)
        holder = self.tree.ancestor(scaler.call, cst.If)
        test = dotted(holder.test) if holder is not None else None
        if holder is None or test is None or self.places.scope(place) is not home:
            return None
        body = home if isinstance(home, cst.Module) else home.body
        only = all(value is scaler.call for value in self.values.alternatives(scaler.target))
        first = only and self.tree.order(scaler.call) < self.tree.order(place)
        plain = first and self.tree.parent(holder) is body and len(self.scalers.made) == 1
        return (
            f"{name} if {test}" if plain and self.tree.contains(holder.body, scaler.call) else None
        )

    def _optional_attribute(self, scaler: OwnScaler, name: str, place: cst.CSTNode) -> str | None:
        """``self.s if self.s is not None``, where nothing else is assigned to that."""
        owner, attribute = name.partition(".")[::2]
        home = self.tree.ancestor(scaler.call, cst.ClassDef)
        inside = home is not None and self.tree.ancestor(place, cst.ClassDef) is home
        others = [v for v in self.values.alternatives(scaler.target) if v is not scaler.call]
        known = all(literal(value) is None for value in others)
        if (
            owner != "self"
            or "." in attribute
            or not inside
            or not known
            or len(self.scalers.made) > 1
        ):
            return None
        return (
            f"{name} if {name} is not None" if others else f'{name} if hasattr(self, "{attribute}")'
        )

    def _is_unconditional(self, scaler: OwnScaler) -> bool:
        """Whether the scaler is made on every path of its function, and nowhere else.

        An attribute must be made by ``__init__``.
        """
        if any(value is not scaler.call for value in self.values.alternatives(scaler.target)):
            return False
        start = self.places.scope(scaler.call)
        line = self.tree.statement(scaler.call)
        body = start if isinstance(start, cst.Module) else start.body
        if line is None or self.tree.parent(line) is not body:
            return False
        name = dotted(scaler.target) or ""
        own = isinstance(start, cst.FunctionDef) and start.name.value == "__init__"
        return "." not in name or (own and name.startswith("self.") and name.count(".") == 1)

    def _is_later(
        self, method: cst.FunctionDef | cst.Module, start: cst.FunctionDef | cst.Module,
        scaler: OwnScaler,
    ) -> bool:  # fmt: skip
        """Whether a method of the same class only runs when ``__init__`` has made the scaler."""
        owner = self.tree.ancestor(scaler.call, cst.ClassDef)
        if owner is None or self.tree.ancestor(method, cst.ClassDef) is not owner:
            return False
        if any(not self.names.is_only(base.value, _INERT_BASES) for base in owner.bases):
            return False
        limit = self.tree.order(scaler.call)
        early = {
            id(target)
            for call in self.tree.below(start, cst.Call)
            if self.tree.order(call) < limit
            for target in self.places.reached(call)
        }
        return id(method) not in early

    def load_for(self, scaler: OwnScaler) -> Load | None:
        if len(self.loads.calls) != 1:
            return None
        (call,) = self.loads.calls
        given = arguments(call).get(0, LOAD_STATE_DICT.order[0])
        small = self.tree.parent(call)
        line = self.tree.parent(small) if small is not None else None
        if not isinstance(small, cst.Expr) or not isinstance(line, cst.SimpleStatementLine):
            return None
        if len(line.body) > 1 or not isinstance(given, cst.Subscript) or not dotted(given.value):
            return None
        if self.of(scaler, call) is None:
            return None
        return Load(line, given.value)

    def load_of(self, state: cst.Call) -> Load | None:
        """Where the scaler whose state is asked for can be loaded, if that is certain."""
        assert isinstance(state.func, cst.Attribute)
        name = dotted(state.func.value)
        scaler = next((s for s in self.scalers.made if dotted(s.target) == name), None)
        return self.load_for(scaler) if scaler is not None else None
