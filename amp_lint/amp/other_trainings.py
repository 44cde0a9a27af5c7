"""Where another file of the project runs models under CUDA autocast, to train them."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from amp_lint.amp.events import Kind, Recognizer
from amp_lint.amp.gradient_values import is_untracked
from amp_lint.amp.reach import Reach
from amp_lint.flow.values import Values
from amp_lint.syntax.names import Names, dotted
from amp_lint.syntax.tree import Tree
from amp_lint.vocabulary.amp import LOAD_STATE_DICT
from amp_lint.vocabulary.modules import CASTING, KEEPING

_MODEL = re.compile(
    r"(^|_)(model|net|network|module|pipeline|generator)(_?[gd])?(_func|_fn)?\d*$", re.IGNORECASE
)
"""What models are called, those of a generator and a discriminator too."""
_TESTING = re.compile(
    r"^(?!.*train).*(eval|valid|test|infer|predict|sample|generate)", re.IGNORECASE
)


_ASIDE = KEEPING | CASTING | LOAD_STATE_DICT.words
"""Methods of modules that take something and compute nothing."""


@dataclass(frozen=True, slots=True)
class Trainer:
    """A place that runs models under autocast."""

    name: str
    """The path of its file."""
    line: int
    dtypes: frozenset[str] = frozenset()
    """What the region may cast to."""
    outside: frozenset[str] = frozenset()
    """The methods of models that the file calls, and not in a region."""


class Trainings:
    """Looks for calls of a model that is not known here, with autocast on, in code that trains."""

    def __init__(
        self, tree: Tree, names: Names, values: Values, reach: Reach, recognizer: Recognizer
    ) -> None:
        self.tree = tree
        self.names = names
        self.values = values
        self.reach = reach
        self.recognizer = recognizer

    @functools.cached_property
    def under_autocast(self) -> cst.CSTNode | None:
        """The first region for CUDA in which such a model runs, if it may be on."""
        return next(self._regions(), None) if self.trains else None

    @functools.cached_property
    def trains(self) -> bool:
        """Whether the file runs backward."""
        calls = self.tree.nodes(cst.Call)
        return any(self.recognizer.kind(call) is Kind.BACKWARD for call in calls)

    @functools.cached_property
    def outside(self) -> frozenset[str]:
        """The methods of models that the file calls, and none of them in a region for CUDA."""
        found: dict[str, bool] = {}
        for call in self.tree.nodes(cst.Call):
            owner, _, method = (dotted(call.func) or "").rpartition(".")
            if method != "forward" and _MODEL.search(owner.rpartition(".")[2]):
                inside = next(self.reach.running(call), None) is not None
                found[method] = found.get(method, False) or inside
        return frozenset(method for method, inside in found.items() if not inside)

    def _regions(self) -> Iterator[cst.CSTNode]:
        for call in self.tree.nodes(cst.Call):
            if self._is_unknown_model(call) and not self._is_tested(call):
                for chain in self.reach.running(call):
                    yield chain.entered[0].region.node

    def _is_unknown_model(self, call: cst.Call) -> bool:
        name = (dotted(call.func) or "").removesuffix(".forward")
        owner, _, last = name.rpartition(".")
        is_model = _MODEL.search(last) or (
            _MODEL.search(owner.rpartition(".")[2]) and self._computes(call, last)
        )
        if not is_model or self.names.qualified(call.func):
            return False
        return not self.reach.targets(call)

    def _computes(self, call: cst.Call, method: str) -> bool:
        """Whether a method of a model computes with what it is given, as ``model.loss(x)`` does."""
        is_used = not isinstance(self.tree.parent(call), cst.Expr)
        return is_used and bool(call.args) and method not in _ASIDE

    def _is_tested(self, call: cst.Call) -> bool:
        """Whether it runs without gradients."""
        home = self.tree.ancestor(call, cst.FunctionDef)
        if home is not None and _TESTING.search(home.name.value):
            return True
        return is_untracked(self.tree, self.names, call)
