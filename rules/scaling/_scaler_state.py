"""Uses of what a GradScaler keeps to itself: attributes and methods with a leading underscore."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from amp_lint.amp.roles import SCALERS
from amp_lint.model import Model
from amp_lint.syntax.names import dotted
from amp_lint.syntax.tree import descendants
from amp_lint.vocabulary.training import SHARING
from amp_lint.vocabulary.written import is_about_scaler

PRIVATE = frozenset(
    {
        "_scale",
        "_growth_tracker",
        "_init_scale",
        "_init_growth_tracker",
        "_growth_factor",
        "_backoff_factor",
        "_growth_interval",
        "_per_optimizer_states",
        "_found_inf_per_device",
        "_check_inf_per_device",
        "_check_scale_growth_tracker",
        "_lazy_init_scale_growth_tracker",
        "_get_scale_async",
        "_get_growth_tracker",
        "_unscale_grads_",
        "_maybe_opt_step",
    }
)

_INFINITIES = frozenset({"_found_inf_per_device", "_per_optimizer_states"})
_TESTS = (
    cst.Comparison,
    cst.ComparisonTarget,
    cst.BooleanOperation,
    cst.UnaryOperation,
    cst.If,
    cst.IfExp,
    cst.Assert,
    cst.While,
    cst.Subscript,
)
"""Where a tensor or None says another thing than a number."""


@dataclass(frozen=True, slots=True)
class PrivateUse:
    """One use of a private member of a scaler."""

    node: cst.Attribute
    """``scaler._scale``."""
    whole: cst.Attribute | cst.Call
    """The same, or ``scaler._scale.item()``."""
    written: bool
    """Whether the member is assigned, or changed in place."""
    plain: bool
    """Whether its value is read, and a number would serve as well as a tensor or None."""

    @property
    def member(self) -> str:
        """What is used."""
        return self.node.attr.value


class ScalerState:
    """Finds uses of private members on objects that are a scaler of torch."""

    def __init__(self, model: Model) -> None:
        self.tree = model.tree
        self.names = model.names
        self.values = model.values
        self.program = model.program
        self.roles = model.roles

    def private_uses(self) -> list[PrivateUse]:
        """Every use from outside of the scaler's own methods, in source order.

        Not the reads in an assignment to the same member, nor what shares the infinities of one
        optimizer or rank with the others, for which there is nothing public.
        """
        members = (node for node in self.tree.nodes(cst.Attribute) if node.attr.value in PRIVATE)
        uses = [self._use(node) for node in members if self._is_torch_scaler(node.value)]
        changed = {(id(self.tree.statement(u.node)), u.member) for u in uses if u.written}
        sharing = {id(self.program.function_of(u.node)) for u in uses if self._is_shared(u)}
        return [
            use
            for use in uses
            if (use.written or (id(self.tree.statement(use.node)), use.member) not in changed)
            and not (
                use.member in _INFINITIES and id(self.program.function_of(use.node)) in sharing
            )
        ]

    def overridden(self) -> list[cst.Name]:
        """The names of private methods that classes derived from torch's scalers replace."""
        owners = (each for each in self.tree.nodes(cst.ClassDef) if self._is_derived(each))
        methods = (part for owner in owners for part in owner.body.body)
        names = (part.name for part in methods if isinstance(part, cst.FunctionDef))
        return [name for name in names if name.value in PRIVATE]

    def _is_derived(self, owner: cst.ClassDef) -> bool:
        """Whether a class is derived from a scaler of torch."""
        return any(self.names.is_any(base.value, SCALERS) for base in owner.bases)

    def _is_shared(self, use: PrivateUse) -> bool:
        """Whether a loop over what was found to be infinite changes it: ``all_reduce(found)``."""
        loop = self.tree.ancestor(use.node, cst.For)
        if use.member not in _INFINITIES or not isinstance(loop, cst.For):
            return False
        called = {dotted(call.func) or "" for call in self.tree.below(loop.body, cst.Call)}
        over = self.tree.contains(loop.iter, use.node)
        return over and any(name.rpartition(".")[2] in SHARING for name in called)

    def _is_torch_scaler(self, node: cst.BaseExpression) -> bool:
        """Whether an object is a scaler, and nothing says that it is one of another kind."""
        if dotted(node) in ("self", "cls") or not self.roles.is_scaler(node):
            return False
        made = [v for v in self.values.alternatives(node) if isinstance(v, cst.Call)]
        if made:
            return any(self._makes_torch_scaler(call) for call in made)
        annotation = self._annotation(node)
        if annotation is None or is_about_scaler(self.tree.source(annotation)):
            return True
        return any(self.names.is_any(part, SCALERS) for part in descendants(annotation))

    def _makes_torch_scaler(self, call: cst.Call) -> bool:
        if self.names.is_any(call.func, SCALERS):
            return True
        owner = self.names.definition(call.func)
        return isinstance(owner, cst.ClassDef) and self._is_derived(owner)

    def _annotation(self, node: cst.BaseExpression) -> cst.Annotation | None:
        """What a parameter is said to be."""
        if not isinstance(node, cst.Name):
            return None
        parameters = (b.node for b in self.names.bindings(node) if isinstance(b.node, cst.Param))
        return next((p.annotation for p in parameters), None)

    def _use(self, node: cst.Attribute) -> PrivateUse:
        holder = self.tree.parent(node)
        call = self.tree.parent(holder) if isinstance(holder, cst.Attribute) else None
        if not isinstance(holder, cst.Attribute):
            written = self._is_written(node)
            plain = not written and not isinstance(holder, (*_TESTS, cst.Del))
            return PrivateUse(node, node, written, plain)
        if not isinstance(call, cst.Call) or call.func is not holder:
            return PrivateUse(node, node, written=False, plain=False)
        name = holder.attr.value
        item = name == "item"
        in_place = name.endswith("_") and not name.endswith("__")
        return PrivateUse(node, call if item else node, in_place, plain=item)

    def _is_written(self, node: cst.Attribute) -> bool:
        holder = self.tree.parent(node)
        if isinstance(holder, (cst.AugAssign, cst.AnnAssign)):
            return holder.target is node
        return isinstance(holder, cst.AssignTarget)
