"""What is taken out of a dict by functions that it is handed to, and who may take all of it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_lint.flow.program import Program
from amp_lint.flow.values import literal
from amp_lint.syntax.returns import returned

_MAX_STEPS = 3  # calls, one inside the other, that a dict is followed into


class Items:
    """Follows dicts of a linked tree to those that read them."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._tree = program.tree

    def takers(self, made: cst.BaseExpression) -> list[cst.Call] | None:
        """The calls of what is not known that get a dict, be it by what a function hands on.

        All others that get it take single items, under keys that are written out. None where the
        dict goes anywhere else, or nobody knows where it goes.

        Args:
            made: what makes the dict, and is assigned to a variable.
        """
        holder = self._tree.parent(made)
        target = holder.targets[0].target if isinstance(holder, cst.Assign) else None
        home = self._tree.ancestor(made, cst.FunctionDef) or self._tree.module
        if not isinstance(target, cst.Name):
            return None
        found = [*self._in(target.value, home, _MAX_STEPS)]
        return None if None in found else [each for each in found if each is not None]

    def _in(
        self, name: str, home: cst.FunctionDef | cst.Module, steps: int
    ) -> Iterator[cst.Call | None]:
        """Those that get what a name of a function is; with None if something else may."""
        for use in self._tree.named(name):
            if self._tree.contains(home.body, use) if isinstance(home, cst.FunctionDef) else True:
                yield from self._of(use, steps)

    def _of(self, use: cst.Name, steps: int) -> Iterator[cst.Call | None]:
        parent = self._tree.parent(use)
        match parent:
            case cst.AssignTarget() | cst.Param() | cst.Attribute(attr=cst.Name()) if (
                not isinstance(parent, cst.Attribute) or parent.attr is use
            ):
                return
            case cst.Subscript(value=owner, slice=[cst.SubscriptElement(slice=cst.Index(key))]):
                if owner is not use or not isinstance(literal(key), str):
                    yield None
            case cst.Arg(keyword=keyword) if keyword is use:
                return
            case cst.Arg(star=""):
                yield from self._given(use, self._tree.parent(parent), steps)
            case cst.Return():
                return  # who calls the function has it anyway, or gives it a name of its own
            case _:
                yield None

    def _given(
        self, use: cst.Name, call: cst.CSTNode | None, steps: int
    ) -> Iterator[cst.Call | None]:
        assert isinstance(call, cst.Call)
        function = self._program.target(call)
        if function is None:
            yield call
            return
        bound = self._program.bind(function, call)
        names = [name for name, value in bound.items() if value is use]
        if len(names) != 1 or steps <= 0 or self._goes_back(function, names[0], call, use):
            yield None
            return
        yield from self._in(names[0], function, steps - 1)

    def _goes_back(
        self, function: cst.FunctionDef, name: str, call: cst.Call, use: cst.Name
    ) -> bool:
        """Whether a function may return what it gets, to be called something else than before."""
        given = (each for each in returned(function) if isinstance(each, cst.Name))
        if not any(each.value == name for each in given):
            return False
        holder = self._tree.parent(call)
        targets = holder.targets if isinstance(holder, cst.Assign) else ()
        again = [isinstance(t.target, cst.Name) and t.target.value == use.value for t in targets]
        return not isinstance(holder, cst.Expr) and not (again and all(again))
