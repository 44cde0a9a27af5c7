"""Inside which autocast regions a place may run, through the calls within a file."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from amp_lint.amp.regions import Entered, Regions
from amp_lint.flow.origins import Origins
from amp_lint.flow.program import Program
from amp_lint.flow.values import literal
from amp_lint.syntax.memo import per_node
from amp_lint.syntax.names import dotted
from amp_lint.vocabulary.amp import CUSTOM_FWD

_MAX_CALLS = 5
"""Longest chain of calls that is followed back."""
_MAX_CHAINS = 64
_OFF = re.compile(r"(^|[._])no_|disable", re.IGNORECASE)
"""In what a switch is called that turns something off."""


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """One way to a place: what is entered on it, and the calls that lead there; innermost first."""

    entered: tuple[Entered, ...] = ()
    calls: tuple[cst.Call, ...] = ()


class Reach:
    """Follows calls of functions, methods and modules of the same file back to their callers."""

    def __init__(self, program: Program, origins: Origins, regions: Regions) -> None:
        self.program = program
        self.origins = origins
        self.names = program.names
        self.tree = program.tree
        self.values = program.values
        self.regions = regions

    def chains(self, node: cst.CSTNode) -> list[Chain]:
        """The ways on which ``node`` may be reached, the shortest first.

        A function that others of the file call is reached through them.
        """
        done: list[Chain] = []
        todo = [(node, Chain())]
        for at, chain in todo:  # grows while it is read
            own = Chain((*chain.entered, *self.regions.entered(at)), chain.calls)
            calls = [call for call in self._callers(at) if call not in own.calls]
            if calls and len(todo) < _MAX_CHAINS and len(own.calls) < _MAX_CALLS:
                todo += [(call, Chain(own.entered, (*own.calls, call))) for call in calls]
            else:
                done.append(own)
        return done

    def running(self, node: cst.CSTNode) -> Iterator[Chain]:
        """The ways on which a region for CUDA may be on where ``node`` runs."""
        for chain in self.chains(node):
            entered = tuple(e for e in chain.entered if self._on_cuda(e))
            if entered and self._may_be_on(entered):
                yield Chain(entered, chain.calls)

    def target(self, call: cst.Call) -> cst.FunctionDef | None:
        """The function of this file that a call runs, if it can be only one."""
        found = self.targets(call)
        return found[0] if len(found) == 1 else None

    @per_node
    def targets(self, call: cst.Call) -> tuple[cst.FunctionDef, ...]:
        """The functions of this file that a call may run; a module runs its ``forward``."""
        found = self.program.target(call)
        if found is not None:
            return (found,)
        owners, name = self._owners(call.func)
        methods = (self.values.method(owner, name) for owner in owners)
        return tuple({id(each): each for each in methods if each is not None}.values())

    def _owners(self, func: cst.BaseExpression) -> tuple[Sequence[cst.ClassDef], str]:
        """The classes of the module that is called, or of the object that has the method."""
        own = self.values.enclosing_class(func) if dotted(func) == "self" else None
        if own is not None:
            return (own,), "forward"
        if self.names.qualified(func):
            return (), ""
        owners = self.origins.classes(func)
        if owners or not isinstance(func, cst.Attribute):
            return owners, "forward"
        return self.origins.classes(func.value), func.attr.value

    def callers(self, function: cst.FunctionDef) -> list[cst.Call]:
        """The calls of a function in this file."""
        return self._calls[id(function)]

    def _callers(self, node: cst.CSTNode) -> list[cst.Call]:
        """The calls that run the function around ``node`` there and then, in the same state."""
        function = self.tree.ancestor(node, cst.FunctionDef, cst.Lambda)
        if not isinstance(function, cst.FunctionDef) or self._is_detached(function):
            return []
        return self._calls[id(function)]

    @functools.cached_property
    def _calls(self) -> dict[int, list[cst.Call]]:
        found: dict[int, list[cst.Call]] = defaultdict(list)
        for call in self.tree.nodes(cst.Call):
            start = self.origins.constructor(call)
            for target in (*self.targets(call), *([start] if start is not None else ())):
                found[id(target)].append(call)
        return found

    def _is_detached(self, function: cst.FunctionDef) -> bool:
        """Whether a body runs later, or in a state of its own: as ``custom_fwd`` may give it."""
        if function.asynchronous is not None or function in self.generators:
            return True
        return any(
            word in self.tree.source(each)
            for each in function.decorators
            for word in CUSTOM_FWD.words
        )

    @functools.cached_property
    def generators(self) -> frozenset[cst.FunctionDef]:
        """The functions with a ``yield`` of their own."""
        holders = (
            self.tree.ancestor(each, cst.FunctionDef, cst.Lambda)
            for each in self.tree.nodes(cst.Yield)
        )
        return frozenset(holder for holder in holders if isinstance(holder, cst.FunctionDef))

    def _on_cuda(self, entered: Entered) -> bool:
        """Whether a region is for CUDA, as far as is known."""
        region = entered.region
        if region.function.startswith("torch.cpu."):
            return False
        device = literal(region.device)
        return not isinstance(device, str) or device.partition(":")[0] == "cuda"

    def _may_be_on(self, entered: tuple[Entered, ...]) -> bool:
        """Whether the innermost region is on for certain, or the only one if it is asked for.

        A switch within another region is there to turn autocast off.
        """
        region = entered[0].region
        alone = len({id(each.region.node) for each in entered}) == 1
        if region.starred and region.function:
            return False
        if region.enabled is None:
            return alone or not region.conditional
        switch = self.values.constants(region.enabled)
        if all(value is True for value in switch):
            return True
        return not self._is_off(switch) and alone and not self._is_negated(region.enabled)

    def _is_off(self, switch: list[object]) -> bool:
        """Whether all that is known of a switch is that it is off."""
        return all(value is False for value in switch)

    def _is_negated(self, switch: cst.BaseExpression) -> bool:
        """``enabled=not ...``, ``enabled=disable``: nobody can say when that is on.

        But ``not args.no_amp``, which denies twice, is on until somebody turns it off.
        """
        denies = False
        if isinstance(switch, cst.UnaryOperation) and isinstance(switch.operator, cst.Not):
            denies, switch = True, switch.expression
        return denies is not bool(_OFF.search(dotted(switch) or ""))
