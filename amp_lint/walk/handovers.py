"""Steps that a framework and the program share."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import libcst as cst

from amp_lint.amp.events import Event, Kind, stepped
from amp_lint.amp.roles import Roles
from amp_lint.flow.branches import contradict, guards
from amp_lint.flow.conditions import text
from amp_lint.syntax.tree import Tree
from amp_lint.vocabulary.amp import SCALE
from amp_lint.vocabulary.meaning import Role
from amp_lint.vocabulary.table import words
from amp_lint.walk.rounds import Rounds
from amp_lint.walk.steps import Steps

_BACKWARD = words(Kind.BACKWARD)


class Handovers:
    """Whether a framework has prepared what the program steps itself."""

    def __init__(self, tree: Tree, roles: Roles, steps: Steps, rounds: Rounds) -> None:
        self.tree = tree
        self.roles = roles
        self.steps = steps
        self.rounds = rounds

    @functools.cached_property
    def bare_hooks(self) -> list[tuple[Event, Role]]:
        """Backward calls in a method that a framework runs and then steps, with its role."""
        found: list[tuple[Event, Role]] = []
        for event in self.steps.backwards:
            home = self.rounds.home(event.node)
            bare = event.scaler is None and event.framework is None
            if bare and isinstance(home, cst.FunctionDef):
                role = self.roles.frameworks.overridden(home)
                if role is not None and self._is_bare_hook(event, role):
                    found.append((event, role))
        return found

    def _is_bare_hook(self, event: Event, role: Role) -> bool:
        scales = self.roles.frameworks.may_scale(role)
        return scales and not self.has_other_way(event.node) and self.tree.is_own(event.node)

    def is_prepared_for(self, backward: Event, step: Event, *, named: bool = False) -> bool:
        """Whether a framework prepared the optimizer wherever this backward runs, and may scale.

        Or steps in its own backward.

        ``named``: a precision that scales has to be among those that the file names.
        """
        assert isinstance(step.node, cst.Call) and isinstance(step.node.func, cst.Attribute)
        optimizer = step.node.func.value if step.scaler is None else stepped(step.node)
        frameworks = self.roles.frameworks
        tests = set(_normal(self.tree, backward.node))
        return optimizer is not None and any(
            tests.issuperset(_normal(self.tree, each.call))
            and isinstance(each.call.func, cst.Attribute)
            and (
                frameworks.may_scale(each.owner, each.call.func.value, named=named)
                or frameworks.steps_itself(each.owner, each.call.func.value)
            )
            for each in frameworks.preparations(optimizer)
        )

    def is_left_out(self, backward: Event, step: Event) -> bool:
        """Whether a framework that may scale was not given an optimizer of this file."""
        call, made = step.node, backward.node
        assert isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute)
        assert isinstance(made, cst.Call) and isinstance(made.func, cst.Attribute)
        frameworks, role = self.roles.frameworks, backward.framework
        return (
            role is not None
            and frameworks.leaves_out(call.func.value)
            and frameworks.may_scale(role, made.func.value)
        )

    def has_other_way(self, backward: cst.CSTNode) -> bool:
        """Whether its function goes backward in another way, where the tests around this fail."""
        home, recognizer = self.rounds.home(backward), self.steps.recognizer
        return any(
            self.rounds.home(call) is home and contradict(self.tree, call, backward)
            for call in self.tree.nodes(cst.Call)
            if isinstance(call.func, cst.Attribute) and call.func.attr.value in _BACKWARD
            if recognizer.framework(call) or recognizer.meaning(call) is None or scales(call)
        )


def _normal(tree: Tree, node: cst.CSTNode) -> Iterator[tuple[str, bool]]:
    """The tests that a place is under, by their text."""
    for guard in guards(tree, node):
        test, holds = guard.normal()
        yield text(test), holds


def scales(backward: cst.Call) -> bool:
    """Whether something that is called scale made a loss."""
    return SCALE.word in text(backward.func)
