"""What the code of one file means, computed once and lazily, shared by all rules.

Parts that follow calls and imports work on the linked tree, which has what the file imports from
other files of the project as well; those that look for places to report or to change, on its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar, cast

import libcst as cst

from amp_lint.amp.casts import Casts
from amp_lint.amp.devices import Devices
from amp_lint.amp.dtype_flow import DtypeFlow
from amp_lint.amp.dtypes import WHATEVER, Ambient
from amp_lint.amp.halves import Halves
from amp_lint.amp.kinds import Kinds
from amp_lint.amp.modules import Modules
from amp_lint.amp.operations import Operations
from amp_lint.amp.other_trainings import Trainer, Trainings
from amp_lint.amp.patterns import Patterns
from amp_lint.amp.reach import Reach
from amp_lint.amp.regions import Regions
from amp_lint.amp.results import Results
from amp_lint.amp.roles import Roles
from amp_lint.amp.scores import Scores
from amp_lint.amp.signs import Bounds, Signs
from amp_lint.amp.sources import Sources
from amp_lint.flow.holders import Holders
from amp_lint.flow.items import Items
from amp_lint.flow.origins import Origins
from amp_lint.flow.program import Program
from amp_lint.flow.reaching import Flow
from amp_lint.flow.values import Values
from amp_lint.syntax.links import Attachments
from amp_lint.syntax.names import Names
from amp_lint.syntax.spans import ParseError
from amp_lint.syntax.tree import Tree
from amp_lint.text.source import Source, SourceError
from amp_lint.vocabulary import written
from amp_lint.vocabulary.amp import DEFAULT_DTYPES
from amp_lint.walk.caches import Caches
from amp_lint.walk.clips import Clips
from amp_lint.walk.mistakes import Mistakes
from amp_lint.walk.step_places import StepPlaces
from amp_lint.walk.steps import Steps
from amp_lint.walk.unscale_places import UnscalePlaces

__all__ = ["Model"]

Part = TypeVar("Part")


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
            ParseError: libcst cannot parse the text.
        """
        self.source = source
        self.target_torch = target_torch
        self._attached = attached or Attachments()
        self.tree = Tree(source.text, self._attached.texts)
        self.linked = self.tree.linked
        self._parts: dict[object, object] = {}

    def part(self, kind: Callable[[Model], Part]) -> Part:
        """What a rule keeps beside itself to ask about the file: made once, as all parts are."""
        if kind not in self._parts:
            self._parts[kind] = kind(self)
        return cast(Part, self._parts[kind])

    def close(self) -> None:
        """Let go of all that is known: parts know one another, and would wait to be collected."""
        parts = (self.tree, self.linked, *vars(self).values(), *self._parts.values())
        for part in (part for part in parts if part is not self.source):
            if hasattr(part, "__dict__") and type(part).__module__.startswith(__package__):
                vars(part).clear()
        vars(self).clear()

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
    def program(self) -> Program:
        """Which call runs which function, and what is repeated."""
        by_name = Program(self.linked, self.names, self.values)
        return Program(self.linked, self.names, self.values, Origins(by_name))

    @functools.cached_property
    def calls_to_others(self) -> frozenset[int]:
        """Where calls of this file start that run functions of other files."""
        own = filter(self.tree.is_own, self.tree.nodes(cst.Call))
        targets = ((call, self.program.target(call)) for call in own)
        return frozenset(
            self.tree.span(call)[0]
            for call, target in targets
            if target is not None and not self.tree.is_own(target)
        )

    @functools.cached_property
    def origins(self) -> Origins:
        """Which object an expression is."""
        return Origins(self.program)

    @functools.cached_property
    def holders(self) -> Holders:
        """Which functions get hold of a local variable."""
        return Holders(self.program)

    @functools.cached_property
    def items(self) -> Items:
        """What is taken out of dicts."""
        return Items(self.program)

    @functools.cached_property
    def flow(self) -> Flow:
        """Which assignments reach a use, and what changes in between."""
        return Flow(self.linked, self.names)

    @functools.cached_property
    def operations(self) -> Operations:
        """Tensor operations and the chains they form."""
        results = Results(self.program, lambda call: self.reach.target(call))
        return Operations(self.tree, self.names, self.values, self.flow, results)

    @functools.cached_property
    def patterns(self) -> Patterns:
        """Expressions that are known to fail, in whatever spelling."""
        return Patterns(self.operations)

    @functools.cached_property
    def bounds(self) -> Bounds:
        """How far from 0 numbers may be."""
        return Bounds(self.operations)

    @functools.cached_property
    def signs(self) -> Signs:
        """What is certainly not above 0."""
        return Signs(self.operations)

    @functools.cached_property
    def casts(self) -> Casts:
        """Products of casts to float32."""
        return Casts(self.tree, self.names, self.values, self.flow, self.origins)

    @functools.cached_property
    def sources(self) -> Sources:
        """What values may be made of."""
        return Sources(self.program, self.operations)

    @functools.cached_property
    def scores(self) -> Scores:
        """Attention that is written out."""
        return Scores(self.sources, self.operations, self.casts)

    @functools.cached_property
    def dtypes(self) -> DtypeFlow:
        """Which value has which dtype where."""
        parts = self.program, self.flow, self.regions, self.reach
        return DtypeFlow(*parts, lambda: self._assumed, self._attached.run)

    @functools.cached_property
    def supposed(self) -> DtypeFlow | None:
        """The same, if autocast casted to float16 where modules run; None if more is known."""
        if self._assumed is not None or self._attached.is_plain:
            return None
        state = Ambient("cuda", frozenset({"float16"}), supposed=True)
        parts = self.program, self.flow, self.regions, self.reach
        return DtypeFlow(*parts, lambda: state, self._attached.run)

    @property
    def trains_plainly(self) -> bool:
        """Whether the file itself trains, and knows of no region: nobody else runs it in one."""
        plain = self.trainings.trains and not self.regions.all
        return plain and not self.trainings.by_framework

    @property
    def _assumed(self) -> Ambient | None:
        """The autocast state of modules that are run by code which does not know them."""
        here = self.trainings.under_autocast
        for region in self.regions.all:
            if region.node is here:
                return replace(self.dtypes.inside(region, WHATEVER), certain=False)
        trainer = None if self.trainings.trains else self.trainer
        if trainer is None or not trainer.dtypes or trainer.models_only:
            return None
        place = f"{trainer.name}:{trainer.line}"
        does = "may run it" if self.is_loaded else "runs it"
        known = Ambient("cuda", trainer.dtypes, certain=False, elsewhere=f"{place} {does}")
        return replace(known, outside=trainer.outside)

    @functools.cached_property
    def modules(self) -> Modules:
        """Modules, and what is done to them before they are trained."""
        parts = self.program, self.linked, self.names, self.values, self.flow
        return Modules(*parts, self.roles.frameworks)

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
        return Roles(self.program, self.origins)

    @functools.cached_property
    def regions(self) -> Regions:
        """Autocast regions."""
        return Regions(self.program)

    @functools.cached_property
    def reach(self) -> Reach:
        """Inside which regions a place may run."""
        return Reach(self.program, self.origins, self.regions)

    @functools.cached_property
    def trainings(self) -> Trainings:
        """Models that are run under autocast, whatever they are."""
        recognizer = self.steps.recognizer
        return Trainings(self.tree, self.names, self.values, self.reach, recognizer)

    @functools.cached_property
    def trainer(self) -> Trainer | None:
        """Where another file may train what this one defines under autocast: the nearest place."""
        return next(self.trainers(), None)

    @property
    def is_loaded(self) -> bool:
        """Whether the trainers are those of programs that may load this file by its name."""
        return self._attached.is_loaded

    def trainers(self, naming: str = "") -> Iterator[Trainer]:
        """All such places, the nearest first, or those in files that have the word ``naming``."""
        word = written.pattern(rf"\b{naming}", naming)
        for name, data in self._attached.trainers:
            found = _training(data) if word.found_in(data) else None
            if found is not None:
                yield replace(found, name=name)

    @functools.cached_property
    def steps(self) -> Steps:
        """The training-step events, path by path."""
        return Steps(self.program, self.roles, self.regions)

    @functools.cached_property
    def clips(self) -> Clips:
        """Gradient clips in the wrong state."""
        return Clips(self.linked, self.values, self.origins, self.roles, self.steps, self.places)

    @functools.cached_property
    def places(self) -> UnscalePlaces:
        """Where gradients would be unscaled."""
        return UnscalePlaces(self.linked, self.steps)

    @functools.cached_property
    def caches(self) -> Caches:
        """Steps after which autocast uses casts of the old weights."""
        return Caches(self.linked, self.regions, self.steps)

    @functools.cached_property
    def mistakes(self) -> Mistakes:
        """Calls of the GradScaler protocol in the wrong state."""
        return Mistakes(self.linked, self.roles, self.steps)

    @functools.cached_property
    def step_places(self) -> StepPlaces:
        """What fixes ask of the steps and updates around a mistake."""
        return StepPlaces(self.linked, self.steps, self.mistakes.rounds)


@functools.lru_cache(maxsize=64)
def _training(data: bytes) -> Trainer | None:
    """Where a file trains models under autocast, or has a framework do so; without its name."""
    try:
        model = Model(Source(data, ""))
        region = model.trainings.under_autocast or model.trainings.of_parts
        regions = (each for each in model.regions.all if each.node is region)
        states = (model.dtypes.inside(each, WHATEVER) for each in regions)
        dtypes = frozenset().union(*(state.dtypes for state in states))
        models_only, place = False, region
        if place is None and (lowering := next(model.roles.frameworks.lowering(), None)):
            place, dtypes, models_only = lowering.call, lowering.dtypes, lowering.prepared_only
        if place is None:
            place, dtypes = model.trainings.by_name, frozenset({DEFAULT_DTYPES["cuda"]})
        if place is None:
            return None
        line, _ = model.source.position(model.tree.span(place)[0])
        return Trainer("", line, dtypes, model.trainings.outside, models_only)
    except (SourceError, ParseError, RecursionError):
        return None
