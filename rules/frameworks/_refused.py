"""Precisions that the constructor of a framework's object refuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from amp_lint.flow.attempts import is_attempt
from amp_lint.flow.options import read_from
from amp_lint.flow.parsed import Parsed
from amp_lint.flow.values import arguments, literal
from amp_lint.model import Model
from amp_lint.syntax.tree import descendants
from amp_lint.vocabulary.frameworks import ACCEPTED
from amp_lint.vocabulary.meaning import Part
from amp_lint.vocabulary.table import BY_NAME


@dataclass(frozen=True, slots=True, eq=False)
class Refused:
    """A word that is no precision, and where it is handed on."""

    node: cst.CSTNode
    """Where the word is written."""
    word: object
    given: cst.BaseExpression
    maker: str
    """The class that refuses it."""
    accepted: list[str]


def refused(model: Model) -> Iterator[Refused]:
    """What may be given for a precision, written out or offered by a command line, and is none."""
    for call in model.tree.nodes(cst.Call):
        for row in (BY_NAME.get(name) for name in model.names.qualified(call.func)):
            accepted = ACCEPTED.get(row.gives) if row is not None and row.gives else None
            if row is None or accepted is None or is_attempt(model.tree, call):
                continue
            given = model.values.argument(call, *row.place(Part.PRECISION))
            words = sorted(word for word in accepted if isinstance(word, str))
            if given is None:
                continue
            for node, word in _words(model, given):
                if word not in accepted and not _is_asked_for(model, word):
                    yield Refused(node, word, given, row.word, words)


def _words(model: Model, given: cst.BaseExpression) -> Iterator[tuple[cst.CSTNode, object]]:
    """The constants that an argument may be, and where each is written."""
    for value in model.values.alternatives(given):
        if (word := literal(value)) is not ...:
            yield value, word
    offered = Parsed(model.program, model.origins).words(given)
    for call in model.tree.nodes(cst.Call) if offered else ():
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "add_argument":
            assert isinstance(given, cst.Attribute)
            if read_from(call) == given.attr.value:
                choices = arguments(call).keywords["choices"]
                texts = (t for t in descendants(choices) if isinstance(t, cst.SimpleString))
                yield from ((text, literal(text)) for text in texts)


def _is_asked_for(model: Model, word: object) -> bool:
    """Whether something is compared with a word, or replaced by it: it may not get through."""
    return any(
        literal(part) == word
        for test in (*model.tree.nodes(cst.Comparison), *model.tree.nodes(cst.MatchCase))
        for part in descendants(test)
        if isinstance(part, cst.SimpleString)
    )
