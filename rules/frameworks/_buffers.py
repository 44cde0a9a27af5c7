"""Buffers of frequencies, and what casts them to 16 bits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import libcst as cst

from amp_lint.amp.casts import cast_to_low, low_dtype
from amp_lint.model import Model
from amp_lint.vocabulary.frameworks import FSDP_PRECISION, ROTARY_MODELS
from amp_lint.vocabulary.meaning import Part
from amp_lint.vocabulary.modules import TO_DTYPE

_OFF = {"bfloat16": 5, "float16": 1}
"""By how many rad an angle is off over 4096 positions, measured with a base of 10000."""
_FSDP = "FSDP"
_OF_FSDP = "leave `buffer_dtype` out, so that buffers stay as they are"
_OF_CAST = "make them again after it, in float32: a cast in `forward` is too late"
_OF_COMPLEX = "use `half()` or `bfloat16()`, which leave complex buffers as they are"
_OF_MODEL = re.compile(
    rf"^transformers\..*\b(?:{'|'.join(sorted(ROTARY_MODELS))})"
    r"(?:DecoderLayer|For[A-Z][A-Za-z]{2,40}|Layer|Model|Block)$"
)


class Rounding(NamedTuple):
    """What gives a buffer of frequencies another dtype."""

    node: cst.BaseExpression
    dtype: str
    kept: cst.CSTNode
    """The buffer, or the name of a model that has one."""
    by: str = "this cast"
    is_complex: bool = False
    """Whether the buffer is complex, so that its imaginary part is lost."""

    @property
    def told(self) -> tuple[str, str, str]:
        """What is kept, what is wrong, and what helps."""
        if self.is_complex:
            message = f"{self.by} makes a complex buffer {self.dtype}: its imaginary part is lost"
            return "what is complex is", message, _OF_COMPLEX
        rounds = f"{self.by} rounds buffers to {self.dtype}: rotary angles are off by"
        message = f"{rounds} {_OFF[self.dtype]} rad over 4096 positions"
        return "the frequencies are", message, _OF_FSDP if self.by == _FSDP else _OF_CAST


def by_fsdp(model: Model, call: cst.Call) -> Rounding | None:
    """The dtype that FSDP is told to give buffers, where frequencies are known to be among them."""
    given = model.values.argument(call, *FSDP_PRECISION.place(Part.DTYPE))
    dtype = low_dtype(model.names, model.values, given) if given is not None else None
    kept = _frequencies(model) if dtype is not None else None
    if given is None or dtype is None or kept is None:
        return None
    return Rounding(given, dtype, kept, _FSDP)


def by_casts(model: Model) -> Iterator[Rounding]:
    """The casts of models that keep frequencies, or something complex, in a part of them."""
    kept, others = (
        {id(model.values.enclosing_class(each)): each for each in buffers}
        for buffers in (model.dtypes.frequency_buffers, model.dtypes.complex_buffers)
    )
    for call in model.tree.nodes(cst.Call) if kept or others else ():
        dtype = cast_to_low(model.names, model.values, call)
        if not isinstance(call.func, cst.Attribute) or dtype is None:
            continue
        parts = [id(part) for part in model.origins.parts(call.func.value)]
        # half() and bfloat16() leave complex buffers as they are
        made_real = others if call.func.attr.value in TO_DTYPE else {}
        for buffers in (made_real, kept):
            part = next((buffers[each] for each in parts if each in buffers), None)
            if part is not None:
                yield Rounding(call, dtype, part, is_complex=buffers is made_real)
                break


def _frequencies(model: Model) -> cst.CSTNode | None:
    """What is a buffer of frequencies, or a name of a model that has one."""
    for value in model.dtypes.frequency_buffers:
        return value
    bindings = model.names.every_binding(linked=True)
    return next((b.node for b in bindings if b.qualified and _OF_MODEL.match(b.qualified)), None)
