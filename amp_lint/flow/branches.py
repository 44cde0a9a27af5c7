"""The tests that decide whether a place of a function is reached."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import libcst as cst

from amp_lint.flow.conditions import Facts, formula, opposite
from amp_lint.syntax.tree import Tree, last_statement


@dataclass(frozen=True, slots=True)
class Guard:
    """A test that decides whether a place is reached."""

    test: cst.BaseExpression
    holds: bool

    def normal(self) -> tuple[cst.BaseExpression, bool]:
        """The test without ``not`` around it, and whether it must hold."""
        test, holds = self.test, self.holds
        while isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            test, holds = test.expression, not holds
        return test, holds


def guards(tree: Tree, node: cst.CSTNode) -> list[Guard]:
    """The tests that a place is under: those around it, and those that leave before it."""
    return [Guard(test, holds) for test, holds in deciding(tree, node)]


def contradict(tree: Tree, first: cst.CSTNode, second: cst.CSTNode) -> bool:
    """Whether the tests around two places exclude each other, judged by their text."""
    return _is_never((*deciding(tree, first), *deciding(tree, second)))


def excludes(tree: Tree, place: cst.CSTNode, test: cst.BaseExpression) -> bool:
    """Whether a place is only reached where a test fails, judged by its text."""
    return _is_never((*deciding(tree, place), (test, True)))


def may_fail(tree: Tree, place: cst.CSTNode, test: cst.BaseExpression) -> bool:
    """Whether a place may be reached where a test fails, judged by its text."""
    return not _is_never((*deciding(tree, place), (test, False)))


def joined(test: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The tests that all hold where one does: those that it joins by ``and``, or itself."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        yield from joined(test.left)
        yield from joined(test.right)
    else:
        yield test


def _is_never(tests: Iterable[tuple[cst.BaseExpression, bool]]) -> bool:
    """Whether some tests cannot all turn out so."""
    plain = ((formula(test, lambda _: None), holds) for test, holds in tests)
    return not Facts().allows(*(part if holds else opposite(part) for part, holds in plain))


def arms(tree: Tree, node: cst.CSTNode) -> Iterator[tuple[cst.BaseExpression, bool]]:
    """The tests that a place of a function is under, innermost first, and how each turned out."""
    child = node
    for holder in tree.ancestors(node):
        if isinstance(holder, (cst.If, cst.IfExp)) and child is not holder.test:
            yield holder.test, child is holder.body
        elif isinstance(holder, cst.BooleanOperation) and child is holder.right:
            yield holder.left, isinstance(holder.operator, cst.And)
        if isinstance(holder, (cst.FunctionDef, cst.Lambda)):
            return
        child = holder


def deciding(tree: Tree, node: cst.CSTNode) -> Iterator[tuple[cst.BaseExpression, bool]]:
    """All tests of a function that decide whether a place is reached, and how each turned out."""
    yield from arms(tree, node)
    yield from passed(tree, node)


def passed(tree: Tree, node: cst.CSTNode) -> Iterator[tuple[cst.BaseExpression, bool]]:
    """The tests that leave a block of the function above a place, and how each turned out."""
    at = tree.order(node)
    for holder in tree.ancestors(node):
        if isinstance(holder, cst.IndentedBlock):
            for branch, test, holds in _exits(holder):
                if tree.end(branch) <= at:
                    yield test, holds
        if isinstance(holder, (cst.FunctionDef, cst.Lambda, cst.ClassDef)):
            return


@functools.lru_cache(maxsize=8192)  # a long block is asked for again by all that stands in it
def _exits(block: cst.IndentedBlock) -> tuple[tuple[cst.If, cst.BaseExpression, bool], ...]:
    """The statements of a block that leave it, with their tests and how these turn out if not."""
    branches = (statement for statement in block.body if isinstance(statement, cst.If))
    return tuple((branch, *way) for branch in branches for way in _staying(branch))


def _staying(branch: cst.If) -> Iterator[tuple[cst.BaseExpression, bool]]:
    """How the tests of a statement turn out where it does not leave the block."""
    other = branch.orelse
    if leaves(branch.body):
        yield branch.test, False
        if isinstance(other, cst.If):
            yield from _staying(other)
    elif isinstance(other, cst.Else) and leaves(other.body):
        yield branch.test, True


def is_tested(tree: Tree, node: cst.CSTNode) -> bool:
    """Whether nothing counts of an expression, where it stands, but whether it is true."""
    holder = tree.parent(node)
    match holder:
        case cst.UnaryOperation():
            return isinstance(holder.operator, cst.Not)
        case cst.BooleanOperation():
            return is_tested(tree, holder)
        case cst.If() | cst.While() | cst.IfExp() | cst.CompIf() | cst.Assert():
            return holder.test is node
    return False


def leaves(body: cst.BaseSuite) -> bool:
    """Whether a block ends by leaving; to raise is no way to go on, and says what is refused."""
    last = last_statement(body)
    if isinstance(last, cst.With):
        return leaves(last.body)
    return isinstance(last, (cst.Return, cst.Continue, cst.Break))
