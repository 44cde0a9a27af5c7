"""Choices of bfloat16 that autocast does not hear of, other than options of a command line."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from amp_lint.amp.regions import Region
from amp_lint.flow.branches import deciding
from amp_lint.flow.values import literal, lookup
from amp_lint.model import Model
from amp_lint.syntax.tree import descendants
from amp_lint.vocabulary.operations import DTYPES

_BF16 = re.compile(r"(?:torch\.)?bf(?:loat)?_?16", re.IGNORECASE)
_EQUAL = (cst.Equal, cst.In)
_SEVERAL = (cst.List, cst.Set, cst.Tuple)


def unread(model: Model) -> cst.BaseExpression | None:
    """What picks a dtype by a name from a table with bfloat16, for a variable that nobody reads.

    None if there is no such variable. What else the file does with dtypes is not asked.
    """
    for assigned in model.tree.nodes(cst.Assign):
        target = assigned.targets[0].target
        if isinstance(target, cst.Name) and "bfloat16" in _dtypes(model, assigned.value):
            same = [each for each in model.tree.named(target.value) if each is not target]
            if not any(_reads(model, each) for each in same):
                return assigned.value
    return None


def _reads(model: Model, name: cst.Name) -> bool:
    return not isinstance(model.tree.parent(name), cst.AssignTarget)


def _dtypes(model: Model, value: cst.BaseExpression) -> set[str]:
    """The dtypes in a table of which a value is an item under a key that is not written out."""
    found = lookup(value) if isinstance(value, (cst.Subscript, cst.Call)) else None
    if found is None or literal(found[1]) is not ...:
        return set()
    tables = model.values.alternatives(found[0])
    held = [each for table in tables for _, each in model.values.items(table) or ()]
    names = [name for each in held for name in model.names.qualified(each)]
    return {DTYPES[name] for name in names} if names and DTYPES.keys() >= {*names} else set()


def turned_on(model: Model, region: Region) -> cst.Comparison | None:
    """The test of a text for bfloat16's name by which a region is on; None if there is none."""
    switches = [region.enabled] if region.enabled is not None else []
    switches += [test for test, holds in deciding(model.linked, region.node) if holds]
    return next((found for each in switches for found in _asked(model, each)), None)


def _asked(model: Model, switch: cst.BaseExpression) -> Iterator[cst.Comparison]:
    """The comparisons in what a switch may be that hold for bfloat16, and so turn it on."""
    given = [switch, *(model.origins.given(switch) if isinstance(switch, cst.Name) else ())]
    for value in (end for each in given for end in model.values.alternatives(each)):
        parts = [value, *descendants(value)]
        negated = any(isinstance(part, (cst.UnaryOperation, cst.IfExp)) for part in parts)
        if not negated:
            yield from (p for p in parts if isinstance(p, cst.Comparison) and _is_for_bf16(p))


def _is_for_bf16(test: cst.Comparison) -> bool:
    """Whether a text is compared with bfloat16's name, alone or among others."""
    if len(test.comparisons) != 1 or not isinstance(test.comparisons[0].operator, _EQUAL):
        return False
    other = test.comparisons[0].comparator
    several = [e.value for e in other.elements] if isinstance(other, _SEVERAL) else [other]
    texts = [literal(each) for each in several]
    return any(isinstance(text, str) and _BF16.fullmatch(text) for text in texts)
