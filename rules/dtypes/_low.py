"""Where values are low, for the rules about what low precision cannot hold."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from amp_lint._lazy import cst
from amp_lint.vocabulary.meaning import Role
from amp_lint.vocabulary.table import words

if TYPE_CHECKING:
    from amp_lint.amp.dtypes import Run, Value
    from amp_lint.model import Model
    from amp_lint.text.diagnostic import Diagnostic

T = TypeVar("T")
REGIONS = words(Role.REGION)
LOWERING = REGIONS | {"half", "float16", "HalfTensor", "bfloat16"}
"""Words without one of which nothing is low."""


def sightings(model: Model, node: cst.CSTNode) -> Iterator[Run]:
    """The runs in which an operation is reached."""
    return (run for run in model.dtypes.runs(node) if run.state(node) is not None)


def first(
    model: Model,
    node: cst.CSTNode,
    judge: Callable[[Model, Run, T], Diagnostic | None],
    what: T,
) -> Iterator[Diagnostic]:
    """What is wrong with ``what``, in the first of the runs that reach ``node`` where it is."""
    found = (judge(model, run, what) for run in sightings(model, node))
    yield from itertools.islice(filter(None, found), 1)


def shown(model: Model, run: Run, value: Value) -> list[tuple[cst.CSTNode, str]]:
    """What made a value low: the operation, the region, the calls that lead there."""
    found: list[tuple[cst.CSTNode, str]] = []
    state = run.state(value.why) if value.why is not None else None
    if value.why is not None:
        found.append((value.why, f"{' or '.join(sorted(value.low))} since here"))
    state = state or run.ambient
    if state.region is not None:
        found.append((state.region, "autocast is on here"))
    found += [(call, "this runs it") for call in run.calls]
    return [(node, text) for node, text in found if model.tree.is_own(node)]


def elsewhere(run: Run) -> str:
    """For a message: which other file runs it under autocast, if that is why."""
    return f"; {run.ambient.elsewhere} runs it so" if run.ambient.elsewhere else ""
