"""Training steps as closed data: the traces of the model, with the literals of the user's code."""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import libcst as cst

from amp_lint.amp import events as model_events
from amp_lint.amp.events import Kind, mentions_scale, stepped
from amp_lint.amp.regions import Region
from amp_lint.flow.values import arguments, literal
from amp_lint.model import Model
from amp_lint.syntax.names import COMPREHENSIONS, dotted
from amp_lint.verify.compare.lift import Lifter
from amp_lint.verify.compare.marks import is_strict
from amp_lint.verify.compare.units import SCRIPT, name_of, units
from amp_lint.verify.obligations import Autocast, Clip, Construct, Event, Program, Trace
from amp_lint.verify.paths import with_partners
from amp_lint.verify.terms import Const, Global, Input, Term, show
from amp_lint.vocabulary.amp import BY_INVERSE, BY_SCALE, DEFAULT_DTYPES, DEVICE_AUTOCAST, GET_SCALE
from amp_lint.vocabulary.meaning import Part
from amp_lint.vocabulary.purity import DIVIDED, MULTIPLIED
from amp_lint.vocabulary.training import makes_optimizer
from amp_lint.walk.caches import Caches, StaleCast
from amp_lint.walk.clips import clip_limit, is_infinite
from amp_lint.walk.paths import Cycle, last_name
from amp_lint.walk.steps import Steps

MAX_TRACES = 8
"""Paths of one function that are replayed; the shortest that differ."""
_KINDS = frozenset(Kind) - {Kind.SCHEDULE, Kind.LEAVE, Kind.RESET, Kind.OPAQUE}
"""What is replayed."""
_DTYPES = {
    "torch.float16": "float16", "torch.half": "float16", "torch.bfloat16": "bfloat16",
    "torch.float32": "float32", "torch.float": "float32",
}  # fmt: skip

_BOUND = frozenset({"assign", "unpack", "augment"})
_REPEATING = (cst.ClassDef, cst.For, cst.While, cst.CompFor, *COMPREHENSIONS)
"""Where one call may make several objects."""
_PLACE = re.compile(r"@\d+")


