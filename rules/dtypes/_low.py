"""Where values are low, for the rules about what low precision cannot hold."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Set
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from amp_lint._lazy import cst
from amp_lint.text.diagnostic import Edit, Severity
from amp_lint.vocabulary.expressions import CASTS, SELECTS
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


def first(
    model: Model,
    node: cst.CSTNode,
    judge: Callable[[Model, Run, T], Diagnostic | None],
    what: T,
    *,
    supposing: bool = False,
) -> Iterator[Diagnostic]:
    """What is wrong with ``what``, in the first of the runs that reach ``node`` where it is.

    If nothing is, and with ``supposing``, what would be if autocast ran the modules of the file:
    that is no error, as long as it does not.
    """
    found = filter(None, (judge(model, run, what) for run in model.dtypes.reaching(node)))
    known = next(found, None)
    if known is not None:
        yield known
    elif supposing and model.supposed is not None and not model.trains_plainly:
        runs = (run for run in model.supposed.reaching(node) if run.ambient.supposed)
        for one in itertools.islice(filter(None, (judge(model, run, what) for run in runs)), 1):
            is_error = one.severity is Severity.ERROR
            yield replace(one, severity=Severity.WARNING) if is_error else one


def certain(run: Run, value: Value) -> bool:
    """Whether a value is low for sure, where it is only supposed that anything is."""
    return not run.ambient.supposed or len(value.dtypes) == 1


def is_made_by(model: Model, run: Run, node: cst.BaseExpression, names: Set[str]) -> bool:
    """Whether a value is what one of some operations gives, and low there."""
    for each in model.sources.of(node, SELECTS | CASTS):
        made = model.dtypes.operation(each, run) if isinstance(each, cst.Call) else None
        if made is not None and made[0] in names and run.of(each).low:
            return True
    return False


def are_others_low(run: Run, call: cst.Call, first: cst.BaseExpression) -> bool:
    """Whether a call is given other tensors in low precision than its first operand."""
    return any(run.of(arg.value).low for arg in call.args if arg.value is not first)


def is_somewhere(model: Model) -> bool:
    """Whether the file names low precision at all, or one does that trains what it defines."""
    return model.trainer is not None or any(model.tree.named(word) for word in LOWERING)


def shown(model: Model, run: Run, value: Value) -> list[tuple[cst.CSTNode, str]]:
    """What made a value low: the operation, the region, the calls that lead there."""
    found: list[tuple[cst.CSTNode, str]] = []
    state = run.state(value.why) if value.why is not None else None
    if value.why is not None and value.low:
        found.append((value.why, f"{' or '.join(sorted(value.low))} since here"))
    state = state or run.ambient
    if state.region is not None:
        found.append((state.region, "autocast is on here"))
    found += [(call, "this runs it") for call in run.calls]
    return [(node, text) for node, text in found if model.tree.is_own(node)]


def cast(model: Model, node: cst.BaseExpression, method: str) -> tuple[Edit, ...]:
    """What casts an operand where it stands: ``x.float()``, ``(x @ y).float()``."""
    start, end = model.tree.outer_span(node) if node.lpar else model.tree.span(node)
    if isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)) or node.lpar:
        return (Edit(end, end, f".{method}"),)
    return Edit(start, start, "("), Edit(end, end, f").{method}")


def elsewhere(run: Run) -> str:
    """For a message: why it is so, if the file itself does not show that."""
    if run.ambient.supposed:
        return "; autocast may run it so"
    return f"; {run.ambient.elsewhere} so" if run.ambient.elsewhere else ""
