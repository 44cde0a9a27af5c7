"""Which functions get hold of a local variable, handed from one to the other."""

from __future__ import annotations

import libcst as cst

from amp_lint.flow.program import Program

_MAX_STEPS = 3  # calls, one inside the other, that a variable is followed into
_TESTS = (cst.If, cst.IfExp, cst.Comparison, cst.ComparisonTarget, cst.UnaryOperation)


class Holders:
    """Follows a local variable to all that it is handed to."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._tree = program.tree

    def functions(
        self, name: str, home: cst.FunctionDef, steps: int = _MAX_STEPS
    ) -> list[cst.FunctionDef] | None:
        """The functions that hold a local variable of ``home``; None if anything else may."""
        found = [home]
        for use in self._tree.named(name):
            if not self._tree.contains(home.body, use):
                continue
            more = self._followed(use, steps)
            if more is None:
                return None
            found += more
        return found

    def _followed(self, use: cst.Name, steps: int) -> list[cst.FunctionDef] | None:
        """The functions that one use of the variable hands it to; None if they are not known."""
        parent = self._tree.parent(use)
        match parent:
            case cst.Attribute(value=owner) if owner is use:
                holder = self._tree.parent(parent)
                return [] if isinstance(holder, cst.Call) and holder.func is parent else None
            case cst.Attribute() | cst.AssignTarget():
                return []
            case cst.AnnAssign(target=target) if target is use:
                return []
            case cst.Arg(keyword=keyword) if keyword is use:
                return []
            case cst.Arg():
                return self._given(use, self._tree.parent(parent), steps)
            case cst.IfExp(test=test) if test is not use:
                return None
        return [] if isinstance(parent, _TESTS) else None

    def _given(
        self, use: cst.Name, call: cst.CSTNode | None, steps: int
    ) -> list[cst.FunctionDef] | None:
        function = self._program.target(call) if isinstance(call, cst.Call) else None
        if function is None or not isinstance(call, cst.Call) or steps <= 0:
            return None
        bound = self._program.bind(function, call)
        names = [name for name, value in bound.items() if value is use]
        return self.functions(names[0], function, steps - 1) if len(names) == 1 else None