class Tracer:
    """Makes programs of the functions of one file."""

    def __init__(
        self,
        lifter: Lifter,
        losses: dict[int, Term],
        alias: dict[Term, Term],
        *,
        whole: bool,
    ) -> None:
        """Prepare.

        Args:
            lifter: of the file.
            losses: by the id of their backward call.
            alias: what losses count as.
            whole: whether all rounds stay in one trace, updates or not.
        """
        self._lifter = lifter
        self._model = lifter.model
        self._losses = losses
        self._alias = alias
        self.shown_losses: dict[tuple[str | None, int], tuple[Term, str]] = {}
        """The losses of the programs, by how and where they are shown, each with its function."""
        model = self._model
        parts = (model.program, model.roles, model.regions)
        self._whole = whole
        self._steps = Steps(*parts, exact=True, whole=whole)
        self._caches = Caches(model.linked, model.regions, model.steps, doubtful=True)

    @functools.cached_property
    def programs(self) -> dict[str, Program]:
        """The training steps of every function in which something happens, by its name."""
        names = {id(node): name for name, node in units(self._model)}
        found: dict[str, Program] = {}
        for root in self._steps.roots:
            program = self._program(root.cycles)
            if program.traces:
                found[names.get(id(root.function), SCRIPT)] = program
        return found

    @functools.cached_property
    def cut(self) -> frozenset[str]:
        """The programs of which paths were dropped, or calls not followed, as there are many."""
        names = {id(node): name for name, node in units(self._model)}
        return frozenset(
            names.get(id(root.function), SCRIPT)
            for root in self._steps.roots
            if root.truncated or any(map(self._is_unfollowed, itertools.chain(*root.cycles)))
        )

    def _is_unfollowed(self, event: model_events.Event) -> bool:
        """Whether it stands for a call of a function of the file, which was not run."""
        if event.kind is not Kind.OPAQUE or not isinstance(event.node, cst.Call):
            return False
        return self._model.program.target(event.node) is not None

    def _program(self, cycles: Sequence[Cycle]) -> Program:
        stepped = {e.optimizer for c in cycles for e in c if e.kind in (Kind.STEP, Kind.UNSCALE)}
        traces = {
            part: None for cycle in cycles for part in self._rounds(self._trace(cycle, stepped))
        }
        nodes = [event for cycle in cycles for event in cycle]
        return Program(
            tuple(trace for trace in traces if trace),
            tuple(sorted(self._scalers(nodes).items())),
            tuple(sorted(self._optimizers(nodes).items())),
        )

    def _rounds(self, trace: Trace) -> Iterator[Trace]:
        """The parts of a trace up to each update that a framework's step is followed by."""
        start = 0
        for end, (step, event) in enumerate(itertools.pairwise(trace), 2):
            by_framework = event.kind is Kind.UPDATE and event.source == step.source
            if by_framework and not self._whole:
                yield trace[start:end]
                start = end
        yield trace[start:]

    # --- events -------------------------------------------------------------------------------

    def _trace(self, cycle: Cycle, stepped: set[str | None]) -> Trace:
        """A cycle as plain data.

        ``model.zero_grad()`` clears the gradients of every optimizer; so does ``p.grad.add_(x)``
        change them.
        """
        cleared = {_key(key) for key in stepped}
        events = (each for event in self._events(cycle) for each in _of_each(event, cleared))
        plain = (
            event
            if event.kind not in (Kind.ZERO_GRAD, Kind.GRADIENT_WRITE) or event.optimizer in cleared
            else replace(event, optimizer=None)
            for event in events
        )
        return tuple(_cleared_once(plain))

    def _events(self, cycle: Cycle) -> Iterator[Event]:
        last = -1
        for event in cycle:
            place = self._model.tree.order(event.node)
            yield from self._made_between(last, place, event)
            if event.kind in _KINDS:
                yield from self._by_framework(event, self._event(event))
            last = place

    def _by_framework(self, event: model_events.Event, plain: Event) -> Iterator[Event]:
        """What a framework that scales does: its scaler scales, and steps and is updated."""
        if event.kind is Kind.UNSCALE and Kind.CLIP in self._does(event):
            if self._scaling_owner(event) is not None:
                yield plain
            clip = self._clip(event)
            yield replace(plain, kind=Kind.CLIP, scaler=None, optimizer=None, clip=clip)
            return
        owner = self._scaling_owner(event) if event.scaler is None else None
        if owner is None:
            yield plain
            return
        yield replace(plain, scaler=owner)
        if event.kind is Kind.STEP:
            yield replace(plain, kind=Kind.UPDATE, scaler=owner, optimizer=None)

    def _does(self, event: model_events.Event) -> tuple[Kind, ...]:
        call = event.node
        meaning = self._model.steps.recognizer.meaning(call) if isinstance(call, cst.Call) else None
        return meaning.does if meaning is not None else ()

    def _scaling_owner(self, event: model_events.Event) -> str | None:
        """The framework's object that an event is by, if it scales, and each batch has a step."""
        call, frameworks = event.node, self._model.roles.frameworks
        if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
            return None
        role = event.framework or self._model.steps.recognizer.framework(call)
        if role is None:
            return None
        owner = call.func.value
        if event.kind is Kind.STEP:
            made = [each.call.func for each in frameworks.preparations(owner)]
            if not made or not isinstance(made[0], cst.Attribute):
                return None
            owner = made[0].value
        scales = frameworks.may_scale(role, owner) and not frameworks.accumulates(owner, role)
        return self._model.tree.source(owner) if scales else None

    def _made_between(self, last: int, place: int, event: model_events.Event) -> Iterator[Event]:
        """The scaler of an event, if a loop makes it anew on the way to here."""
        for made, call in self._remade:
            passes = last < made < place if last < place else (made < place or made > last)
            if passes and event.scaler and last_name(event.scaler) == self._remade[made, call]:
                yield Event(
                    Kind.CONSTRUCT,
                    self._line(call),
                    self._model.tree.source(call),
                    _key(event.scaler),
                )

    @functools.cached_property
    def _remade(self) -> dict[tuple[int, cst.Call], str]:
        """The GradScalers that a training loop makes, by their place, with their names."""
        found: dict[tuple[int, cst.Call], str] = {}
        for call in self._model.roles.scaler_calls:
            loop = self._model.tree.ancestor(call, cst.For, cst.While, cst.FunctionDef)
            holder = self._model.tree.parent(call)
            if not isinstance(holder, cst.Assign) or not isinstance(loop, (cst.For, cst.While)):
                continue
            if self._model.steps.relevance.has_backward(loop.body):
                name = self._model.tree.source(holder.targets[0].target)
                found[self._model.tree.order(call), call] = last_name(name)
        return found

    def _line(self, node: cst.CSTNode) -> int:
        return self._model.source.position(self._model.tree.span(node)[0])[0]

    def _event(self, event: model_events.Event) -> Event:
        is_backward = event.kind is Kind.BACKWARD
        return Event(
            kind=event.kind,
            line=self._line(event.node),
            source=self._model.tree.source(event.node),
            scaler=self._scaler_key(event.scaler),
            optimizer=_key(event.optimizer),
            loss=self._loss(event.node) if is_backward else None,
            forward=self._forward(event) if is_backward else None,
            active=self.autocast(event.region, event.node),
            clip=self._clip(event) if event.kind is Kind.CLIP else None,
            factor=self.factor(event.node) if event.kind is Kind.GRADIENT_WRITE else None,
            scaler_is_none=event.absent,
            scaler_is_on=False if event.idle is not None else event.enabled,
            idle=self._scaler_key(event.idle),
        )

    def _scaler_key(self, scaler: str | None) -> str | None:
        """What a scaler is called: one object that has two names by the first of them."""
        key = _key(scaler)
        return self._first_names.get(key, key) if key is not None else None

    @functools.cached_property
    def _first_names(self) -> dict[str, str]:
        """Scaler of an event -> the first name of the object that it certainly is."""
        known: dict[int, str] = {}
        found: dict[str, str] = {}
        for event in (e for root in self._steps.roots for cycle in root.cycles for e in cycle):
            key = _key(event.scaler)
            if key is not None and key not in found:
                made = self._only_scaler(event.node)
                found[key] = key if made is None else known.setdefault(id(made), key)
        return found

    def _only_scaler(self, node: cst.CSTNode) -> cst.Call | None:
        """The call that makes the scaler of an event, if it makes one object, and that is it."""
        owner = self._scaler_of(node)
        if owner is None or dotted(owner) is None:
            return None
        values = self._model.values.alternatives(owner)
        origins = {each for value in values for each in self._model.origins.of(value)}
        made = [call for call in self._model.roles.scaler_calls if origins == {id(call)}]
        return made[0] if made and self._model.tree.ancestor(made[0], *_REPEATING) is None else None

    def _scaler_of(self, node: cst.CSTNode) -> cst.BaseExpression | None:
        """``s`` of ``s.step(o)``, and of ``s.scale(loss).backward()``."""
        match node:
            case cst.Call(
                func=cst.Attribute(value=cst.Call(func=cst.Attribute(value=owner)) as scale)
            ):
                return owner if self._steps.recognizer.is_scale(scale) else None
            case cst.Call(func=cst.Attribute(value=owner)):
                return owner
        return None

    def _loss(self, node: cst.CSTNode) -> str:
        term = self._losses.get(id(node), Const(None))
        term = self._alias.get(term, term)
        self.shown_losses[show(term), self._line(node)] = term, name_of(self._model, node)
        return show(term)

    def _forward(self, event: model_events.Event) -> Autocast | None:
        """The region in which the loss was computed: where its name was bound, else the active."""
        assert isinstance(event.node, cst.Call)
        function = event.node.func
        owners = [function.value] if isinstance(function, cst.Attribute) else []
        given = [arg.value for arg in event.node.args]
        made = next(filter(None, map(self._made_in, (*owners, *given))), None)
        losses = [arg.value for arg in event.node.args if arg.keyword is None] or owners
        if made is None and any(map(self._is_made_outside, losses[:1])):
            return None
        return made or self.autocast(event.region, event.node)

    def _is_made_outside(self, loss: cst.BaseExpression) -> bool:
        """Whether a loss is a name that is only ever bound where no region is around."""
        name = self._scaled(loss) or loss
        bindings = self._model.names.bindings(name) if isinstance(name, cst.Name) else ()
        return bool(bindings) and all(
            binding.kind in _BOUND
            and not self._model.regions.around(binding.node)
            and self._scaled(binding.value) is None
            for binding in bindings
        )

    def _made_in(self, node: cst.BaseExpression, steps: int = 2) -> Autocast | None:
        """The region in which the values that an expression names were made."""
        model = self._model
        for name in _names_in(model, node):
            for binding in model.names.bindings(name):
                scaled = self._scaled(binding.value)
                if scaled is not None and steps > 0:
                    return self._made_in(scaled, steps - 1) or self._around(scaled)
                around = model.regions.around(binding.node)
                if around and binding.kind in _BOUND:
                    return self.autocast(_of_model(around), binding.node)
                if isinstance(binding.node, cst.For) and steps > 0:
                    return self._made_in(binding.node.iter, steps - 1)
        return None

    def _scaled(self, value: cst.BaseExpression | None) -> cst.BaseExpression | None:
        """What is scaled, of an expression that only does that."""
        scales = isinstance(value, cst.Call) and self._model.steps.recognizer.is_scale(value)
        return value.args[0].value if scales else None  # type: ignore[union-attr]

    def _around(self, node: cst.CSTNode) -> Autocast | None:
        around = self._model.regions.around(node)
        return self.autocast(_of_model(around), node) if around else None

    def autocast(self, region: Region | None, place: cst.CSTNode) -> Autocast | None:
        """A region as plain data, as it is active at a place."""
        if region is None:
            return None
        stale = self._stale(place)
        given = region.enabled is not None or region.starred
        enabled = literal(region.enabled) if given else True
        own = stale is not None and stale.own
        cached = None if own else literal(region.cache_enabled)
        return Autocast(
            device=self._device(region),
            dtype=self._dtype(region),
            enabled=enabled if isinstance(enabled, bool) else None,
            cache_enabled=cached if isinstance(cached, bool) else None,
            entry=self._model.tree.source(stale.region.node) if stale else "",
            lasting=stale is not None and stale.loops,
        )

    def _stale(self, place: cst.CSTNode) -> StaleCast | None:
        """What is wrong with the outermost region around a place that keeps casts for too long."""
        around = {id(region.node) for region in self._model.regions.around(place)}
        return next((each for each in self._caches.stale if id(each.region.node) in around), None)

    def _device(self, region: Region) -> str | None:
        if region.function in DEVICE_AUTOCAST:
            return DEVICE_AUTOCAST[region.function]
        device = literal(region.device)
        return device.split(":")[0] if isinstance(device, str) else None

    def _dtype(self, region: Region) -> str | None:
        if region.starred or not region.function:
            return None
        if region.dtype is None:
            return DEFAULT_DTYPES.get(self._device(region) or "", "")
        names = {
            name
            for value in self._model.values.alternatives(region.dtype)
            for name in self._model.names.qualified(value) or {""}
        }
        return _DTYPES.get(names.pop()) if len(names) == 1 else None

    def _clip(self, event: model_events.Event) -> Clip:
        assert isinstance(event.node, cst.Call)
        meaning = self._model.steps.recognizer.meaning(event.node)
        if meaning is None:  # it is only called as torch calls its own
            name = self._model.tree.source(event.node.func)
            return Clip(function=f"{name}(...)", limit=None, of=_key(event.params) or "")
        call = self._model.steps.recognizer.direct(event.node)
        norm_type = self.number(arguments(call).get(*meaning.place(Part.NORM_TYPE)))
        limit = clip_limit(call) if meaning.keyword(Part.LIMIT) else None
        value = self.number(limit)
        if limit is not None and is_infinite(limit):
            value = math.inf
        return Clip(
            function=meaning.word,
            limit=value,
            times_scale=mentions_scale(call, self._model.values),
            norm_type=norm_type if norm_type is not None else 2.0,
            error_if_nonfinite=is_strict(self._model, event.node) is True,
            of=_key(event.params) or "",
        )

    def number(self, node: cst.BaseExpression | None) -> float | None:
        """The only number that an expression can be; None if there is none, or several."""
        values = [] if node is None else self._model.values.constants(node)
        value = values[0] if len(values) == 1 else None
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return float(value) if number else None  # type: ignore[arg-type]

    def factor(self, node: cst.CSTNode) -> str | float | None:
        """What gradients are multiplied by, if it is a number, the scale or its inverse."""
        divides, value = _written(node)
        if value is None:
            return None
        number = self.number(value)
        if number is not None:
            return 1.0 / number if divides and number else number
        if self._is_scale(value):
            return BY_INVERSE if divides else BY_SCALE
        for origin in self._model.values.alternatives(value):
            inverse = isinstance(origin, cst.BinaryOperation) and isinstance(
                origin.operator, cst.Divide
            )
            if inverse and self._is_scale(origin.right):  # type: ignore[attr-defined]
                return BY_SCALE if divides else BY_INVERSE
        return None

    def _is_scale(self, node: cst.BaseExpression) -> bool:
        values = self._model.values.alternatives(node)
        return any(
            isinstance(value, cst.Call)
            and isinstance(value.func, cst.Attribute)
            and value.func.attr.value in GET_SCALE.words
            for value in values
        )

    # --- how objects were made ----------------------------------------------------------------

    def _scalers(self, events: Iterable[model_events.Event]) -> dict[str, Construct]:
        found: dict[str, Construct] = {}
        for event in events:
            node = event.node
            key = self._scaler_key(event.scaler)
            if key is None or event.kind is Kind.BACKWARD or not isinstance(node, cst.Call):
                continue
            owner = node.func.value if isinstance(node.func, cst.Attribute) else node.func
            origins = self._model.roles.scaler_origins(owner)
            if not origins and len(self._model.roles.scaler_calls) == 1:
                origins = self._model.roles.scaler_calls  # it came in as an argument
            found.setdefault(key, self._construct(origins[0]) if origins else Construct(""))
        return found

    def _optimizers(self, events: Iterable[model_events.Event]) -> dict[str, Construct]:
        found: dict[str, Construct] = {}
        for event in events:
            key, node = _key(event.optimizer), event.node
            if event.kind is not Kind.STEP or key is None or not isinstance(node, cst.Call):
                continue
            owner = node.func.value if isinstance(node.func, cst.Attribute) else None
            given = stepped(node) if event.scaler else owner
            calls = (
                [self.optimizer(v) for v in self._model.values.alternatives(given)] if given else []
            )
            known = [call for call in calls if call is not None]
            found.setdefault(key, known[0] if known else Construct(""))
        return found

    def optimizer(self, node: cst.BaseExpression) -> Construct | None:
        """How an optimizer of torch is made, without its parameters."""
        if not isinstance(node, cst.Call):
            return None
        if len([*filter(makes_optimizer, self._model.names.qualified(node.func))]) != 1:
            return None
        made = self._construct(node)
        return Construct(
            made.name, made.args[1:], tuple(k for k in made.keywords if k[0] != "params")
        )

    def _construct(self, call: cst.Call) -> Construct:
        names = sorted(self._model.names.qualified(call.func))
        args = tuple(
            _closed(self._lifter.term(arg.value, {})) for arg in call.args if not arg.keyword
        )
        keywords = tuple(
            sorted(
                (
                    (arg.keyword.value, _closed(self._lifter.term(arg.value, {})))
                    for arg in call.args
                    if arg.keyword
                ),
                key=lambda item: item[0],
            )
        )
        return Construct(names[0] if names else "", args, keywords)


