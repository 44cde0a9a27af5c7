"""AMP505: frequencies of rotary embeddings that FSDP, or a cast of a model, rounds."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.edit import edits
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Fix, Severity
from amp_lint.vocabulary import written
from amp_lint.vocabulary.frameworks import FSDP_PRECISION, ROTARY_MODELS
from amp_lint.vocabulary.meaning import Part
from amp_lint.vocabulary.operations import CASTS, DTYPES

if TYPE_CHECKING:
    from amp_lint.model import Model

_MESSAGE = "{} rounds buffers to {}: rotary angles are off by {} rad at position 4096"
_HELP = "leave `buffer_dtype` out, so that buffers stay as they are"
_OF_CAST = "make them again after it, in float32: a cast in `forward` is too late"
_KEPT = "the frequencies are kept here"
_OFF = {"bfloat16": 5, "float16": 1}
"""Dtype -> by how much, measured with a base of 10000."""
_WORD = "MixedPrecision"
_OF_MODEL = re.compile(
    rf"^transformers\..*\b(?:{'|'.join(sorted(ROTARY_MODELS))})"
    r"(?:DecoderLayer|For[A-Z][A-Za-z]{2,40}|Layer|Model|Block)$"
)


_CAST = r"\.(?:half|bfloat16)\(\s?\)|\.(?:to|type)\([^()]{0,60}(?:half|float16|dtype)"
"""A cast of something that may be a model."""
_MOST_PARTS = 50
"""Classes that one is made of, one within the other."""


class RoundedBuffers(Rule):
    """``MixedPrecision(buffer_dtype=torch.bfloat16)`` where a model keeps frequencies."""

    code = "AMP505"
    name = "rounded-buffers"
    severity = Severity.WARNING
    preview = True
    fixes = (Applicability.SUGGEST,)
    requires = (
        frozenset({_WORD, "half", "bfloat16", "float16", "dtype"}),
        frozenset({_WORD, "register_buffer"}),
    )
    reads_models = True
    called_for = written.look({_WORD}, r"\b", r"\(") | written.pattern(_CAST, "(")
    calls = frozenset(FSDP_PRECISION.names)

    def visit_call(self, call: cst.Call, name: str, model: Model) -> Iterator[Diagnostic]:
        """Report a dtype of 16 bits for buffers, where frequencies are among them."""
        given = model.values.argument(call, *FSDP_PRECISION.place(Part.DTYPE))
        dtype = _low(model, given) if given is not None else None
        kept = _frequencies(model) if dtype is not None else None
        if given is None or dtype is None or kept is None:
            return
        message = _MESSAGE.format("FSDP", dtype, _OFF[dtype])
        related = _related(model, kept)
        yield self.report(model, given, message, related, _fix(model, given), help=_HELP)

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report a cast of a model that keeps frequencies in a part of it."""
        kept = model.dtypes.locating_buffers
        owners = {id(model.values.enclosing_class(each)): each for each in kept}
        for call in model.tree.nodes(cst.Call) if owners else ():
            dtype = _cast_to(model, call)
            part = _part(model, call, owners) if dtype is not None else None
            if dtype is not None and part is not None:
                message = _MESSAGE.format("this cast", dtype, _OFF[dtype])
                yield self.report(model, call, message, _related(model, part), help=_OF_CAST)


def _related(model: Model, kept: cst.CSTNode) -> list[tuple[cst.CSTNode, str]]:
    return [(kept, _KEPT)] if model.tree.is_own(kept) else []


def _cast_to(model: Model, call: cst.Call) -> str | None:
    """The dtype of 16 bits to which a method casts what it is called on."""
    method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    if method in ("to", "type"):
        return next((dtype for arg in call.args if (dtype := _low(model, arg.value))), None)
    dtype = CASTS.get(method) if not call.args else None
    return dtype if dtype in _OFF else None


def _part(
    model: Model, call: cst.Call, owners: dict[int, cst.BaseExpression]
) -> cst.BaseExpression | None:
    """The buffer of frequencies in what a method is called on, as far as its classes are known."""
    assert isinstance(call.func, cst.Attribute)
    classes = [*model.origins.classes(call.func.value)]
    for each in itertools.islice(iter(classes), _MOST_PARTS):  # grows while it is read
        if id(each) in owners:
            return owners[id(each)]
        made = (model.names.definition(inner.func) for inner in model.linked.below(each, cst.Call))
        found = (*made, *model.values.lineage(each)[1:])
        classes += [p for p in found if isinstance(p, cst.ClassDef) and p not in classes]
    return None


def _low(model: Model, given: cst.BaseExpression) -> str | None:
    """The dtype of 16 bits that an expression is, or may be."""
    values = model.values.alternatives(given)
    named = (name for value in values for name in model.names.qualified(value))
    return next((DTYPES[name] for name in named if DTYPES.get(name) in _OFF), None)


def _frequencies(model: Model) -> cst.CSTNode | None:
    """What is a buffer of frequencies, or a name of a model that has one."""
    for value in model.dtypes.locating_buffers:
        return value
    bindings = model.names.every_binding(linked=True)
    return next((b.node for b in bindings if b.qualified and _OF_MODEL.match(b.qualified)), None)


def _fix(model: Model, given: cst.BaseExpression) -> Fix | None:
    """``buffer_dtype=torch.float32``, where the dtype stands in the call."""
    wide = model.names.spelling_of(given, "torch.float32")
    if wide is None or not isinstance(given, cst.Attribute):
        return None
    changes = (edits.replace_node(model.tree, given, wide),)
    return Fix("Keep buffers in float32", changes, Applicability.SUGGEST)
