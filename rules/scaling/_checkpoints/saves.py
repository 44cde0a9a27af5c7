"""What a state is put into, and whether that is saved as it is."""

from __future__ import annotations

import functools
import re

import libcst as cst

from amp_lint.flow.values import literal
from amp_lint.model import Model
from amp_lint.syntax.assignments import assigned, targets_of
from amp_lint.syntax.names import dotted
from amp_lint.syntax.tree import statements_of
from amp_lint.vocabulary.amp import STATE_DICT
from amp_lint.vocabulary.purity import DICT_CHANGES

from .naming import HARMLESS, LOOKED_UP, SAVES, last
from .places import Places
from .scalers import Scalers
from .states import States
from .steps import ScaledSteps

_WHOLE = (cst.Call, cst.DictComp, cst.ListComp, cst.Name)
"""What may be saved as it is: a state, those of several things, or what they are called."""
_ASIDE = re.compile(r"^(meta|aliases|config|description|extra_info|hparams|tags)", re.IGNORECASE)
"""Arguments in which what is saved is described."""
_OF_TPU = "torch_xla."
"""The library of TPUs, where gradients are scaled by its own scaler if at all."""


class Saves:
    """Follows a state into the dict or call that is written."""

    def __init__(self, model: Model) -> None:
        self.places = model.part(Places)
        self.states = model.part(States)
        self.scalers = model.part(Scalers)
        self.steps = model.part(ScaledSteps)
        self.tree = model.linked
        self.names = model.names
        self.values = model.values
        self.roles = model.roles
        self.program = model.program
        self.holders = model.holders

    def entry(self, state: cst.BaseExpression) -> cst.CSTNode:
        """Where the state is used: itself, or the one name that it gets first."""
        node = self._whole(state)
        if (copied := self._copied(self.tree.parent(node))) is not None:
            node = copied
        target = next(iter(targets_of(self.tree, node)), self.places.appended_to(node))
        of_dict = isinstance(target, cst.Subscript)
        name = target.value if isinstance(target, cst.Subscript) else target
        if not isinstance(name, cst.Name):
            return node
        scope = self.places.scope(node)
        uses = self.places.uses_in(scope, name.value)
        if of_dict:  # which is an entry of another
            uses = [n for n in uses if isinstance(self.tree.parent(n), cst.DictElement)]
        entries = (n for n in uses if self.holder(n) is not None)
        return next(entries, node)

    def _whole(self, state: cst.CSTNode) -> cst.CSTNode:
        """The list of such states, or the choice, that one is a part of; else itself."""
        node = state
        while True:
            parent = self.tree.parent(node)
            holder = self.tree.parent(parent) if isinstance(parent, cst.Element) else parent
            match holder:
                case cst.IfExp() | cst.List():
                    node = holder
                case cst.ListComp(elt=part) | cst.DictComp(value=part) if part is node:
                    node = holder
                case _:
                    return node

    def _copied(self, parent: cst.CSTNode | None) -> cst.Call | None:
        """A call that gives back what it is given, or a copy, such as ``deepcopy(...)``."""
        call = self.tree.parent(parent) if isinstance(parent, cst.Arg) else None
        if not isinstance(call, cst.Call) or len(call.args) != 1 or self._saves(call, call.args[0]):
            return None
        if not isinstance(parent, cst.Arg) or parent.keyword is not None:
            return None
        return None if isinstance(self.tree.parent(call), cst.Expr) else call

    def holder(self, entry: cst.CSTNode) -> cst.BaseExpression | None:
        """The dict or record that an entry stands in; the entry, if it is added to a dict."""
        parent = self.tree.parent(entry)
        if isinstance(parent, cst.DictElement) and parent.value is entry:
            return self._outermost(parent)
        if isinstance(entry, cst.BaseExpression) and isinstance(
            self.places.appended_to(entry), cst.Subscript
        ):
            return entry
        call = self.tree.parent(parent) if isinstance(parent, cst.Arg) else None
        if isinstance(parent, cst.Arg) and isinstance(call, cst.Call):
            if parent.keyword is not None:
                kept = self.is_record(call) or self._shows(call, parent)
                return call if kept else None
            alone = isinstance(entry, _WHOLE) and self._saves(call, parent)
            return entry if alone and isinstance(entry, cst.BaseExpression) else None
        added = any(isinstance(t, cst.Subscript) for t in targets_of(self.tree, entry))
        added = added or self._is_state_of_each(entry)
        return entry if added and isinstance(entry, cst.BaseExpression) else None

    def _is_state_of_each(self, entry: cst.CSTNode) -> bool:
        """Whether a function gives the states of all that something holds, and that is saved."""
        function = self.tree.ancestor(entry, cst.FunctionDef)
        if not isinstance(entry, cst.DictComp | cst.Name) or function is None:
            return False
        calls = self.program.calls_of(function)
        whole = any(isinstance(self.tree.parent(c), cst.Arg) and self.is_in_save(c) for c in calls)
        if not whole or not isinstance(self.tree.parent(entry), cst.Return):
            return False
        made = [*self.values.alternatives(entry)]
        grows = any(map(self.may_grow, self.uses(made[0])))
        return len(made) == 1 and isinstance(made[0], cst.DictComp) and not grows

    def _outermost(self, element: cst.DictElement) -> cst.Dict | None:
        """The dict that holds an element, or holds the dict that does, where all is plain."""
        holder = self.tree.parent(element)
        if not isinstance(holder, cst.Dict):
            return None
        if not self._is_out_of_reach and not self._is_plain(holder):
            return None
        above = self.tree.parent(holder)
        return self._outermost(above) if isinstance(above, cst.DictElement) else holder

    def _is_plain(self, holder: cst.Dict) -> bool:
        """Whether a dict shows all it holds."""
        return not any(
            not self._is_without_scaler(element.value)
            if isinstance(element, cst.StarredDictElement)
            else dotted(element.value) == "self"
            for element in holder.elements
        )

    def _is_without_scaler(self, more: cst.BaseExpression) -> bool:
        """Whether all calls of a function are known, and none gives a scaler as ``**more``."""
        function = self.tree.ancestor(more, cst.FunctionDef)
        rest = function.params.star_kwarg if function is not None else None
        if function is None or rest is None or dotted(more) != rest.name.value:
            return False
        calls = self.program.calls_of(function)
        given = [arg for call in calls for arg in call.args]
        return bool(calls) and not any(
            arg.star or self.scalers.is_scaler(arg.value) for arg in given
        )

    def _shows(self, call: cst.Call, part: cst.Arg) -> bool:
        """Whether a call saves what it is given by name, and shows all that is."""
        return self._saves(call, part) and not any(arg.star for arg in call.args)

    def is_record(self, call: cst.Call) -> bool:
        """``dict(...)`` or the constructor of a class, with named arguments only."""
        name = last(call.func)
        return (name == "dict" or name[:1].isupper()) and all(arg.keyword for arg in call.args)

    def is_saved(self, holder: cst.BaseExpression) -> bool:
        """Whether a checkpoint is written somewhere, and nothing may be added to it before."""
        if self.is_in_save(holder) or self._is_given_back(holder):
            return True
        if isinstance(holder, cst.Call) and SAVES.search(last(holder.func)):
            return True
        uses = self.uses(holder)
        saved = any(self.is_in_save(use) or self._is_given_back(use) for use in uses)
        return saved and (self._is_out_of_reach or not any(map(self.may_grow, uses)))

    def uses(self, holder: cst.BaseExpression) -> list[cst.Name]:
        """Where a checkpoint is used that has a name."""
        name, scope = self._name(holder), self.places.scope(holder)
        uses = self.places.uses_in(scope, name) if name is not None else []
        others = (targets_of(self.tree, use) for use in uses)  # another name for the same
        named = {o.value for found in others for o in found if isinstance(o, cst.Name)} - {name}
        return [*uses, *(use for each in sorted(named) for use in self.places.uses_in(scope, each))]

    @functools.cached_property
    def _is_out_of_reach(self) -> bool:
        """Whether nobody but known functions, none of which saves it, has any of the scalers."""
        found: set[int] = set()
        for call in [scaler.call for scaler in self.scalers.made] or self.steps.made_for_steps:
            home, target = self.places.scope(call), self.places.target(call)
            if not isinstance(target, cst.Name) or not isinstance(home, cst.FunctionDef):
                return False
            users = self.holders.functions(target.value, home)
            if users is None:
                return False
            found |= set(map(id, users))
        around = (self.tree.ancestors(step.call) for step in self.steps.scaled)
        return bool(found) and all(any(id(each) in found for each in above) for above in around)

    def _is_given_back(self, node: cst.CSTNode) -> bool:
        """Whether something is what a function returns that gives a state, or what is saved."""
        function = self.tree.ancestor(node, cst.FunctionDef)
        if function is None or not isinstance(self.tree.parent(node), cst.Return):
            return False
        calls = (c for c in self.program.calls_of(function) if not self.tree.contains(function, c))
        return function.name.value in STATE_DICT.words or any(map(self.is_saved, calls))

    def _name(self, holder: cst.BaseExpression) -> str | None:
        """What the checkpoint is called in its function: the dict, or the one it is added to."""
        held = self.places.appended_to(holder)
        if isinstance(held, cst.Subscript):
            return held.value.value if isinstance(held.value, cst.Name) else None
        parent = self.tree.parent(holder)
        call = self.tree.parent(parent) if isinstance(parent, cst.Arg) else None
        if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute):
            owner = call.func.value if call.func.attr.value in DICT_CHANGES else None
            return owner.value if isinstance(owner, cst.Name) else None
        target = next(iter(targets_of(self.tree, holder)), None)
        node = target.value if isinstance(target, cst.Subscript) else target
        return node.value if isinstance(node, cst.Name) else None

    def is_in_save(self, node: cst.CSTNode) -> bool:
        """Whether something is an argument of a call that saves, itself or within it."""
        child = node
        for holder in self.tree.ancestors(node):
            if isinstance(holder, cst.BaseStatement):
                return False
            if isinstance(holder, cst.Call) and self._saves(holder, child):
                return True
            child = holder
        return False

    def _saves(self, call: cst.Call, part: cst.CSTNode) -> bool:
        if part is call.func or not SAVES.search(last(call.func)):
            return False
        if self._is_of_tpu(call.func) and not any(
            self._is_of_tpu(each.func) for each in self.roles.scaler_calls
        ):
            return False
        named = part.keyword if isinstance(part, cst.Arg) else None
        return named is None or _ASIDE.search(named.value) is None

    def _is_of_tpu(self, func: cst.BaseExpression) -> bool:
        return any(name.startswith(_OF_TPU) for name in self.names.qualified(func))

    def may_grow(self, use: cst.Name) -> bool:
        """Whether a checkpoint goes to other code that may put the scaler into it."""
        parent = self.tree.parent(use)
        if isinstance(parent, cst.Subscript):
            return self._is_filled(parent)
        call = self.tree.parent(parent) if parent is not None else None
        if isinstance(parent, cst.Attribute) and isinstance(call, cst.Call):
            given = [arg.value for arg in call.args]
            return parent.attr.value in DICT_CHANGES and not all(
                isinstance(value, (cst.Dict, cst.SimpleString))
                or self._is_without_scaler(value)
                or self.program.is_left_out(value)
                for value in given[:1]
            )
        if not isinstance(parent, cst.Arg) or not isinstance(call, cst.Call):
            return False
        alone = isinstance(self.tree.parent(call), cst.Expr)
        return alone and not SAVES.search(last(call.func)) and last(call.func) not in HARMLESS

    def _is_filled(self, item: cst.Subscript) -> bool:
        """Whether something that is no optimizer's state is kept under a key that is no literal."""
        key = item.slice[0].slice if len(item.slice) == 1 else None
        if not isinstance(key, cst.Index) or literal(key.value) is not ...:
            return False
        holder = self.tree.parent(self.tree.parent(item) or item)
        values = (value for target, value in assigned(holder) if target is item) if holder else ()
        return any(value is None or self.states.optimizer_of(value) is None for value in values)

    def is_kept(self, state: cst.Call) -> bool:
        """Whether a state is put into a checkpoint that is saved."""
        holder = self.holder(self.entry(state))
        return holder is not None and self.is_saved(holder)

    def place(self, holder: cst.BaseExpression) -> tuple[int, str]:
        """The function in which something is made that is saved, and what it is called there."""
        return id(self.places.scope(holder)), self._name(holder) or ""

    def identity(self, holder: cst.BaseExpression) -> tuple[int, str]:
        """Equal for what is added to one checkpoint, by its name."""
        scope, name = self.place(holder)
        return (scope, name) if name and not isinstance(holder, cst.Dict) else (id(holder), "")

    def is_only_shown(self, state: cst.Call) -> bool:
        """Whether a state, or what has its name, is printed or logged, and nothing else."""
        if isinstance(self.tree.parent(state), cst.Arg):
            return self._is_harmless(self.tree.ancestor(state, cst.Expr))
        targets = targets_of(self.tree, state)
        target = targets[0] if len(targets) == 1 else None
        if not isinstance(target, cst.Name):
            return False
        uses = (use for use in self.uses(state) if use is not target)
        return all(self._is_shown_in(self.tree.statement(use), use) for use in uses)

    def _is_shown_in(self, statement: cst.CSTNode | None, use: cst.Name) -> bool:
        """Whether a statement only shows what it uses, or each item of it."""
        if isinstance(statement, cst.For) and self.tree.contains(statement.iter, use):
            return all(map(self._is_harmless, statements_of(statement.body)))
        small = statement.body if isinstance(statement, cst.SimpleStatementLine) else (statement,)
        return all(map(self._is_harmless, small))

    def _is_harmless(self, statement: cst.CSTNode | None) -> bool:
        """Whether a statement is a call that prints or logs, and calls nothing that may keep."""
        call = statement.value if isinstance(statement, cst.Expr) else None
        if not isinstance(call, cst.Call) or last(call.func) not in HARMLESS:
            return False
        inner = (each for each in self.tree.below(call, cst.Call) if each is not call)
        return all(last(each.func) in HARMLESS | STATE_DICT.words | LOOKED_UP for each in inner)