def _of_model(around: Sequence[Region]) -> Region:
    """The region of a forward pass; an island of float32 in it is there for the loss."""
    island = len(around) > 1 and literal(around[0].enabled) is False
    return around[1] if island else around[0]


def _closed(term: Term) -> Term:
    return term if isinstance(term, (Const, Global, Input)) else Input(show(term))


def _key(key: str | None) -> str | None:
    """A key without the places of calls, which move when a text changes."""
    return None if key is None else _PLACE.sub("", key)


def _cleared_once(events: Iterable[Event]) -> Iterator[Event]:
    """Events without what clears gradients that were cleared just before."""
    last: Event | None = None
    for event in events:
        again = last is not None and event.kind is last.kind is Kind.ZERO_GRAD
        if not again or last is None or event.optimizer != last.optimizer:
            yield event
        last = event


def _of_each(event: Event, optimizers: Iterable[str | None]) -> Iterator[Event]:
    """An event for each of the optimizers, if it is for all."""
    known = sorted(key for key in optimizers if key is not None and key != model_events.EVERY)
    if event.optimizer != model_events.EVERY:
        yield event
    else:
        yield from (replace(event, optimizer=key) for key in known)


def _names_in(model: Model, node: cst.BaseExpression) -> Iterator[cst.Name]:
    if isinstance(node, cst.Name):
        yield node
    else:
        for part in model.steps.relevance.expressions(node):
            yield from _names_in(model, part)


