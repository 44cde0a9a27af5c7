"""Command-line options that a file declares, and where it reads them."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from amp_lint.flow.options import read_from
from amp_lint.flow.values import arguments, literal
from amp_lint.model import Model
from amp_lint.syntax.tree import descendants
from amp_lint.vocabulary import written

_BF16 = re.compile(r"bf16|bfloat16", re.IGNORECASE)
_PLAIN = re.compile(r"bfloat16|float(16|32|64)|half|double")
_DTYPE = re.compile(
    rf"((amp|{written.REGION}|mixed|model|torch|train|compute)_?)?(dtype|precision)"
)


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """One call of ``add_argument`` that adds an option."""

    call: cst.Call
    name: str
    """The attribute under which it is read."""
    offers_bf16: bool
    """Whether it chooses a dtype, and bfloat16 is a choice that it names."""
    is_switch: bool = False
    """Whether it is that by being on."""
    dtypes: bool = False
    """Whether all that it names are attributes of torch, or it is a switch."""


class CommandLineOptions:
    """Reads ``argparse`` declarations."""

    def __init__(self, model: Model) -> None:
        self.tree = model.tree
        self.values = model.values

    @functools.cached_property
    def all(self) -> list[Option]:
        """Every option, in source order."""
        found = (self._option(call) for call in self.tree.nodes(cst.Call))
        return [option for option in found if option is not None]

    def reads(self, option: Option, node: cst.CSTNode) -> bool:
        """Whether an expression reads an option, directly or through a variable."""
        return any(
            isinstance(part, cst.Attribute) and part.attr.value == option.name
            for below in descendants(node)
            if isinstance(below, (cst.Name, cst.Attribute))
            for value in (below, *self.values.alternatives(below))
            for part in descendants(value)
        )

    def _option(self, call: cst.Call) -> Option | None:
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "add_argument":
            return None
        given = arguments(call)
        flags = [str(flag) for flag in map(literal, given.positional) if isinstance(flag, str)]
        if not any(flag.startswith("--") for flag in flags):
            return None
        name = read_from(call)
        switch = literal(given.keywords.get("action")) == "store_true"
        named = [literal(part) for part in _named(given.keywords)]
        plain = bool(named) and all(isinstance(n, str) and _PLAIN.fullmatch(n) for n in named)
        return Option(call, name, _offers_bf16(name, given.keywords), switch, switch or plain)


def _offers_bf16(name: str, keywords: dict[str, cst.BaseExpression]) -> bool:
    if _BF16.search(name):
        return literal(keywords.get("action")) == "store_true"
    if not _DTYPE.fullmatch(name):
        return False
    return any(bool(_BF16.search(part.value)) for part in _named(keywords))


def _named(keywords: dict[str, cst.BaseExpression]) -> Iterator[cst.SimpleString]:
    """The texts that an option may be, as far as it says so."""
    for value in (keywords[word] for word in ("choices", "default") if word in keywords):
        yield from (part for part in descendants(value) if isinstance(part, cst.SimpleString))
