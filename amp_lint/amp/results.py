"""What calls of functions, methods and modules of the project give, and what they are given."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import libcst as cst

from amp_lint.flow.program import Program
from amp_lint.syntax.names import Binding
from amp_lint.syntax.returns import returned
from amp_lint.vocabulary.amp import CUSTOM_FWD
from amp_lint.vocabulary.meaning import Role
from amp_lint.vocabulary.table import words

Target = Callable[[cst.Call], cst.FunctionDef | None]
"""The function that a call runs, if it can be only one."""


class Results:
    """Goes from a call into the function that it runs, and back to the call."""

    def __init__(self, program: Program, target: Target) -> None:
        self._program = program
        self._target = target

    def bound(self, binding: Binding) -> cst.BaseExpression | None:
        """What a variable is bound to: as a value, or as one of those that a call gives.

        What a parameter is given by the only call of its function.
        """
        if binding.kind == "parameter":
            return self._handed(binding)
        if binding.kind != "unpack" or not isinstance(binding.node, cst.Assign):
            return binding.value
        target, value = binding.node.targets[0].target, binding.node.value
        if len(binding.node.targets) > 1 or not isinstance(target, (cst.Tuple, cst.List)):
            return None
        names = [getattr(each.value, "value", None) for each in target.elements]
        if binding.name not in names or not isinstance(value, cst.Call):
            return None
        given = self.of(value)
        at = names.index(binding.name)
        return _element(given, at, len(names)) if isinstance(given, cst.Tuple) else None

    def _handed(self, binding: Binding) -> cst.BaseExpression | None:
        given = self.given(binding)
        return given[0] if len(given) == 1 else None

    def given(self, binding: Binding) -> list[cst.BaseExpression | None]:
        """What each call of its function gives for a parameter; None where that is not told."""
        function = self._program.tree.ancestor(binding.node, cst.FunctionDef)
        if function is None or binding.kind != "parameter":
            return []
        calls = self._program.calls_of(function)
        return [self._program.bind(function, call).get(binding.name) for call in calls]

    def handed(self, name: cst.Name) -> list[cst.BaseExpression]:
        """What each call gives for the parameter that a name is; [] if that is not all there is."""
        return self._program.given_by_all(name)

    def of(self, call: cst.Call) -> cst.BaseExpression | None:
        """The only value that a call returns; None if there are several, or may be."""
        function = self._target(call)
        if function is None or any(map(_is_unknown, function.decorators)):
            return None
        values = returned(function)
        return values[0] if len(values) == 1 else None


def _element(given: cst.Tuple, at: int, size: int) -> cst.BaseExpression | None:
    elements: Sequence[cst.BaseElement] = given.elements
    plain = not any(isinstance(each, cst.StarredElement) for each in elements)
    return elements[at].value if plain and len(elements) == size else None


def _is_unknown(decorator: cst.Decorator) -> bool:
    """Whether a decorator may make something else of what a function returns."""
    name = decorator.decorator
    while isinstance(name, (cst.Call, cst.Attribute)):
        name = name.func if isinstance(name, cst.Call) else name.value
    return not isinstance(name, cst.Name) or name.value not in _TRANSPARENT


_TRANSPARENT = frozenset({"torch", "staticmethod", "classmethod"}) | (
    words(Role.REGION) | CUSTOM_FWD.words
)
