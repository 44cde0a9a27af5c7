"""Where autocast goes on using weights that an optimizer has changed since.

Autocast keeps the low-precision copies of weights that it makes, until the outermost region is
left. A step inside the region changes the weights, not the copies, so every later forward in the
same region computes with the old ones.

Whether copies are kept is decided where a context is made: by its ``cache_enabled``, or else by the
region in which that happens. So ``cache_enabled=False`` outside holds for the regions that are made
inside, but not for a decorator or a context that was made before.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import libcst as cst

from amp_lint.amp.events import Kind
from amp_lint.amp.regions import Entered, Region, Regions
from amp_lint.flow.branches import contradict, excludes
from amp_lint.flow.values import arguments, literal
from amp_lint.syntax.tree import Tree
from amp_lint.walk.steps import Steps


@dataclass(frozen=True, slots=True, eq=False)
class StaleCast:
    """A step inside a region in which another forward follows."""

    step: cst.Call
    region: Region
    forward: cst.CSTNode
    """The loop that comes round to another forward, or the backward that shows one."""
    inner: tuple[Region, ...] = ()
    """Regions inside that one around the same step, which keep casts as well."""
    own: tuple[Region, ...] = ()
    """Regions that may be entered inside, and keep casts whatever those around them say."""

    @property
    def loops(self) -> bool:
        """Whether it is a loop inside the region that trains."""
        return isinstance(self.forward, (cst.For, cst.While))


class Caches:
    """Looks for steps inside the regions of a file."""

    def __init__(
        self, tree: Tree, regions: Regions, steps: Steps, *, doubtful: bool = False
    ) -> None:
        """Prepare; ``doubtful`` asks for what may be so, too."""
        self.tree = tree
        self.regions = regions
        self.steps = steps
        self._doubtful = doubtful

    @functools.cached_property
    def stale(self) -> list[StaleCast]:
        """Every such step once, in source order, with the outermost region around it."""
        found: dict[int, StaleCast] = {}
        for region, body in self._bodies():
            for stale in self._in(region, body):
                outer = found.setdefault(id(stale.step), stale)
                if outer is not stale:
                    found[id(stale.step)] = replace(outer, inner=(*outer.inner, region))
        return sorted(found.values(), key=lambda stale: self.tree.order(stale.step))

    def _bodies(self) -> Iterator[tuple[Region, cst.BaseSuite]]:
        """The regions that keep casts, outermost first, with what runs in them."""
        for entered in sorted(self.regions.entries, key=lambda e: self.tree.order(e.context)):
            if self._keeps(entered.region, entered.holder.body):
                yield entered.region, entered.holder.body

    def _keeps(self, region: Region, body: cst.BaseSuite) -> bool:
        """Whether casts made inside are kept; in a disabled region those of regions inside."""
        if not region.function:
            return False
        off = literal(region.cache_enabled) is False
        if off or region.never_enabled:
            own = self._own(body)
            if any(self._doubtful or self._is_entered_below(body, each) for each in own):
                return True
        return not off and (not region.never_enabled or self._enables(body))

    def _enables(self, body: cst.BaseSuite) -> bool:
        """Whether a region that may be on is made in a body."""
        return any(
            self.tree.contains(body, other.node) and not other.never_enabled
            for other in self.regions.all
        )

    def _own(self, body: cst.BaseSuite) -> list[Entered]:
        """What may be entered inside a body, and keeps casts whatever is around it."""
        home = self._home(body)
        return [
            each
            for each in self._stubborn
            if self.tree.contains(body, each.holder) or self._home(each.holder.body) is not home
        ]

    @functools.cached_property
    def _stubborn(self) -> list[Entered]:
        """The regions that are made elsewhere than where they are entered, or say so themselves."""
        return [each for each in self.regions.entries if self._is_stubborn(each)]

    def _is_stubborn(self, entered: Entered) -> bool:
        region = entered.region
        if region.never_enabled or literal(region.cache_enabled) is False or not region.function:
            return False
        made_here = isinstance(entered.holder, cst.With) and entered.context is region.node
        return not made_here or region.may_say_cache

    def _is_entered_below(self, body: cst.BaseSuite, entered: Entered) -> bool:
        """Whether a region is certainly entered: there, or in a function that is called there."""
        if isinstance(entered.holder, cst.With) and self.tree.contains(body, entered.holder):
            return True
        called = entered.holder
        if not isinstance(called, cst.FunctionDef):
            return False
        calls = self.tree.below(body, cst.Call)
        return any(self.steps.recognizer.values.function(call.func) is called for call in calls)

    def _in(self, region: Region, body: cst.BaseSuite) -> Iterator[StaleCast]:
        steps = [s for s in self._calls(Kind.STEP, body) if not self._optimizes_tensors(s)]
        steps = [step for step in steps if not self._is_off_at(region, body, step)]
        backwards = self._calls(Kind.BACKWARD, body) if steps else []
        backwards = [each for each in backwards if not self._is_off_at(region, body, each)]
        for step in steps:
            loop = self._training_loop(step, body)
            after = bisect.bisect_left(backwards, self.tree.order(step), key=self.tree.order)
            rest = (backwards[index] for index in range(after, len(backwards)))
            followers = (backward for backward in rest if self._follows(step, backward))
            later = loop or next(followers, None)
            if later is not None:
                own = tuple(entered.region for entered in self._own(body))
                yield StaleCast(step, region, later, own=own)

    def _is_off_at(self, region: Region, body: cst.BaseSuite, place: cst.Call) -> bool:
        """Whether a test that decides about a region excludes that it is on at a place in it.

        One that is off keeps the casts of those in it.
        """
        home, switch = self._home(place), region.enabled
        if switch is not None and self._home(switch) is home and not self._enables(body):
            return excludes(self.tree, place, switch)
        made = region.choices or (region.node,)
        return all(self._home(each) is home and contradict(self.tree, each, place) for each in made)

    def _calls(self, kind: Kind, body: cst.BaseSuite) -> list[cst.Call]:
        """The calls of a kind in a body, not in functions defined there, in source order."""
        home = self._home(body)
        calls = self.tree.below(body, cst.Call)
        found = (call for call in calls if self.steps.recognizer.kind(call) is kind)
        return [call for call in found if self._home(call) is home]

    def _optimizes_tensors(self, step: cst.Call) -> bool:
        """Whether the optimizer got tensors by name: an image or a latent, which nothing caches.

        Only weights that a layer casts are kept, and those come from ``parameters()``.
        """
        if not isinstance(step.func, cst.Attribute):
            return False
        values = self.steps.recognizer.values
        made = [v for v in values.alternatives(step.func.value) if isinstance(v, cst.Call)]
        given = [arguments(call).get(0, "params") for call in made]
        return bool(given) and all(
            isinstance(params, cst.List)
            and all(isinstance(part.value, (cst.Name, cst.Attribute)) for part in params.elements)
            for params in given
        )

    def _training_loop(self, step: cst.Call, body: cst.BaseSuite) -> cst.CSTNode | None:
        """The loop inside the region that runs backward and this step."""
        for holder in self.tree.ancestors(step):
            if holder is body:
                return None
            loops = isinstance(holder, (cst.For, cst.While))
            if loops and self.steps.relevance.has_backward(holder):
                return holder
        return None

    def _follows(self, step: cst.Call, backward: cst.Call) -> bool:
        """Whether a backward comes after a step, and not in another arm of the same ``if``."""
        for holder in self.tree.ancestors(step):
            if self.tree.contains(holder, backward):
                arms = isinstance(holder, (cst.If, cst.Try, cst.Match))
                return not arms
            if isinstance(holder, cst.FunctionDef):
                return False
        return False

    def _home(self, node: cst.CSTNode) -> cst.CSTNode | None:
        return self.tree.ancestor(node, cst.FunctionDef, cst.Lambda)
