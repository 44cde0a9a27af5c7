"""Which statements only print or log values, so that it makes no difference that they do."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import libcst as cst

from amp_lint.flow.values import literal
from amp_lint.verify.compare.erase import Eraser
from amp_lint.verify.compare.shown import audience, formats
from amp_lint.verify.compare.shown.course import Course
from amp_lint.verify.compare.shown.values import Values

_ROOT = re.compile(r"logging\.(debug|info|warning|error)")
_LEVELS = frozenset({"critical", "debug", "error", "info", "warning"})


class Prints:
    """What one function shows."""

    def __init__(self, eraser: Eraser, unit: cst.FunctionDef, done: AbstractSet[str]) -> None:
        """``done`` are the texts of what the old function computes anyway."""
        self._eraser, self._course = eraser, Course(eraser, unit)
        self._values = Values(self._course, done)

    def is_shown(self, statement: cst.CSTNode) -> bool:
        """Whether a statement only shows something, or does so where a number says it."""
        match statement:
            case cst.Expr(value=value):
                return self.is_print(value)
            case cst.If(test=test, body=cst.IndentedBlock(body=lines), orelse=None):
                parts = [
                    part
                    for line in lines
                    for part in (line.body if isinstance(line, cst.SimpleStatementLine) else [line])
                ]
                return self._values.is_tested(test) and all(map(self.is_shown, parts))
        return False

    def is_print(self, node: cst.CSTNode) -> bool:
        """Whether a call prints or logs what can be computed and shown, and nobody sees it."""
        tree = self._eraser.model.tree
        if not isinstance(node, cst.Call) or any(arg.star for arg in node.args):
            return False
        around = tree.ancestor(node, cst.FunctionDef, cst.ClassDef, cst.Lambda)
        if around is not self._course.unit or not self._is_unseen:
            return False
        if self._eraser.model.names.is_only(node.func, ("builtins.print",)):
            return all(map(self._is_printed, node.args))
        return self._is_log(node) and self._is_unhandled and self._is_logged(node.args)

    @functools.cached_property
    def _is_unseen(self) -> bool:
        return audience.is_unseen(self._eraser, self._course.unit)

    @functools.cached_property
    def _is_unhandled(self) -> bool:
        return audience.is_unhandled(self._eraser)

    def _is_printed(self, arg: cst.Arg) -> bool:
        """Whether an argument of ``print`` is shown, or says with what around it."""
        if arg.keyword is None:
            return self._values.kind(arg.value) is not None
        wanted = {"end": str, "flush": bool, "sep": str}.get(arg.keyword.value)
        return wanted is not None and isinstance(literal(arg.value), wanted)

    def _is_log(self, call: cst.Call) -> bool:
        """Whether a call writes to a log that is set up.

        The first message of all to the root sets up how they are shown.
        """
        names = self._eraser.model.names
        showing = names.qualified(call.func)
        if len(showing) == 1 and all(map(_ROOT.fullmatch, showing)):
            if self._eraser.side.mentions("basicConfig"):
                return False
            others = self._eraser.model.tree.below(self._course.unit, cst.Call)
            return any(
                other is not call
                and names.qualified(other.func) == showing
                and self._course.dominates(other, call)
                for other in others
            )
        match call.func:
            case cst.Attribute(value=cst.Name() as owner, attr=attr) if attr.value in _LEVELS:
                return not showing and self._is_logger(owner)
        return False

    def _is_logger(self, name: cst.Name) -> bool:
        """Whether a name is a logger, and nothing else, from before the function was made on."""
        names = self._eraser.model.names
        bindings = names.bindings(name)
        return self._course.is_bound(name) and all(
            isinstance(each.value, cst.Call)
            and names.is_only(each.value.func, ("logging.getLogger",))
            for each in bindings
        )

    def _is_logged(self, args: Sequence[cst.Arg]) -> bool:
        """Whether a message takes what it is given, which is put in later."""
        kinds = [self._values.kind(arg.value) for arg in args]
        known = [each for each in kinds if each is not None]
        if not args or len(known) < len(kinds) or any(arg.keyword for arg in args):
            return False
        template = literal(args[0].value)
        if len(args) == 1:
            return True
        return isinstance(template, str) and formats.fits_percent(template, known[1:])
