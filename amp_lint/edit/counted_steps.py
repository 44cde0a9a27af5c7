"""Edits that let a scheduler count the steps that a scaler did not skip."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from amp_lint.edit import edits
from amp_lint.text.diagnostic import Edit
from amp_lint.vocabulary.amp import GET_SCALE

if TYPE_CHECKING:
    from amp_lint.model import Model
    from amp_lint.walk.found import Found

_SCALES = ("old_scale", "scale_before")
_SKIPPED = ("skipped", "was_skipped")
_LOOPS = (cst.For, cst.While)


@dataclass(frozen=True, slots=True)
class _Place:
    """An update, and what of the scheduler's block stands after it or holds it."""

    update: cst.SimpleStatementLine
    arms: cst.If | None = None
    """What has the update in one of its arms, and stands before the scheduler's step."""


class CountedSteps:
    """Finds the update of a scheduler's step, and writes what tells whether it was skipped."""

    def __init__(self, model: Model, found: Found) -> None:
        """Of one scheduler's step behind, or before, a step that a scaler may skip."""
        self.tree = model.tree
        self.names = model.names
        line = model.tree.statement(found.event.node)
        self._line: cst.SimpleStatementLine | None = None
        if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
            self._line = line if "\n" not in model.tree.source(line) else None
        self._scaler = _owner(model, found.cause.node)
        updates = (u for u in model.steps.recognizer.updates if isinstance(u, cst.Call))
        same = (u for u in updates if _owner(model, u) == self._scaler)
        self._updates = {id(statement) for u in same if (statement := model.tree.statement(u))}

    def edits(self) -> tuple[Edit, ...] | None:
        """Those of a fix; None where it is not plain where the update is."""
        if self._line is None or not self._scaler:
            return None
        place = self._place(self._line)
        if place is None:
            return self._below(self._line)
        if place.arms is None:
            return self._behind(self._line, place.update)
        return self._by_flag(self._line, place.update, place.arms)

    def _place(self, line: cst.SimpleStatementLine) -> _Place | None:
        """The last update before a line, in its block or one around it, or in arms there."""
        child: cst.CSTNode = line
        for holder in self.tree.ancestors(line):
            if isinstance(holder, (cst.IndentedBlock, cst.Module)):
                at = next(i for i, each in enumerate(holder.body) if each is child)
                for each in reversed(holder.body[:at]):
                    found = [*self._in(each)]
                    if found or isinstance(each, _LOOPS):
                        return found[0] if len(found) == 1 else None
            is_end = isinstance(holder, (cst.FunctionDef, cst.ClassDef, *_LOOPS))
            if is_end and not self._is_of_schedulers(holder, line):
                return None
            child = holder
        return None

    def _in(self, statement: cst.BaseStatement) -> Iterator[_Place]:
        """The updates that a statement is, or has in its arms."""
        if id(statement) in self._updates and isinstance(statement, cst.SimpleStatementLine):
            yield _Place(statement)
        for block in _arms(statement):
            for each in block:
                if id(each) in self._updates and isinstance(each, cst.SimpleStatementLine):
                    assert isinstance(statement, cst.If)
                    yield _Place(each, statement)

    def _is_of_schedulers(self, holder: cst.CSTNode, line: cst.SimpleStatementLine) -> bool:
        """Whether a loop has nothing in it but the scheduler's step."""
        body = holder.body if isinstance(holder, _LOOPS) else None
        return isinstance(body, cst.IndentedBlock) and [*body.body] == [line]

    def _below(self, line: cst.SimpleStatementLine) -> tuple[Edit, ...] | None:
        """Put a step that stands right above the update behind it."""
        block = self.tree.parent(line)
        after = None
        if isinstance(block, (cst.IndentedBlock, cst.Module)):
            pairs = itertools.pairwise(block.body)
            after = next((other for each, other in pairs if each is line), None)
        name = self._free(_SCALES, line)
        removed = edits.remove_statement(self.tree, line.body[0])
        if not isinstance(after, cst.SimpleStatementLine) or id(after) not in self._updates:
            return None
        if name is None or removed is None:
            return None
        head, code = f"if {self._scale} >= {name}:", self.tree.source(line).strip()
        return (
            removed,
            edits.insert_before(self.tree, after, f"{name} = {self._scale}"),
            edits.insert_block_after(self.tree, after, head, code),
        )

    def _behind(
        self, line: cst.SimpleStatementLine, update: cst.SimpleStatementLine
    ) -> tuple[Edit, ...] | None:
        """Step where the step stands, if the scale did not fall in the update before it."""
        name = self._free(_SCALES, line, update)
        if name is None:
            return None
        before = edits.insert_before(self.tree, update, f"{name} = {self._scale}")
        return before, edits.guard(self.tree, line, f"{self._scale} >= {name}")

    def _by_flag(
        self, line: cst.SimpleStatementLine, update: cst.SimpleStatementLine, arms: cst.If
    ) -> tuple[Edit, ...] | None:
        """The same where other arms have no update: nothing is skipped there."""
        name, flag = self._free(_SCALES, line, update), self._free(_SKIPPED, line, update)
        if name is None or flag is None:
            return None
        return (
            edits.insert_before(self.tree, arms, f"{flag} = False"),
            edits.insert_before(self.tree, update, f"{name} = {self._scale}"),
            edits.insert_after(self.tree, update, f"{flag} = {self._scale} < {name}"),
            edits.guard(self.tree, line, f"not {flag}"),
        )

    @property
    def _scale(self) -> str:
        return f"{self._scaler}.{GET_SCALE.word}()"

    def _free(self, names: Iterable[str], *places: cst.CSTNode) -> str | None:
        """The first of some names that nothing has yet."""
        taken = (name for name in names if any(self.names.visible(p, name) for p in places))
        used = {*taken}
        return next((name for name in names if name not in used), None)


def _owner(model: Model, call: cst.CSTNode) -> str:
    func = call.func if isinstance(call, cst.Call) else None
    return model.tree.source(func.value) if isinstance(func, cst.Attribute) else ""


def _arms(statement: cst.BaseStatement) -> Iterator[tuple[cst.BaseStatement, ...]]:
    """The blocks of the arms of an ``if``, if it is one."""
    each: cst.CSTNode | None = statement
    while isinstance(each, cst.If):
        if isinstance(each.body, cst.IndentedBlock):
            yield (*each.body.body,)
        each = each.orelse
    if isinstance(each, cst.Else) and isinstance(each.body, cst.IndentedBlock):
        yield (*each.body.body,)
