"""Which obligation answers for each place at which two texts differ without AMP."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import libcst as cst

from amp_lint.amp.events import Kind, is_made_from_scale
from amp_lint.amp.gradient_values import is_gradient
from amp_lint.flow.values import arguments, literal
from amp_lint.syntax.tree import descendants
from amp_lint.verify.compare.align import Alignment, Differing, alike
from amp_lint.verify.compare.casts import Casts
from amp_lint.verify.compare.difference import NotComparableError, differences
from amp_lint.verify.compare.effect_free import is_opaque
from amp_lint.verify.compare.erase import Eraser
from amp_lint.verify.compare.imports import is_tried, keeps_names
from amp_lint.verify.compare.marks import about, leftover
from amp_lint.verify.compare.plain import BLOCK, Plain
from amp_lint.verify.compare.side import Side
from amp_lint.verify.compare.units import name_of
from amp_lint.verify.obligations import Cast, Covered, Expression, Place, Program, Step
from amp_lint.verify.terms import Term, show
from amp_lint.vocabulary.amp import SHARDED
from amp_lint.vocabulary.meaning import Meaning, Part
from amp_lint.vocabulary.operations import DTYPES
from amp_lint.vocabulary.written import reads_scale

_SETTING = (cst.Assign, cst.AugAssign, cst.AnnAssign, cst.Del)
_ABOUT = (Kind.STEP, Kind.ZERO_GRAD)
_NO_EVENT = (None, Kind.OPAQUE, Kind.GRADIENT_READ, Kind.GRADIENT_REPAIR, Kind.SCHEDULE)
"""Calls that no trace replays."""
_CAST = "cast"
_LENGTH = 80
"""Characters of code in a report."""
_Position = tuple[set[int], list[object]]
_Placed = tuple[int, bytes]
"""Where a piece of code stands, and its digest."""
_Around = tuple[Counter[bytes], Counter[bytes]]
_Calls = Iterator[tuple[tuple[str, bytes], cst.Call]]
"""Calls, and what they are in both texts: their function and what they say."""


class Cover:
    """Says who answers for a place: an expression, a training step, or nobody."""

    def __init__(
        self,
        before: Eraser,
        after: Eraser,
        found: Alignment,
        expressions: Sequence[Expression],
        steps: Sequence[Step],
    ) -> None:
        self._before, self._after, self._found = before, after, found
        self._casts = Casts(before, after)
        self._pairs = {(each.before, each.after) for each in expressions}
        self._old = _Events(before, [step.before for step in steps])
        self._new = _Events(after, [step.after for step in steps])

    @functools.cached_property
    def all(self) -> tuple[Covered, ...]:
        """Every place with its owner."""
        return tuple(map(self._covered, self._found.places))

    def _covered(self, place: Differing) -> Covered:
        owner = next((name for name, owns in _OWNERS if owns(self, place)), "")
        return Covered(self._place(place), *self._texts(place), owner)

    def _place(self, place: Differing) -> Place:
        around = place.around[0] if place.around else (None, None)
        old = around[0] if place.before is None else place.before
        new = around[1] if place.after is None else place.after
        line = 0 if old is None else self._before.side.line(old.node)
        other = 0 if new is None else self._after.side.line(new.node)
        known = (self._before, old) if old is not None else (self._after, new)
        eraser, node = known
        assert node is not None
        return Place(line, other, name_of(eraser.model, node.node))

    def _texts(self, place: Differing) -> tuple[str, str]:
        sides = (self._before, place.before), (self._after, place.after)
        before, after = (_shown(eraser.side, each) for eraser, each in sides)
        return before, after

    # --- expressions --------------------------------------------------------------------------

    def is_expression(self, place: Differing) -> bool:
        """Whether what differs is part of expressions that are shown to be equal."""
        if place.before is None or place.after is None:
            return False
        for old, new in ((place.before, place.after), *place.around):
            one, other = self._term(self._before, old), self._term(self._after, new)
            if one is None or other is None:
                continue
            if one == other:
                return False  # terms do not tell the difference
            if self._are_shown(one, other):
                return _done(self._before, old) == _done(self._after, new)
        return False

    def _are_shown(self, one: Term, other: Term) -> bool:
        """Whether all that differs between two terms is shown."""
        try:
            found = [item.pair for item in differences(one, other)]
        except NotComparableError:
            return False
        return self._pairs.issuperset(found)

    def _term(self, eraser: Eraser, node: Plain) -> Term | None:
        return eraser.side.lifter.found.get(id(node.node))

    # --- dtypes -------------------------------------------------------------------------------

    def is_cast(self, place: Differing) -> bool:
        """Whether a value has another dtype, and nothing else differs."""
        return self._casts.of(place) is not None

    @property
    def casts(self) -> Iterator[Cast]:
        """What such places are."""
        for place, covered in zip(self._found.places, self.all, strict=True):
            found = self._casts.of(place) if covered.owner == _CAST else None
            if found is not None:
                yield Cast(covered.place, *found)

    # --- models in float16 --------------------------------------------------------------------

    def is_half(self, place: Differing) -> bool:
        """Whether a model is loaded in float32 that was in float16 while it is trained."""
        old, new = (each and each.node for each in (place.before, place.after))
        halves = self._before.model.modules.half_trainings
        half = next((half for half in halves if half.cast is old), None)
        if half is None or not isinstance(old, cst.Call) or not isinstance(new, cst.Call):
            return False
        given = [arg for arg in new.args if _keyword(arg) == _keyword(half.dtype)]
        wide = [a for a in given if self._after.model.names.is_any(a.value, {"torch.float32"})]
        rest = [arg for arg in new.args if arg not in wide]
        kept = [arg for arg in old.args if arg is not half.dtype]
        return _same(self._before, kept, self._after, rest)

    # --- functions ----------------------------------------------------------------------------

    def is_helper(self, place: Differing) -> bool:
        """Whether a new function is reached by calls of this text alone, which are compared."""
        node = place.after.node if place.after is not None else None
        if not isinstance(node, cst.FunctionDef) or node.decorators:
            return False
        if any(isinstance(part, cst.Annotation) for part in descendants(node.params)):
            return False
        params = (each for each in descendants(node.params) if isinstance(each, cst.Param))
        defaults = (each.default for each in params if each.default is not None)
        if not all(map(self._is_constant, defaults)):
            return False  # it is computed as soon as the file is run
        within = self._after.model.tree.ancestor(node, cst.FunctionDef, cst.ClassDef)
        known = self._before.model.tree.named(node.name.value)
        hidden = node.name.value.startswith("__") or isinstance(within, cst.ClassDef)
        return not (known or hidden or node.returns) and self._is_named_elsewhere(node)

    def _is_constant(self, default: cst.BaseExpression) -> bool:
        """Whether a default is a literal, a name, or a dtype: no error comes of it."""
        if isinstance(default, (cst.Tuple, cst.List)):
            plain = all(isinstance(each, cst.Element) for each in default.elements)
            return plain and all(self._is_constant(each.value) for each in default.elements)
        if isinstance(default, cst.Name) or literal(default) is not ...:
            return True
        known = self._after.model.names.qualified(default)
        return bool(known) and known <= DTYPES.keys()

    def _is_named_elsewhere(self, function: cst.FunctionDef) -> bool:
        """Whether the text itself has a use for a function."""
        tree = self._after.model.tree
        return any(not tree.contains(function, each) for each in tree.named(function.name.value))

    def is_import(self, place: Differing) -> bool:
        """Whether something of torch or of Python itself is imported, under a name that is new.

        Or a name that the old text has for the same. In a ``try`` it decides what is done next.
        """
        alias = place.after.node if place.after is not None else None
        holder = alias and self._after.model.tree.parent(alias)
        if place.before is not None or not isinstance(alias, cst.ImportAlias) or holder is None:
            return False
        whole, _ = self._after.imported(holder, alias)
        old, new = self._before.side, self._after.side
        return is_tried(new, alias, whole) and keeps_names(old, new, alias)

    # --- training steps -----------------------------------------------------------------------

    def is_step(self, place: Differing) -> bool:
        """Whether what differs are events of a training step that is replayed."""
        if place.before is None or place.after is None:
            events, code = (self._old, place.before) if place.before else (self._new, place.after)
            assert code is not None
            gone = events is self._old
            others = self._new if gone else self._old
            return events.are_all(code, others, gone=gone) and self._keeps_its_place(code)
        return any(self._is_event(*pair) for pair in ((place.before, place.after), *place.around))

    def _keeps_its_place(self, code: Plain) -> bool:
        """Whether code that the other text has elsewhere, or changed, passes no ordinary call.

        Nor may it leave a context, or the block of a ``try``; nor any statement of it.
        """
        return all(map(self._stays, _statements(code)))

    def _stays(self, code: Plain) -> bool:
        places = self._found.places
        old = [each for place in places if place.before for each in _statements(place.before)]
        new = [each for place in places if place.after for each in _statements(place.after)]
        ones, others = ([each for each in found if alike(each, code)] for found in (old, new))
        passed = [self._position(self._before, 0, one.node) for one in ones]
        ahead = [self._position(self._after, 1, other.node) for other in others]
        return not passed or not ahead or any(each in ahead for each in passed)

    def _position(self, eraser: Eraser, which: int, code: cst.CSTNode) -> _Position:
        """What is done before a piece of code, and the contexts in which it runs."""
        return {*self._ahead(eraser, which, code)}, [*_contexts(eraser, code)]

    def _ahead(self, eraser: Eraser, which: int, code: cst.CSTNode) -> Iterator[int]:
        """The numbers of what both texts do by ordinary code before a piece of code."""
        order = eraser.model.tree.order
        for number, pair in enumerate(self._found.same):
            at = order(pair[which].node)
            if at < order(code) and self._old.is_ordinary(pair[0].node):
                yield number

    # --- what of a scaler is not done at the same time ----------------------------------------

    def moved(self) -> Iterator[str]:
        """What of a scaler both texts have, but not at the same time.

        Its state is saved or loaded elsewhere, ``unscale_`` comes only behind what may see the
        gradients, or ``update`` is on the other side of what asks for the scale.
        """
        for calls, around, is_moved in (
            (_states, _Events.done_around, _is_elsewhere),
            (_unscaled, _Events.done_around, _is_later),
            (_updated, _Events.asked_around, _is_elsewhere),
        ):
            new = [*calls(self._after)]
            for key, call in calls(self._before):
                done = around(self._old, call)
                others = [around(self._new, other) for its, other in new if its == key]
                if others and all(is_moved(done, other) for other in others):
                    yield f"{self._line_of(call)} was moved"
        yield from self._gone()

    def _gone(self) -> Iterator[str]:
        """``unscale_`` that is gone, before what may see the gradients until they are stepped."""
        left = Counter(name for (name, _), call in _unscaled(self._after))
        for (name, _), call in _unscaled(self._before):
            left[name] -= 1
            if left[name] < 0 and self._old.is_seen_behind(call):
                yield f"{self._line_of(call)} was removed before what may see gradients"

    def _line_of(self, call: cst.Call) -> str:
        side = self._before.side
        return f"line {side.line(call)}: `{' '.join(side.model.tree.source(call).split())}`"

    def _is_event(self, old: Plain, new: Plain) -> bool:
        """Whether both are a call whose difference a trace holds: the limit of a clip."""
        one, other = self._old.held(old), self._new.held(new)
        return one is not None and one == other


def _targets(node: cst.Assign) -> Iterator[cst.BaseExpression]:
    return (each.target for each in node.targets)


def _statements(code: Plain) -> Iterator[Plain]:
    """The statements of a block and of those in it that are none themselves; or the code alone."""
    blocks = [part for part in code.parts if part.kind == BLOCK]
    for block in blocks:
        for each in block.parts:
            yield from _statements(each)
    if not blocks:
        yield code


class _Events:
    """The events of one text that are replayed."""

    def __init__(self, eraser: Eraser, programs: Sequence[Program]) -> None:
        self._eraser = eraser
        self._model = eraser.model
        traces = [trace for program in programs for trace in program.traces]
        self._replayed = {(event.line, event.source) for trace in traces for event in trace}

    def _is_replayed(self, node: cst.CSTNode) -> bool:
        return (self._eraser.side.line(node), self._model.tree.source(node)) in self._replayed

    def is_ordinary(self, code: cst.CSTNode) -> bool:
        """Whether code calls something that is no event and may do anything, or sets something."""
        settings = (self._model.tree.below(code, each) for each in _SETTING)
        if any(map(self._sets, itertools.chain.from_iterable(settings))):
            return True
        found = self._eraser.side.lifter.found
        for call in self._model.tree.below(code, cst.Call):
            term = found.get(id(call))
            if self._kind(call) in _NO_EVENT and (term is None or is_opaque(term)):
                return True
        return False

    def done_around(self, code: cst.CSTNode) -> _Around:
        """What is done by ordinary code before a piece of code, and behind it."""
        return self._split(code, self._done)

    def asked_around(self, code: cst.CSTNode) -> _Around:
        """How the scale is asked for before a piece of code, and behind it."""
        return self._split(code, self._asked)

    def is_seen_behind(self, unscale: cst.Call) -> bool:
        """Whether anything may see gradients between where they are unscaled and the next step."""
        tree = self._model.tree
        first, unit = tree.end(unscale), self._eraser.side.holder(unscale)
        steps = [tree.order(c) for c in tree.below(unit, cst.Call) if self._kind(c) is Kind.STEP]
        until = min((at for at in steps if at >= first), default=tree.end(unit))
        seen = [*(at for at, _ in self._done), *map(tree.order, self._reads)]
        return any(first <= at < until for at in seen)

    @functools.cached_property
    def _reads(self) -> list[cst.CSTNode]:
        """Where gradients are read, and clips whose norm is used."""
        tree = self._model.tree
        read = [node for node in tree.nodes(cst.Attribute) if is_gradient(node)]
        clips = (call for call in tree.nodes(cst.Call) if self._kind(call) is Kind.CLIP)
        return [*read, *(each for each in clips if not isinstance(tree.parent(each), cst.Expr))]

    @functools.cached_property
    def _done(self) -> list[_Placed]:
        """What is done by ordinary code."""
        kinds: tuple[type[cst.CSTNode], ...] = (cst.Expr, *_SETTING)
        nodes = itertools.chain.from_iterable(self._model.tree.nodes(kind) for kind in kinds)
        return self._placed(filter(self.is_ordinary, nodes))

    @functools.cached_property
    def _asked(self) -> list[_Placed]:
        """How the scale is asked for."""
        asked = self._model.tree.nodes(cst.Attribute)
        return self._placed(each for each in asked if reads_scale(each.attr.value))

    def _placed(self, nodes: Iterable[cst.CSTNode]) -> list[_Placed]:
        order, plain = self._model.tree.order, self._eraser.plain
        return [(order(node), plain(node).digest) for node in nodes]

    def _split(self, code: cst.CSTNode, placed: Iterable[_Placed]) -> _Around:
        """What of some code comes before a piece of code, and what behind it."""
        at = self._model.tree.order(code)
        ahead, behind = Counter[bytes](), Counter[bytes]()
        for order, digest in placed:
            passed = ahead if order < at else behind
            passed[digest] += 1
        return ahead, behind

    def _sets(self, node: cst.CSTNode) -> bool:
        """Whether a statement changes an object, and is no event."""
        targets: list[cst.CSTNode]
        if isinstance(node, cst.Assign):
            targets = [each.target for each in node.targets]
        else:
            assert isinstance(node, (cst.AugAssign, cst.AnnAssign, cst.Del))
            targets = [node.target]
        kept = any(isinstance(target, (cst.Attribute, cst.Subscript)) for target in targets)
        return kept and not self._is_replayed(node)

    def _kind(self, call: cst.Call) -> Kind | None:
        """The kind of event that a call is; a clip, also where it unscales before."""
        recognizer = self._model.steps.recognizer
        return Kind.CLIP if _is_clip(recognizer.meaning(call)) else recognizer.kind(call)

    def are_all(self, statement: Plain, others: _Events, *, gone: bool) -> bool:
        """Whether a statement is nothing but events that are replayed, under tests that only ask.

        Where it is ``gone``, what was erased of it counts too.
        """
        node = statement.node
        blocks = [part for part in statement.parts if part.kind == BLOCK]
        if blocks:
            heads = (part for part in statement.parts if part.kind != BLOCK)
            inner = [each for block in blocks for each in block.parts]
            return (
                isinstance(node, (cst.If, cst.For))
                and (bool(inner) or (gone and self._is_about_amp(node)))
                and all(map(self._only_asks, heads))
                and all(self.are_all(each, others, gone=gone) for each in inner)
            )
        if isinstance(node, cst.Expr):
            return self._is_replayed(node.value) and self._is_told(statement.parts[0], others)
        if isinstance(node, cst.AugAssign):
            return self._is_replayed(node) and self._eraser.side.tracer.factor(node) is not None
        return gone and isinstance(node, cst.Assign) and self._makes_scaler(node)

    def _is_told(self, call: Plain, others: _Events) -> bool:
        """Whether a trace holds all that an event says, or the other text says it as well."""
        assert isinstance(call.node, cst.Call)
        kind = self._kind(call.node)
        if kind is Kind.GRADIENT_WRITE:
            return self._eraser.side.tracer.factor(call.node) is not None
        if kind is Kind.CLIP:
            return not others.clips or self.held(call) in others.clips
        if kind is Kind.UNSCALE:
            return False  # as it should be called it was erased, and else it raises
        if kind is Kind.GRADIENT_REPAIR and others.repairs != self.repairs:
            return False  # where the scaler is off nothing else skips what is inf or NaN
        told = not [*leftover(self._model, kind or Kind.OPAQUE, call.node)]
        known = others.objects(kind)
        return told and (not known or self._object(kind, call.node) in known)

    @functools.cached_property
    def repairs(self) -> int:
        """How often the text puts numbers where gradients are inf or NaN."""
        kinds = map(self._kind, self._model.tree.nodes(cst.Call))
        return sum(kind is Kind.GRADIENT_REPAIR for kind in kinds)

    @functools.cached_property
    def clips(self) -> list[object]:
        """What the clips of the text say beside what a trace holds of them."""
        calls = self._model.tree.nodes(cst.Call)
        return [self.held(self._eraser.plain(c)) for c in calls if self._kind(c) is Kind.CLIP]

    def objects(self, kind: Kind | None) -> set[str]:
        """What the events of a kind are about, as it is written; nothing for other kinds."""
        calls = [c for c in self._model.tree.nodes(cst.Call) if self._kind(c) is kind]
        return {self._object(kind, call) for call in calls} if kind in _ABOUT else set()

    def _object(self, kind: Kind | None, call: cst.Call) -> str:
        return about(self._model, kind, call) if kind is not None else ""

    def _makes_scaler(self, node: cst.Assign) -> bool:
        value, names = node.value, self._model.names
        made = isinstance(value, cst.Call) and self._model.roles.is_constructor(value)
        sharded = isinstance(value, cst.Call) and names.is_any(value.func, SHARDED)
        return made and not sharded and all(map(self._eraser.is_read, _targets(node)))

    def _is_about_amp(self, node: cst.If | cst.For) -> bool:
        """Whether what was erased of a statement is something that a step is about."""
        halves = self._model.modules.half_trainings
        held = any(self._model.tree.contains(node, half.cast) for half in halves)
        return held or self._model.steps.relevance.uses_scaler(node)

    def _only_asks(self, head: Plain) -> bool:
        term = self._eraser.side.lifter.found.get(id(head.node))
        return head.kind in ("Name", "known", "literal") or (
            term is not None and not is_opaque(term)
        )

    def held(self, call: Plain) -> object:
        """What an event says beside what a trace holds of it; None if it is no such call."""
        node = call.node
        if not isinstance(node, cst.Call):
            return None
        meaning = self._model.steps.recognizer.meaning(node)
        if meaning is None or not _is_clip(meaning):
            return None
        limit = arguments(node).get(*meaning.place(Part.LIMIT))
        given = {
            name: value
            for name, value in leftover(self._model, Kind.CLIP, node)
            if value is not limit
        }
        tree = self._eraser
        rest = sorted((name, tree.plain(value).digest) for name, value in given.items())
        return meaning.word, tuple(rest), self._limit(limit)

    def _limit(self, limit: cst.BaseExpression | None) -> object:
        """A limit without the scale; a number is the same for all, since a trace holds it."""
        if self._eraser.side.tracer.number(limit) is not None:
            return "a number"
        if isinstance(limit, cst.BinaryOperation) and isinstance(limit.operator, cst.Multiply):
            values = self._model.values
            for side, other in ((limit.left, limit.right), (limit.right, limit.left)):
                if is_made_from_scale(side, values):
                    return self._limit(other)
        return None if limit is None else self._eraser.plain(limit).digest


def _done(eraser: Eraser, piece: Plain) -> tuple[list[bytes], list[str]]:
    """What an expression does beside what it gives: names that it binds, unknown calls, in order.

    Terms do not tell the names, nor which of two calls comes first: both may draw random numbers.
    """
    tree, found = eraser.model.tree, eraser.side.lifter.found
    named = [eraser.plain(each).digest for each in tree.below(piece.node, cst.NamedExpr)]
    terms = (found.get(id(call)) for call in tree.below(piece.node, cst.Call))
    return named, [show(term) for term in terms if term is not None and is_opaque(term)]


def _contexts(eraser: Eraser, code: cst.CSTNode) -> Iterator[object]:
    """What is entered around a piece of code, but for regions of AMP."""
    below = code
    for holder in eraser.model.tree.ancestors(code):
        if isinstance(holder, cst.With):
            items = (item for item in holder.items if not eraser.is_region(item.item))
            yield from (eraser.plain(item).digest for item in items)
        elif isinstance(holder, (cst.Try, cst.TryStar)):
            yield "try" if below is holder.body else type(below).__name__
        below = holder


def _states(eraser: Eraser) -> _Calls:
    """The calls that save or load the state of a scaler, by their function and what they say."""
    return _told(eraser, filter(eraser.side.lifter.is_scaler_state, _calls(eraser)))


def _unscaled(eraser: Eraser) -> _Calls:
    """The calls that unscale gradients."""
    kind = eraser.model.steps.recognizer.kind
    return _told(eraser, (call for call in _calls(eraser) if kind(call) is Kind.UNSCALE))


def _updated(eraser: Eraser) -> _Calls:
    """The calls that update scalers."""
    kind = eraser.model.steps.recognizer.kind
    return _told(eraser, (call for call in _calls(eraser) if kind(call) is Kind.UPDATE))


def _calls(eraser: Eraser) -> list[cst.Call]:
    return eraser.model.tree.nodes(cst.Call)


def _told(eraser: Eraser, calls: Iterable[cst.Call]) -> _Calls:
    for call in calls:
        yield (name_of(eraser.model, call), eraser.plain(call).digest), call


def _is_elsewhere(old: _Around, new: _Around) -> bool:
    """Whether something that was done before a place is done behind it now, or the other way."""
    return _is_later(old, new) or _is_later(new, old)


def _is_later(old: _Around, new: _Around) -> bool:
    """Whether something that was done behind a place is done before it now."""
    return bool((old[1] - new[1]) & (new[0] - old[0]))


def _is_clip(meaning: Meaning | None) -> bool:
    """Whether a call clips, also if it is one of a framework that unscales before."""
    return meaning is not None and Kind.CLIP in meaning.does


def _shown(side: Side, piece: Plain | None) -> str:
    if piece is None:
        return ""
    text = " ".join(side.model.tree.source(piece.node).split()) if piece.kind != BLOCK else "..."
    return text if len(text) <= _LENGTH else f"{text[: _LENGTH - 3]}..."


def _keyword(arg: cst.Arg | None) -> str:
    return arg.keyword.value if arg is not None and arg.keyword is not None else ""


def _same(
    one: Eraser, old: Sequence[cst.CSTNode], other: Eraser, new: Sequence[cst.CSTNode]
) -> bool:
    return [one.plain(each).digest for each in old] == [other.plain(each).digest for each in new]


_OWNERS: tuple[tuple[str, Callable[[Cover, Differing], bool]], ...] = (
    ("expression", Cover.is_expression),
    ("training step", Cover.is_step),
    ("training step", Cover.is_half),
    ("helper", Cover.is_helper),
    ("import", Cover.is_import),
    (_CAST, Cover.is_cast),
)


def reasons(covered: Sequence[Covered]) -> Iterator[str]:
    """A line for each place that nobody answers for."""
    for one in covered:
        match one:
            case Covered(owner="", before="", after=new):
                yield f"line {one.place.after}: `{new}` was added or moved"
            case Covered(owner="", before=old, after=""):
                yield f"line {one.place.before}: `{old}` was removed or moved"
            case Covered(owner="", before=old, after=new):
                yield f"line {one.place.before}: `{old}` became `{new}`"
