"""Which objects are those of a framework that scales losses and opens regions itself."""

from __future__ import annotations

import libcst as cst

from amp_lint.flow.values import Values
from amp_lint.syntax.names import Names, dotted
from amp_lint.vocabulary.meaning import Meaning
from amp_lint.vocabulary.table import BY_NAME


def is_owner(row: Meaning, node: cst.BaseExpression, names: Names, values: Values) -> bool:
    """Whether an object has the methods of a row: by its origin, or by what it is called."""
    made = (value.func for value in values.alternatives(node) if isinstance(value, cst.Call))
    origins = {name for function in made for name in names.qualified(function)}
    if any(BY_NAME[name].gives is row.owner for name in origins & BY_NAME.keys()):
        return True
    called = (dotted(values.original(node)) or "").rpartition(".")[2].strip("_")
    return bool(called) and called == row.called