def _written(node: cst.CSTNode) -> tuple[bool, cst.BaseExpression | None]:
    """Whether gradients are divided, and by what they are multiplied or divided."""
    if isinstance(node, cst.AugAssign):
        if isinstance(node.operator, (cst.DivideAssign, cst.MultiplyAssign)):
            return isinstance(node.operator, cst.DivideAssign), node.value
    elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.args:
        name = node.func.attr.value
        if name in (MULTIPLIED, DIVIDED):
            return name == DIVIDED, node.args[0].value
    return False, None


def changed(before: Program, after: Program) -> tuple[Program, Program] | None:
    """Both programs cut down to the paths that differ; None if they do the same.

    Each keeps the path besides that one of the other's belongs to: what was lost or gained is held
    against that. Where there is none, a side on which nothing differs keeps all of its paths.
    """
    before, after = _without_ends(before, after), _without_ends(after, before)
    old, new = _by_content(before.traces), _by_content(after.traces)
    same = old.keys() == new.keys()
    if same and _objects(before) == _objects(after):
        return None
    lost = _some([old[key] for key in old if key not in new])
    gained = _some([new[key] for key in new if key not in old])
    kept = with_partners(lost, gained, [*old.values()]) or _some(old.values())
    becomes = with_partners(gained, lost, [*new.values()]) or _some(new.values())
    return replace(before, traces=kept), replace(after, traces=becomes)


