"""Where something stands, and what is called there."""

from __future__ import annotations

import libcst as cst

from amp_lint.model import Model
from amp_lint.syntax.assignments import assigned

from .data import Unit


class Places:
    """Functions, names and calls around a place, for all that judges checkpoints."""

    def __init__(self, model: Model) -> None:
        self.tree = model.linked
        self.program = model.program

    def unit(self, node: cst.CSTNode) -> Unit:
        """The outermost function or class around a node, or the module."""
        holders = (h for h in self.tree.ancestors(node))
        units = [h for h in holders if isinstance(h, (cst.FunctionDef, cst.ClassDef))]
        return units[-1] if units else self.tree.module

    def scope(self, node: cst.CSTNode) -> cst.FunctionDef | cst.Module:
        return self.tree.ancestor(node, cst.FunctionDef) or self.tree.module

    def reached(self, call: cst.Call) -> list[cst.FunctionDef]:
        """The functions of this file that a call runs, and those that they call."""
        found: dict[int, cst.FunctionDef] = {}
        todo = [call]
        while todo:
            target = self.program.target(todo.pop())
            if target is not None and id(target) not in found:
                found[id(target)] = target
                todo += self.tree.below(target, cst.Call)
        return list(found.values())

    def target(self, value: cst.BaseExpression) -> cst.BaseExpression | None:
        """What an expression, or one that holds it, is assigned to."""
        for holder in self.tree.ancestors(value):
            for target, given in assigned(holder):
                if given is not None and self.tree.contains(given, value):
                    return target
            if isinstance(holder, cst.BaseStatement):
                return None
        return None

    def uses_in(self, scope: cst.CSTNode, name: str) -> list[cst.Name]:
        return [each for each in self.tree.named(name) if self.tree.contains(scope, each)]

    def appended_to(self, node: cst.CSTNode) -> cst.BaseExpression | None:
        """The list that an expression is appended to."""
        match self.tree.parent(self.tree.parent(node) or node):
            case cst.Call(
                func=cst.Attribute(value=held, attr=cst.Name(value="append")), args=[one]
            ) if one.value is node:
                return held
        return None
