"""What the code of one file means, computed once and lazily, shared by all rules.

Parts that follow calls and imports work on the linked tree, which has what the file imports from
other files of the project as well; those that look for places to report or to change, on its own.
"""

from __future__ import annotations

import functools

import libcst as cst

from amp_lint.model.caches import Caches
from amp_lint.model.casts import Casts
from amp_lint.model.checkpoints import Checkpoints
from amp_lint.model.choices import Choices
from amp_lint.model.clips import Clips
from amp_lint.model.devices import Devices
from amp_lint.model.flow import Flow
from amp_lint.model.halves import Halves
from amp_lint.model.instances import Instances
from amp_lint.model.kinds import Kinds
from amp_lint.model.lifetimes import Lifetimes
from amp_lint.model.links import Attachments
from amp_lint.model.mistakes import Mistakes
from amp_lint.model.modules import Modules
from amp_lint.model.names import Names
from amp_lint.model.operations import Operations
from amp_lint.model.options import Options
from amp_lint.model.places import Places
from amp_lint.model.precision import Precision
from amp_lint.model.reach import Reach
from amp_lint.model.reads import Reads
from amp_lint.model.regions import Regions
from amp_lint.model.roles import Roles
from amp_lint.model.scaler_state import ScalerState
from amp_lint.model.steps import Steps
from amp_lint.model.strict_clips import StrictClips
from amp_lint.model.trainers import Trainer, Trainings
from amp_lint.model.unscaled import Unscaled
from amp_lint.model.values import Values
from amp_lint.source import Source, SourceError
from amp_lint.tree import LossyParseError, Tree

__all__ = ["Model"]