def _without_ends(program: Program, other: Program) -> Program:
    """A program without what only clears gradients, if each path of the other one steps."""
    if not all(any(e.kind is Kind.STEP for e in trace) for trace in other.traces):
        return program
    kept = [t for t in program.traces if any(e.kind is not Kind.ZERO_GRAD for e in t)]
    return replace(program, traces=tuple(kept)) if kept else program


def are_many(before: Program, after: Program) -> bool:
    """Whether more paths differ than are judged."""
    old, new = _by_content(before.traces).keys(), _by_content(after.traces).keys()
    return max(len(old - new), len(new - old)) > MAX_TRACES


def splits(before: Program, after: Program) -> bool:
    """Whether the new program has all the paths of the old one, and another."""
    old, new = _by_content(before.traces), _by_content(after.traces)
    return bool(old) and old.keys() < new.keys()


def kept(before: Program, after: Program) -> tuple[Trace, ...]:
    """The paths that both programs have, of those that clip where a new one does.

    What is put right on the new path may be as wrong on these as it was.
    """
    old, new = _by_content(before.traces), _by_content(after.traces)
    asked = {place for key in new if key not in old for place in _asked(new[key])}
    same = (new[key] for key in new if key in old)
    return _some(trace for trace in same if not asked.isdisjoint(_asked(trace)))


def _asked(trace: Trace) -> set[tuple[int, str]]:
    """Where a path clips or reads gradients."""
    return {(event.line, event.source) for event in trace if event.kind in _ASKING}


_ASKING = (Kind.CLIP, Kind.GRADIENT_READ)


def _objects(program: Program) -> tuple[object, ...]:
    """What besides the traces decides about a step; scalers are compared where they are made."""
    switches = [(key, dict(made.keywords).get("enabled")) for key, made in program.scalers]
    return switches, program.optimizers, program.half


def _some(traces: Iterable[Trace]) -> tuple[Trace, ...]:
    return tuple(sorted(traces, key=len)[:MAX_TRACES])


def _by_content(traces: Iterable[Trace]) -> dict[Trace, Trace]:
    found: dict[Trace, Trace] = {}
    for trace in traces:
        found.setdefault(tuple(replace(e, line=0, source="") for e in trace), trace)
    return found
