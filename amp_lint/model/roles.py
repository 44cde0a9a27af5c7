"""Which expressions are GradScalers and optimizers."""

from __future__ import annotations

import functools
import re
from collections import defaultdict

import libcst as cst

from amp_lint.model.names import Names, dotted
from amp_lint.model.values import Values
from amp_lint.tree import Tree

SCALERS = frozenset(
    {
        "torch.GradScaler",
        "torch.amp.GradScaler",
        "torch.cuda.amp.GradScaler",
        "torch.cpu.amp.GradScaler",
        "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler",
        "fairscale.optim.grad_scaler.ShardedGradScaler",
    }
)
_SCALER_NAME = re.compile(r"(^|_)scaler\d*(_|$)|gradscaler|loss_scaler", re.IGNORECASE)
_OPTIMIZER_NAME = re.compile(r"(^|_)(optim\w*|opts?|opt_\w+|\w+_opt|sgd|adamw?)\d*$", re.IGNORECASE)
_NOT_OPTIMIZER_NAME = re.compile(r"sched|profil|lr|warmup|wandb|prof$|ema|timer", re.IGNORECASE)
_PREPROCESSING = {"fit", "transform", "fit_transform", "inverse_transform", "partial_fit"}


class Roles:
    """Roles by origin where it can be seen, else by the methods called and by name."""

    def __init__(self, tree: Tree, names: Names, values: Values) -> None:
        self.tree = tree
        self.names = names
        self.values = values
        self._origins: dict[int, list[cst.Call]] = {}

    @functools.cached_property
    def _methods(self) -> dict[str, set[str]]:
        """Last part of an object's name -> the methods called on it anywhere in the file."""
        found: dict[str, set[str]] = defaultdict(set)
        for call in self.tree.nodes(cst.Call):
            if isinstance(call.func, cst.Attribute):
                found[_last(call.func.value)].add(call.func.attr.value)
        found.pop("", None)
        return found

    def scaler_calls(self) -> list[cst.Call]:
        """Every call that constructs a GradScaler."""
        return [c for c in self.tree.nodes(cst.Call) if self.names.is_any(c.func, SCALERS)]

    def scaler_origins(self, node: cst.BaseExpression) -> list[cst.Call]:
        """The constructor calls that an expression may come from."""
        if id(node) not in self._origins:
            self._origins[id(node)] = [
                value
                for value in self.values.alternatives(node)
                if isinstance(value, cst.Call) and self.names.is_any(value.func, SCALERS)
            ]
        return self._origins[id(node)]

    def is_scaler(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is a GradScaler: constructed as one, used as one, or named so."""
        if self.scaler_origins(node):
            return True
        last = _last(node)
        methods = self._methods.get(last, set())
        if not methods.isdisjoint(_PREPROCESSING):
            return False
        return "unscale_" in methods or (
            bool(_SCALER_NAME.search(last)) and not methods.isdisjoint(_PROTOCOL)
        )

    def is_optimizer(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is an optimizer, judged by origin, name and methods."""
        for value in self.values.alternatives(node):
            if isinstance(value, cst.Call):
                names = self.names.qualified(value.func)
                if any(name.startswith("torch.optim.lr_scheduler") for name in names):
                    return False
                if any(name.startswith("torch.optim.") for name in names):
                    return True
        last = _last(node)
        if _NOT_OPTIMIZER_NAME.search(last):
            return False
        return bool(_OPTIMIZER_NAME.search(last))

    def is_scheduler(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is a learning-rate scheduler, judged by origin and name."""
        for value in self.values.alternatives(node):
            if isinstance(value, cst.Call):
                names = self.names.qualified(value.func)
                if any(name.startswith("torch.optim.lr_scheduler.") for name in names):
                    return True
        return bool(_SCHEDULER_NAME.search(_last(node)))


_SCHEDULER_NAME = re.compile(r"(^|_)(lr_)?sched(uler)?s?\d*(_\w+)?$|lr_sched", re.IGNORECASE)
_PROTOCOL = {"scale", "step", "update", "unscale_", "state_dict"}


def _last(node: cst.BaseExpression) -> str:
    """The last name of ``a.b.c`` or ``a.b[i]``: what an object is called wherever it is held."""
    if isinstance(node, cst.Subscript):
        return _last(node.value)
    name = dotted(node)
    return name.rpartition(".")[2] if name else ""
