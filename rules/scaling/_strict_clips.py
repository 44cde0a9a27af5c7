"""Clips that raise when a gradient is inf or NaN, reached with gradients from a scaled loss."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import libcst as cst

from amp_lint.amp.events import Event
from amp_lint.model import Model
from amp_lint.vocabulary.meaning import Part

from ._refusals import is_caught, judged


@dataclass(frozen=True, slots=True)
class StrictClip:
    """A clip that ends the run where the scaler would skip the step."""

    call: cst.Call
    argument: cst.Arg
    """``error_if_nonfinite=True``."""
    backward: Event


class StrictClips:
    """Looks for such clips among the cycles of a file."""

    def __init__(self, model: Model) -> None:
        self.tree = model.linked
        self.names = model.names
        self.values = model.values
        self.steps = model.steps

    @functools.cached_property
    def all(self) -> list[StrictClip]:
        """Every such clip once, in source order."""
        found: dict[int, StrictClip] = {}
        for event, backward in judged(self.steps):
            clip = self._strict(event.node, backward)
            if clip is not None:
                found.setdefault(id(event.node), clip)
        return sorted(found.values(), key=lambda clip: self.tree.order(clip.call))

    def _strict(self, call: cst.CSTNode, backward: Event) -> StrictClip | None:
        assert isinstance(call, cst.Call)
        argument = self._argument(call)
        if argument is None or self.values.constants(argument.value) != [True]:
            return None
        return None if is_caught(self.tree, call) else StrictClip(call, argument, backward)

    def _argument(self, call: cst.Call) -> cst.Arg | None:
        """The argument that says whether to raise."""
        meaning = self.steps.recognizer.meaning(call)
        place, name = meaning.place(Part.STRICT) if meaning is not None else (None, None)
        for index, arg in enumerate(call.args):
            if arg.star:
                return None
            if arg.keyword is not None and arg.keyword.value == name:
                return arg
            if arg.keyword is None and index == place:
                return arg
        return None
