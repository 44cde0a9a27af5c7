"""Whether regions are opened as most are, so far as Python's own tree tells."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint.syntax.facts import parameters
from amp_lint.syntax.parse import own_identifiers
from amp_lint.vocabulary.amp import AUTOCAST
from amp_lint.vocabulary.meaning import Part, Role
from amp_lint.vocabulary.table import words

if TYPE_CHECKING:
    from amp_lint.syntax.facts import Facts

_REGIONS = words(Role.REGION)
_TELLING = frozenset(
    {"bfloat16", "device", "double", "float", "float16", "float32", "float64", "half"}
)
"""Attributes that are of a known kind."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_IDLE = (ast.Expr, ast.Import, ast.ImportFrom, ast.Pass, ast.Return)


def are_entered(facts: Facts) -> bool:
    """Whether each region is that of ``with autocast(...)``, and all that is inside runs there.

    Nothing is yielded, nor are functions all that is there.
    """
    if not _REGIONS.isdisjoint(facts.linked):
        return False
    entered = {id(call.func): holder for call, holder in _entered(facts)}
    uses = [node for node in facts.nodes if not _REGIONS.isdisjoint(own_identifiers(node))]
    if not all(id(node) in entered or _is_plain_import(node) for node in uses):
        return False
    holders = [entered[id(node)] for node in uses if id(node) in entered]
    return not any(_defines(holder) or _yields(holder) for holder in holders)


def _defines(holder: ast.With | ast.AsyncWith) -> bool:
    """Whether a region makes what runs later, and no other statement but a few that do nothing."""
    others = [each for each in holder.body if not _makes(each)]
    return len(others) < len(holder.body) and all(isinstance(each, _IDLE) for each in others)


def _makes(statement: ast.stmt) -> bool:
    """Whether a statement is a function, or gives a name to one, or to a generator."""
    value = statement.value if isinstance(statement, (ast.Assign, ast.Return)) else None
    return isinstance(statement, _FUNCTIONS) or isinstance(value, (ast.Lambda, ast.GeneratorExp))


def _yields(holder: ast.With | ast.AsyncWith) -> bool:
    return any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in ast.walk(holder))


def are_given_what_fits(facts: Facts) -> bool:
    """Whether each region is entered, is of the newest class, and no argument can be misplaced."""
    others = facts.words & words(Role.SCALER)
    if others or not facts.asked(are_entered):
        return False
    return all(_fits(facts, call) for word in _REGIONS for call in facts.calls.get(word, ()))


def _entered(facts: Facts) -> Iterator[tuple[ast.Call, ast.With | ast.AsyncWith]]:
    for holder in facts.nodes:
        if isinstance(holder, (ast.With, ast.AsyncWith)):
            for item in holder.items:
                if isinstance(item.context_expr, ast.Call) and item.optional_vars is None:
                    yield item.context_expr, holder


def _is_plain_import(node: ast.AST) -> bool:
    return isinstance(node, ast.alias) and (node.asname is None or node.asname in _REGIONS)


def _fits(facts: Facts, call: ast.Call) -> bool:
    order = AUTOCAST.order
    given = {each.arg or "": each.value for each in call.keywords}
    if len(call.args) > 1 or not given.keys() <= {*order}:
        return False
    given |= dict(zip(order, call.args, strict=False))
    ends = {
        part: [*facts.ends(given[AUTOCAST.keyword(part)])]
        for part in (Part.DEVICE, Part.DTYPE, Part.ENABLED)
        if AUTOCAST.keyword(part) in given
    }
    may_be_cpu = any(isinstance(end, ast.Constant) for end in ends.get(Part.DEVICE, ()))
    if ast.unparse(call.func) not in AUTOCAST.names or Part.DEVICE not in ends:
        return False
    return not (may_be_cpu and Part.DTYPE in ends) and all(
        _is_unknown(facts, end) or _is_right(part, end) for part in ends for end in ends[part]
    )


def _is_unknown(facts: Facts, node: ast.expr) -> bool:
    """Whether a value is a variable or an attribute that is no device and no dtype.

    Where other files are seen, it is not one that may be given a value there.
    """
    match node:
        case ast.Name(id=name):
            is_free = name not in facts.values or name in facts.asked(parameters)
            return name not in facts.imported and not (facts.linked and is_free)
        case ast.Attribute(attr=name):
            return name not in _TELLING and not facts.is_linked(name)
    return False


def _is_right(part: Part, node: ast.expr) -> bool:
    match part, node:
        case Part.DEVICE, ast.Constant(value=value):
            return isinstance(value, str)
        case Part.DEVICE, ast.Attribute(value=ast.Attribute(attr="device"), attr="type"):
            return True
        case Part.DTYPE, ast.Attribute(attr=name):
            return name != "device"
        case Part.ENABLED, ast.Constant(value=value):
            return not isinstance(value, str)
    return part is Part.ENABLED and isinstance(node, (ast.Compare, ast.UnaryOp))
