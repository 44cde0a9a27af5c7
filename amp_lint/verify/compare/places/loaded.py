"""What a loader runs while something walks over it: its data set, and functions it was given."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_lint.syntax.tree import descendants
from amp_lint.verify.compare.side import Side
from amp_lint.vocabulary.purity import PURE_METHODS, QUERIES

_DATASETS = frozenset({"torch.utils.data.Dataset", "torch.utils.data.IterableDataset"})
_LOADING = "torch.utils.data.", "torchvision.datasets."
_LAZY = frozenset({"builtins.map", "builtins.filter"})
_GIVEN_BY = frozenset({"collate_fn", "transform", "transforms", "target_transform"})
"""The keywords by which data sets and loaders are given a function, whoever they are."""
_CALLED = "__call__"


def is_dataset(side: Side, owner: cst.ClassDef) -> bool:
    """Whether a class is a data set of torch's."""
    bases = (base.value for each in side.model.values.lineage(owner) for base in each.bases)
    return any(side.model.names.is_any(base, _DATASETS) for base in bases)


def has_casting_functions(side: Side) -> bool:
    """Whether a loader, or a lazy ``map``, is given what may compute what autocast casts."""
    may_be_cast = side.model.regions.may_be_cast
    return any(
        any(map(may_be_cast, descendants(body)))
        for call in side.model.tree.nodes(cst.Call)
        for given in _given(side, call)
        for body in _bodies(side, given)
    )


def _given(side: Side, call: cst.Call) -> Iterator[cst.BaseExpression]:
    """What a call gives to a loader."""
    names = side.model.names.qualified(call.func)
    is_loading = any(name.startswith(_LOADING) for name in names) or bool(names & _LAZY)
    for arg in call.args:
        if is_loading or (arg.keyword is not None and arg.keyword.value in _GIVEN_BY):
            yield arg.value


def _bodies(side: Side, given: cst.BaseExpression) -> Iterator[cst.CSTNode]:
    """The code of the file that something may run, if it is called."""
    model = side.model
    for value in model.values.alternatives(given):
        if isinstance(value, cst.Lambda):
            yield value.body
        elif isinstance(value, cst.Call) and side.lifter.is_partial(value):
            yield from _bodies(side, value.args[0].value)
        word = value.attr.value if isinstance(value, cst.Attribute) else ""
        made = model.values.instance_class(value)
        found = model.names.definition(value)
        for function in model.tree.nodes(cst.FunctionDef):
            owner = model.values.enclosing_class(function)
            is_method = owner is not None and function.name.value == word
            is_called = owner is made is not None and function.name.value == _CALLED
            if function is found or is_method or is_called:
                yield function.body


def may_be_loader(side: Side, walked: cst.BaseExpression) -> bool:
    """Whether a loader may be behind what is walked over: not a range, nor a view of a dict."""
    if not isinstance(walked, cst.Call):
        return True
    names = side.model.names.qualified(walked.func)
    if "builtins.range" in names:
        return False
    if isinstance(walked.func, cst.Attribute) and not names:
        return walked.func.attr.value not in PURE_METHODS | QUERIES
    return True