class Model:
    """One parsed file. Every part is computed when a rule first asks for it."""

    def __init__(
        self,
        source: Source,
        target_torch: tuple[int, int] | None = None,
        attached: Attachments | None = None,
    ) -> None:
        """Parse ``source``; ``target_torch`` is the oldest torch the code must run on.

        ``attached`` is what it imports from other files.

        Raises:
            libcst.ParserSyntaxError: libcst cannot parse the text.
        """
        self.source = source
        self.target_torch = target_torch
        self._attached = attached or Attachments()
        self.tree = Tree(source.text, self._attached.texts)
        self.linked = self.tree.linked

    @functools.cached_property
    def names(self) -> Names:
        """Scopes, bindings, qualified names."""
        attached = self._attached
        return Names(self.linked, links=attached.table, exported=attached.exported)

    @functools.cached_property
    def values(self) -> Values:
        """Which expressions a value may come from."""
        return Values(self.linked, self.names)

    @functools.cached_property
    def flow(self) -> Flow:
        """Which assignments reach a use, and what changes in between."""
        return Flow(self.linked, self.names)

    @functools.cached_property
    def operations(self) -> Operations:
        """Tensor operations and the chains they form."""
        return Operations(self.tree, self.names, self.values, self.flow)

    @functools.cached_property
    def options(self) -> Options:
        """Command-line options."""
        return Options(self.tree, self.values)

    @functools.cached_property
    def casts(self) -> Casts:
        """Products of casts to float32."""
        return Casts(self.tree, self.names, self.flow)

    @functools.cached_property
    def choices(self) -> Choices:
        """Elements that were picked because they are likely."""
        return Choices(self.flow)

    @functools.cached_property
    def modules(self) -> Modules:
        """Modules, and what is done to them before they are trained."""
        return Modules(self.tree, self.names, self.values, self.flow)

    @functools.cached_property
    def halves(self) -> Halves:
        """What shows that a file trains in float16."""
        return Halves(self.tree, self.names, self.values, self.roles, self.regions, self.modules)

    @functools.cached_property
    def kinds(self) -> Kinds:
        """What kind of object an expression certainly is."""
        return Kinds(self.names, self.values)

    @functools.cached_property
    def devices(self) -> Devices:
        """The device types that the file names."""
        return Devices(self.tree, self.names)

    @functools.cached_property
    def roles(self) -> Roles:
        """Which expressions are GradScalers and optimizers."""
        return Roles(self.linked, self.names, self.values)

    @functools.cached_property
    def scaler_state(self) -> ScalerState:
        """Uses of what a scaler keeps to itself."""
        return ScalerState(self.tree, self.names, self.values, self.roles)

    @functools.cached_property
    def regions(self) -> Regions:
        """Autocast regions."""
        return Regions(self.linked, self.names, self.values)

    @functools.cached_property
    def reach(self) -> Reach:
        """Inside which regions a place may run."""
        recognizer = self.steps.recognizer
        return Reach(self.linked, self.names, self.values, self.regions, recognizer)

    @functools.cached_property
    def trainings(self) -> Trainings:
        """Models that are run under autocast, whatever they are."""
        recognizer = self.steps.recognizer
        return Trainings(self.tree, self.names, self.values, self.reach, recognizer)

    @functools.cached_property
    def trainer(self) -> Trainer | None:
        """Where another file may train what this one defines under autocast: the nearest place."""
        places = ((name, _training_line(data)) for name, data in self._attached.trainers)
        return next((Trainer(name, line) for name, line in places if line is not None), None)

    @functools.cached_property
    def instances(self) -> Instances:
        """Autocast objects."""
        return Instances(self.linked, self.names, self.values, self.regions, self.reach)

    @functools.cached_property
    def steps(self) -> Steps:
        """The training-step events, path by path."""
        return Steps(self.linked, self.names, self.values, self.roles, self.regions)

    @functools.cached_property
    def lifetimes(self) -> Lifetimes:
        """Scalers that are made again and again."""
        return Lifetimes(self.linked, self.roles, self.steps)

    @functools.cached_property
    def clips(self) -> Clips:
        """Gradient clips in the wrong state."""
        return Clips(self.linked, self.values, self.roles, self.steps, self.places)

    @functools.cached_property
    def places(self) -> Places:
        """Where gradients would be unscaled."""
        return Places(self.linked, self.steps)

    @functools.cached_property
    def reads(self) -> Reads:
        """Looks at scaled gradients."""
        return Reads(self.linked, self.names, self.values, self.steps, self.places)

    @functools.cached_property
    def caches(self) -> Caches:
        """Steps after which autocast uses casts of the old weights."""
        return Caches(self.linked, self.regions, self.steps)

    @functools.cached_property
    def mistakes(self) -> Mistakes:
        """Calls of the GradScaler protocol in the wrong state."""
        return Mistakes(self.linked, self.roles, self.steps)

    @functools.cached_property
    def strict_clips(self) -> StrictClips:
        """Clips that raise where a scaler would skip the step."""
        return StrictClips(self.linked, self.names, self.values, self.steps)

    @functools.cached_property
    def checkpoints(self) -> Checkpoints:
        """Checkpoints without the state of the scaler."""
        return Checkpoints(self.tree, self.names, self.values, self.roles, self.steps)

    @functools.cached_property
    def unscaled(self) -> Unscaled:
        """Float16 training steps without a scaler."""
        return Unscaled(self.linked, self.names, self.values, self.flow, self.regions, self.steps)

    @functools.cached_property
    def precision(self) -> Precision:
        """Which settings enable a scaler, and which make a region bf16."""
        return Precision(self.linked, self.names, self.values, self.roles, self.regions, self.steps)


@functools.lru_cache(maxsize=64)
def _training_line(data: bytes) -> int | None:
    """The line on which a file begins to train under autocast, if it does."""
    try:
        model = Model(Source(data, ""))
        region = model.trainings.under_autocast
        return None if region is None else model.source.position(model.tree.span(region)[0])[0]
    except (SourceError, cst.ParserSyntaxError, LossyParseError, RecursionError):
        return None
