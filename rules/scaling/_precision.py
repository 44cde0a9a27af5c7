"""Under which settings a scaler is on and the region it serves is bf16.

Values are followed back to the settings that choose them, with the tests on the way: ``dtype =
torch.bfloat16 if args.bf16 else torch.float16`` is bf16 when ``args.bf16``. A finding needs a
configuration in which the scaler is enabled and the dtype is bf16 at once, made of settings whose
part in both is known.
"""

from __future__ import annotations

import functools
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import libcst as cst

from amp_lint.amp.gradient_values import is_never_tracked
from amp_lint.amp.regions import Region
from amp_lint.flow.branches import deciding
from amp_lint.flow.conditions import (
    All,
    Any_,
    Contains,
    Equals,
    Facts,
    Formula,
    Not,
    Ordered,
    Truthy,
    atoms,
    begins,
    both,
    either,
    formula,
    opposite,
    size,
    text,
)
from amp_lint.flow.forwarding import merged, spread
from amp_lint.flow.options import Words
from amp_lint.flow.values import arguments, literal, lookup
from amp_lint.model import Model
from amp_lint.syntax.assignments import assignments
from amp_lint.syntax.names import Binding, dotted
from amp_lint.syntax.returns import returned
from amp_lint.syntax.tree import descendants
from amp_lint.vocabulary import written
from amp_lint.vocabulary.amp import BFLOAT16_FLAGS, DEVICE_AUTOCAST, SCALE_ATTRIBUTES
from amp_lint.vocabulary.frameworks import ACCELERATE
from amp_lint.vocabulary.meaning import Part
from amp_lint.vocabulary.operations import FLOAT16 as HALF
from amp_lint.vocabulary.settings import BF16_CHECK, BF16_EMULATION_SINCE

BFLOAT16, FLOAT16 = "torch.bfloat16", "torch.float16"
_DTYPES = HALF | {BFLOAT16, "torch.float32", "torch.float", "torch.float64", "torch.double"}
_SPELLINGS = {
    "torch.float16": HALF,
    "torch.half": HALF,
    "torch.float32": frozenset({"torch.float32", "torch.float"}),
}
_UNSCALED = (BFLOAT16, "torch.float32")
"""What reaches as far as gradients do: no scale has to be found for it."""
_FORWARD = "forward"
_MAX_STEPS = 5
_MAX_CASES = 12
_MAX_FUNCTIONS = 100
"""Functions that one step calls."""
_MAX_SIZE = 60
"""Atoms of a formula beyond which a setting is not followed further."""
_ACCELERATOR, *_ = ACCELERATE
_AUTOCAST = ("amp", written.REGION, _ACCELERATOR.keyword(Part.PRECISION))
# A setting so named, or with such a value, may mean fp16 alone.
_TELLING = re.compile(r"fp16|half|16|scal|precision|dtype|float", re.IGNORECASE)
_BF16 = re.compile(r"bf16|bfloat16", re.IGNORECASE)
_PROBE = re.compile(r"^(hasattr|getattr)\(|version", re.IGNORECASE)  # which API there is
_SETTING = re.compile(r"^[^\W\d]\w*(\.[^\W\d]\w*)*$|^torch[.\w]*\(\)$")
_TELLING_VALUE = re.compile(r"^amp$|16|half|float|mixed", re.IGNORECASE)

Case = tuple[Formula, cst.BaseExpression | None]
"""A value and the condition under which it is the one; None for an unknown value."""


@dataclass(frozen=True, slots=True)
class Bf16Scaler:
    """A scaler that some configuration enables while its region is bf16."""

    call: cst.Call
    dtype: cst.BaseExpression
    """Where bf16 is chosen."""
    always: bool
    """Whether the region is bf16 in every configuration."""
    switch: str | None
    """What to give as ``enabled``, such that it is off with bf16; None if that is not known."""


class Precision:
    """Follows dtypes and switches back to settings."""

    def __init__(self, model: Model) -> None:
        self.tree = model.linked
        self.names = model.names
        self.values = model.values
        self.flow = model.flow
        self.roles = model.roles
        self.regions = model.regions
        self.steps = model.steps
        self.program = model.steps.program
        self.reach = model.reach
        self.target_torch = model.target_torch
        self._guards: dict[tuple[int, int], Formula] = {}
        self._truths: dict[tuple[int, int], Formula] = {}

    @functools.cached_property
    def bf16_scalers(self) -> list[Bf16Scaler]:
        """Every scaler that can be enabled with bf16, in source order."""
        calls = [*self.roles.scaler_calls, *self.roles.scaler_makers()]
        found = (self._bf16_scaler(call) for call in sorted(calls, key=self.tree.order))
        return [scaler for scaler in found if scaler is not None]

    def may_be_half(
        self, region: Region, options: Iterable[tuple[cst.BaseExpression, Words]] = ()
    ) -> bool:
        """Whether some configuration, in which options have one of some words, opens it in float16.

        By the dtype that it is given; one that is given none is taken for float16.
        """
        half = True if region.dtype is None else self._is_dtype(region.dtype, FLOAT16, _MAX_STEPS)
        on = True if region.enabled is None else self.truth(region.enabled)
        known = [
            either(*(Equals(key, word) for word in sorted(words)))
            for node, words in options
            for key in {text(node), self._key(node) or text(node)}
        ]
        return Facts().allows(half, on, self.guard(region.node), *known)

    def may_serve_half(self, call: cst.Call) -> bool:
        """Whether a scaler may be on while something that it serves is float16, or not known.

        It may where no region is in sight, or one of them is given no dtype.
        """
        on = both(self._on(call), *self._known)
        outer, inner = self._serving_regions(call), self._inner_regions(call)
        alone = both(on, opposite(either(*map(self._when_on, outer))))
        states = [(each, on) for each in outer]
        states += [(each, alone if _takes_over(each) else on) for each in inner]
        return not states or any(self._may_be_needed(each, call, at) for each, at in states)

    def _on(self, call: cst.Call) -> Formula:
        """When a scaler is made and enabled; True where that is not known."""
        made = self.roles.constructors(call)
        given = [merged(each, spread(each, self.values)) for each in made]
        switches = [self.roles.switch(each) for each in given]
        known = [True if switch is None else self.truth(switch) for switch in switches]
        return both(self.guard(call), either(*known))

    @functools.cached_property
    def _known(self) -> list[Formula]:
        """What holds with the torch that the project requires: the check for bfloat16 says yes."""
        if self.target_torch is None or self.target_torch < BF16_EMULATION_SINCE:
            return []
        checks = (call for call in self.tree.nodes(cst.Call) if not call.args)
        found = (call for call in checks if self.names.is_only(call.func, {BF16_CHECK}))
        return [Truthy(each) for each in dict.fromkeys(map(text, found))]

    def _may_be_needed(self, region: Region, call: cst.Call, on: Formula) -> bool:
        """Whether a region may be in float16, or in nobody knows what, where a scaler is on."""
        wide: Formula = False
        if region.dtype is not None:
            wide = either(*(self._is_dtype(region.dtype, each, _MAX_STEPS) for each in _UNSCALED))
        needed = both(on, self._when_on(region), self._scaled(call, region), opposite(wide))
        return region.starred or bool(Facts().assume(needed))

    def _when_on(self, region: Region) -> Formula:
        """When a region is made and enabled."""
        switch = True if region.enabled is None else self.truth(region.enabled)
        return both(switch, self.guard(region.node))

    def _bf16_scaler(self, call: cst.Call) -> Bf16Scaler | None:
        made = self.roles.constructors(call)
        if all(map(self.roles.is_never_on, made)):
            return None
        given = [spread(each, self.values) for each in made]
        switches = [
            self.roles.switch(merged(each, all_)) for each, all_ in zip(made, given, strict=True)
        ]
        if any(each.starred for each in given) or any(s is not switches[0] for s in switches):
            return None
        switch = switches[0]
        on = both(self.guard(call), True if switch is None else self.truth(switch))
        plain = True if switch is None else formula(switch, self._key)
        served = list(self._served(call))
        if any(self._is_half_within(region, on) for region in self._inner_regions(call)):
            return None
        if not self.regions.all and (flag := self._only_bf16(call, switch, on)) is not None:
            return Bf16Scaler(call, flag, False, self._written(call, switch, False))
        for dtype, region_on in served:
            bf16 = self._is_dtype(dtype, BFLOAT16, _MAX_STEPS)
            itself = Equals(self._key(dtype) or text(dtype), BFLOAT16)
            known = atoms(region_on) | atoms(bf16)
            if not telling(on) <= known:
                continue
            if Facts().allows(itself, plain, bf16, on, region_on, *_named_bf16(on)):
                wanted = self._written(call, switch, self._unless_bf16(on, served))
                always = wanted == "False" and all(self._is_always_bf16(e) for e, _ in served)
                return Bf16Scaler(call, self._where_bf16(dtype), always, wanted)
        return None

    def _only_bf16(
        self, call: cst.Call, switch: cst.BaseExpression | None, on: Formula
    ) -> cst.BaseExpression | None:
        """The setting called after bf16 that turns a scaler on, where the file has no region."""
        for key in sorted(atoms(on)):
            called = key.rpartition(".")[2] in BFLOAT16_FLAGS
            if called and Facts().allows(on) and not Facts().allows(on, Not(Truthy(key))):
                tests = (test for test, _ in deciding(self.tree, call))
                parts = (self._expression(key, each) for each in (switch, *tests) if each)
                return next(filter(None, parts), None)
        return None

    def _is_always_bf16(self, dtype: cst.BaseExpression) -> bool:
        return not Facts().allows(opposite(self._is_dtype(dtype, BFLOAT16, _MAX_STEPS)))

    def _unless_bf16(
        self, on: Formula, served: list[tuple[cst.BaseExpression, Formula]]
    ) -> Formula:
        """When no dtype is known to be bf16, as far as that is open where the scaler is on.

        True, as if none ever was, where two regions differ, and where the scaler is on for bf16
        alone though float16 is possible too.
        """
        bf16, other, half = (
            either(*(both(at, self._or_not(dtype, wanted)) for dtype, at in served))
            for wanted in (BFLOAT16, None, "torch.float16")
        )
        if Facts().allows(on, bf16, other):
            return True
        open_ = _left_open(bf16, both(on, either(*(at for _, at in served))))
        return True if open_ is True and Facts().allows(half) else opposite(open_)

    def _or_not(self, dtype: cst.BaseExpression, wanted: str | None) -> Formula:
        """When a dtype is a certain one; when it is not bf16, for None."""
        known = self._is_dtype(dtype, wanted or BFLOAT16, _MAX_STEPS)
        return known if wanted else opposite(known)

    def _written(
        self, call: cst.Call, switch: cst.BaseExpression | None, wanted: Formula
    ) -> str | None:
        """A switch that is also off unless something holds, if it can be written at a call."""
        given, code = arguments(call), _as_code(wanted)
        if code is None or given.starred or not self.roles.is_constructor(call):
            return None
        if not all(self._is_readable(key, call) for key in atoms(wanted)):
            return None
        if wanted is not False and any(self.tree.named(name) for name in SCALE_ATTRIBUTES):
            return None  # a scaler that is off has no scale to read
        if wanted is False or switch is None or literal(switch) is True:
            return code
        if not any(value is switch for value in given.keywords.values()):
            return None
        plain = isinstance(switch, (cst.Name, cst.Attribute, cst.Call, cst.Comparison))
        own = self.tree.source(switch)
        return f"{own if plain else f'({own})'} and {code}"

    def _is_readable(self, key: str, call: cst.Call) -> bool:
        """Whether the name of a setting means something, and the same, where a scaler is made."""
        bindings = self.names.visible(call, key.partition(".")[0])
        function = self.tree.ancestor(call, cst.FunctionDef)
        inside = (b for b in bindings if self.tree.ancestor(b.node, cst.FunctionDef) is function)
        later = any(self.tree.order(b.node) > self.tree.order(call) for b in inside)
        return bool(bindings) and not later

    def _served(self, call: cst.Call) -> Iterator[tuple[cst.BaseExpression, Formula]]:
        """The dtype and switch of each region whose losses the scaler may scale.

        None at all if one of them is fp16 by its own text: then the scaler is for that.
        """
        regions = self._serving_regions(call)
        if any(self._is_plainly_half(region) for region in regions):
            return
        for region in regions:
            if region.dtype is not None:
                yield region.dtype, both(self._when_on(region), self._scaled(call, region))
        if not regions and (owner := self.values.enclosing_class(call)) is not None:
            for name, found in self.values.class_attributes(owner).items():
                if _is_autocast_dtype(name):
                    yield from ((value, True) for value in found)
            for name in self.names.scope_of(owner).bindings:
                method = self.values.method(owner, name)
                if method is not None and _is_autocast_dtype(name):
                    yield from ((value, self.guard(value)) for value in returned(method))

    def _scaled(self, call: cst.Call, region: Region) -> Formula:
        """When the function with a region scales a loss, if it does that itself."""
        home = self.tree.ancestor(region.node, cst.FunctionDef)
        scales = [
            each
            for each in self._scaling_calls(call)
            if self.tree.ancestor(each, cst.FunctionDef) is home
        ]
        return either(*map(self.guard, scales)) if scales else True

    def _serving_regions(self, call: cst.Call) -> list[Region]:
        """The regions of the functions that scale a loss by it, else those of its class."""
        ranks = {rank for f in self._scaling_functions(call) for rank in self._opened.get(f, ())}
        owner = self.values.enclosing_class(call)
        if not ranks and owner is not None:
            ranks = self._opened.get(id(owner), set())
        if not ranks and all(map(self._is_in_forward, self.regions.all)):
            ranks = set(range(len(self.regions.all)))
        return [self.regions.all[rank] for rank in sorted(ranks)]

    def _inner_regions(self, call: cst.Call) -> list[Region]:
        """The other regions that a step may enter: of the modules and functions that it calls.

        But for those where no gradient is taken of anything.
        """
        outer = {id(region) for region in self._serving_regions(call)}
        entered = [self.regions.all[rank] for rank in sorted(self._entered_below(call))]
        return [
            region
            for region in entered
            if id(region) not in outer and not is_never_tracked(self.program, region.node)
        ]

    def _entered_below(self, call: cst.Call) -> set[int]:
        """The ranks of the regions that are entered in what the code that scales calls."""
        scaling = self._scaling_calls(call)
        homes = dict.fromkeys(self.tree.ancestor(each, cst.FunctionDef) for each in scaling)
        todo = [each for home in homes for each in self._called_in(home)]
        for function in todo:  # grows while it is read
            if len(todo) < _MAX_FUNCTIONS:
                todo += (each for each in self._called_in(function) if each not in todo)
        return {rank for function in todo for rank in self._opened.get(id(function), ())}

    def _called_in(self, function: cst.FunctionDef | None) -> list[cst.FunctionDef]:
        """What the calls in a function run, each once; for None, those in none."""
        calls = (
            self.tree.nodes(cst.Call) if function is None else self.tree.below(function, cst.Call)
        )
        if function is None:
            calls = [c for c in calls if self.tree.ancestor(c, cst.FunctionDef) is None]
        return [*dict.fromkeys(each for call in calls for each in self.reach.targets(call))]

    def _is_in_forward(self, region: Region) -> bool:
        """Whether a region is that of a module's ``forward``, within or as its decorator."""
        home = self.tree.ancestor(region.node, cst.FunctionDef)
        return home is not None and home.name.value == _FORWARD

    def _scaling_functions(self, call: cst.Call) -> set[int]:
        """Ids of the functions that scale by the scaler made here, else by an unknown one."""
        return {id(self.tree.ancestor(s, cst.FunctionDef)) for s in self._scaling_calls(call)}

    def _scaling_calls(self, call: cst.Call) -> list[cst.Call]:
        """The calls that scale by the scaler made here, else by an unknown one."""
        made = (self.roles.place(each) for each in self.roles.constructors(call))
        known = [scale for place in made for scale in self._scaling.get(place, ())]
        return known or self._scaling.get(None, [])

    @functools.cached_property
    def _scaling(self) -> dict[cst.Call | None, list[cst.Call]]:
        """Where a scaler is made, None for unknown ones -> the calls that scale by it."""
        found: dict[cst.Call | None, list[cst.Call]] = defaultdict(list)
        for scale in self.tree.nodes(cst.Call):
            if self.steps.recognizer.is_scale(scale):
                assert isinstance(scale.func, cst.Attribute)
                held = self._held(scale.func.value)
                origins = (each for value in held for each in self.roles.scaler_origins(value))
                places: set[cst.Call | None] = {self.roles.place(each) for each in origins}
                for place in places or {None}:
                    found[place].append(scale)
        return dict(found)

    def _held(self, scaler: cst.BaseExpression) -> list[cst.BaseExpression]:
        """What a name may hold where it is read: not what was bound to it and is overwritten."""
        reaching = self.flow.reaching(scaler) if isinstance(scaler, cst.Name) else []
        values = [each.value for each in reaching if each.value is not None]
        return values if values and len(values) == len(reaching) else [scaler]

    @functools.cached_property
    def _opened(self) -> dict[int, set[int]]:
        """Id of a function or class -> the ranks of the regions that are made or entered there."""
        found: dict[int, set[int]] = defaultdict(set)
        rank_of = {id(region): rank for rank, region in enumerate(self.regions.all)}
        for item in self.tree.nodes(cst.WithItem):
            region = self.regions.of(item.item)
            if region is not None and id(region) in rank_of:
                found[id(self.tree.ancestor(item, cst.FunctionDef))].add(rank_of[id(region)])
        for rank, region in enumerate(self.regions.all):
            found[id(self.tree.ancestor(region.node, cst.FunctionDef))].add(rank)
            for holder in self.tree.ancestors(region.node):
                if isinstance(holder, cst.ClassDef):
                    found[id(holder)].add(rank)
        return dict(found)

    def _is_half_within(self, region: Region, on: Formula) -> bool:
        """Whether a region may be float16 within others, where a scaler is on."""
        if _takes_over(region) or not self._is_plainly_half(region):
            return False
        return bool(Facts().assume(both(on, self._when_on(region))))

    def _is_plainly_half(self, region: Region) -> bool:
        if region.dtype is None:
            return not region.never_enabled and not region.starred
        return self.names.is_only(region.dtype, HALF)

    # --- conditions ---------------------------------------------------------------------------

    def guard(self, node: cst.CSTNode, steps: int = _MAX_STEPS) -> Formula:
        """What holds where ``node`` is evaluated, by the tests around it in its function."""
        key = id(node), steps
        if key not in self._guards:
            self._guards[key] = both(*self._guards_around(node, steps))
        return self._guards[key]

    def _guards_around(self, node: cst.CSTNode, steps: int) -> Iterator[Formula]:
        for test, holds in deciding(self.tree, node):
            known = self.truth(test, steps)
            yield known if holds else opposite(known)
        element = self.tree.ancestor(node, cst.DictElement)
        if isinstance(element, cst.DictElement):
            yield self._looked_up(element, steps)

    def _looked_up(self, element: cst.DictElement, steps: int) -> Formula:
        """When a value of a dict is what is looked up in it; True where that is not known."""
        key, table = literal(element.key), self.tree.parent(element)
        asked = [index for index, tables in self._lookups if any(each is table for each in tables)]
        if not isinstance(key, str) or not asked:
            return True
        return either(*(self._equals(index, key, steps) for index in asked))

    @functools.cached_property
    def _lookups(self) -> list[tuple[cst.BaseExpression, list[cst.BaseExpression]]]:
        """The key of each ``table[key]`` of the file, and the dicts that ``table`` may be."""
        found = filter(None, map(lookup, self.tree.nodes(cst.Subscript)))
        return [(index, [*self.values.alternatives(table)]) for table, index, _ in found]

    def truth(self, test: cst.BaseExpression, steps: int = _MAX_STEPS) -> Formula:
        """The formula of a test, its settings followed back."""
        key = id(test), steps
        if key not in self._truths:
            plain = formula(test, self._key)
            self._truths[key] = plain  # what is defined by itself is followed no further
            full = self._expanded(plain, test, steps) if steps > 0 else plain
            self._truths[key] = full if size(full) <= _MAX_SIZE else plain
        return self._truths[key]

    def _expanded(self, condition: Formula, scope: cst.CSTNode, steps: int) -> Formula:
        """Replace the atoms that stand for something assigned in this file."""
        match condition:
            case Not(part):
                return opposite(self._expanded(part, scope, steps))
            case All(parts):
                return both(*(self._expanded(part, scope, steps) for part in parts))
            case Any_(parts):
                return either(*(self._expanded(part, scope, steps) for part in parts))
            case Contains():
                return self._atom(condition, condition.of, scope, steps)
            case Truthy(key) | Equals(key):
                return self._atom(condition, key, scope, steps)
        return condition

    def _atom(self, atom: Truthy | Equals, key: str, scope: cst.CSTNode, steps: int) -> Formula:
        node = self._expression(key, scope)
        cases = self.cases(node, steps - 1) if node is not None else []
        if not cases or len(cases) > _MAX_CASES:
            return atom
        parts: list[Formula] = []
        for condition, value in cases:
            if value is None:
                return atom
            parts.append(both(condition, self._case_truth(atom, value, steps)))
        return either(*parts)

    def _case_truth(self, atom: Truthy | Equals, value: cst.BaseExpression, steps: int) -> Formula:
        if isinstance(value, cst.IfExp):
            test = self.truth(value.test, steps - 1)
            chosen = self._case_truth(atom, value.body, steps)
            other = self._case_truth(atom, value.orelse, steps)
            return either(both(test, chosen), both(opposite(test), other))
        if isinstance(value, cst.Call) and self.roles.scaler_origins(value):
            return isinstance(atom, Truthy)  # an object: true, and no constant
        if isinstance(atom, Contains):
            known = atom.holds(value)
            return Truthy(f"{atom.word!r} in {text(value)}") if known is None else known
        if isinstance(atom, Truthy):
            return self.truth(value, steps - 1)
        if isinstance(atom.constant, str) and atom.constant in _DTYPES:
            return self._may_be_dtype(value, atom.constant, steps - 1)
        constant, start = literal(value), begins(value)
        if constant is not ...:
            return constant == atom.constant
        if start and not (isinstance(atom.constant, str) and atom.constant.startswith(start)):
            return False
        return Equals(self._key(value) or text(value), atom.constant)

    def _expression(self, key: str, scope: cst.CSTNode) -> cst.BaseExpression | None:
        """The node that a key was made from, near ``scope``."""
        for node in descendants(scope):
            if isinstance(node, (cst.Name, cst.Attribute)) and self._key(node) == key:
                return node
        return None

    def _key(self, node: cst.BaseExpression) -> str | None:
        """Names by their text; ``self.config`` is ``config`` when that was assigned to it."""
        if isinstance(node, cst.Attribute):
            values = self.values.attribute_values(node)
            if len(values) == 1 and isinstance(values[0], cst.Name):
                bindings = self.names.bindings(values[0])
                if bindings and bindings[0].kind == "parameter":
                    return values[0].value
            base = self._key(node.value)
            return f"{base}.{node.attr.value}" if base else None
        return node.value if isinstance(node, cst.Name) else None

    # --- values -------------------------------------------------------------------------------

    def cases(self, node: cst.BaseExpression, steps: int = _MAX_STEPS) -> list[Case]:
        """The values that are assigned to a name or attribute, with their conditions.

        [] if nothing in the file assigns it.
        """
        if isinstance(node, cst.Name):
            bindings = self.names.bindings(node)
            return list(self._assigned(bindings, steps))
        if isinstance(node, cst.Attribute):
            found: list[tuple[cst.CSTNode, cst.BaseExpression]] = [
                (value, value) for value in self.values.attribute_values(node)
            ]
            method = self.values.function(node)
            if method is not None:
                found += [(value, value) for value in returned(method)]
            found = found or [(v, v) for v in self._dotted_values.get(dotted(node) or "", [])]
            return list(self._in_order(found, steps)) or [*self._of_field(node)]
        return []

    def _assigned(self, bindings: Iterable[Binding], steps: int) -> Iterator[Case]:
        known = [b for b in bindings if b.kind != "import"]
        if [b.kind for b in known] == ["parameter"]:
            yield True, self._argument(known[0])
            return
        given = {b: self.values.returned_parts(b) for b in known if b.value is None}
        if not all(given.values()):
            yield True, None
        values = [(b.node, b.value) for b in known if b.value is not None]
        values += [(part, part) for parts in given.values() for part in parts]
        yield from self._in_order(values, steps)

    def _argument(self, parameter: Binding) -> cst.BaseExpression | None:
        """What the only call of a function gives for a parameter, if there is one call."""
        function = self.tree.ancestor(parameter.node, cst.FunctionDef)
        calls = self.program.calls_of(function) if function is not None else ()
        if function is None or len(calls) != 1:
            return None
        return self.program.bind(function, calls[0]).get(parameter.name)

    def _of_field(self, node: cst.Attribute) -> Iterator[Case]:
        """The default of a field, for an object of a class of this file, and any other value."""
        owner = self.values.instance_class(node.value) or self._annotated(node.value)
        fields = self.values.class_attributes(owner) if owner is not None else {}
        for value in fields.get(node.attr.value, ()):
            default = Truthy(f"default of {text(node)}")
            yield from ((default, value), (Not(default), None))

    def _annotated(self, node: cst.BaseExpression) -> cst.ClassDef | None:
        """The class of this file that a parameter is said to be of."""
        for value in self.values.alternatives(node):
            bindings = self.names.bindings(value) if isinstance(value, cst.Name) else []
            owner = self.values.annotated(bindings[0]) if len(bindings) == 1 else None
            if owner is not None:
                return owner
        return None

    def _in_order(
        self, values: list[tuple[cst.CSTNode, cst.BaseExpression]], steps: int
    ) -> Iterator[Case]:
        """A value is the one when its own tests hold and those of no later one do."""
        guards = [self.guard(place, steps - 1) for place, _ in values]
        if guards and Facts().allows(*map(opposite, guards)):
            yield True, None  # some path assigns nothing: the value may come from outside
        homes = [id(self.tree.ancestor(place, cst.FunctionDef)) for place, _ in values]
        for index, (_, value) in enumerate(values):
            later = [
                opposite(guards[other])
                for other in range(index + 1, len(values))
                if homes[other] == homes[index]
            ]
            yield both(guards[index], *later), value

    @functools.cached_property
    def _dotted_values(self) -> dict[str, list[cst.BaseExpression]]:
        """What is assigned to ``params.dtype`` and the like, anywhere in the file."""
        found: dict[str, list[cst.BaseExpression]] = {}
        for target, value in assignments(self.tree):
            name = dotted(target)
            if name and "." in name and not name.startswith("self.") and value is not None:
                found.setdefault(name, []).append(value)
        return found

    def _is_dtype(self, node: cst.BaseExpression | None, wanted: str, steps: int) -> Formula:
        """When a value is the dtype ``wanted``; False where that is not known to be possible."""
        if node is None or steps <= 0:
            return False
        if isinstance(node, cst.IfExp):
            test = self.truth(node.test, steps - 1)
            chosen = self._is_dtype(node.body, wanted, steps - 1)
            other = self._is_dtype(node.orelse, wanted, steps - 1)
            return either(both(test, chosen), both(opposite(test), other))
        if isinstance(node, cst.Subscript):
            index = node.slice[0].slice
            if not isinstance(index, cst.Index):
                return False
            return self._chosen_by_key(node.value, index.value, wanted, steps)
        if isinstance(node, cst.Call):
            return self._given_by_call(node, wanted, steps)
        if isinstance(node, (cst.Name, cst.Attribute)):
            cases = self.cases(node, steps - 1)[:_MAX_CASES]
            if not cases:
                return self.names.is_only(node, _SPELLINGS.get(wanted, {wanted}))
            return either(*(both(test, self._is_dtype(v, wanted, steps - 1)) for test, v in cases))
        return False

    def _may_be_dtype(self, node: cst.BaseExpression, wanted: str, steps: int) -> Formula:
        """When a value is the dtype ``wanted``, or may be it for all that is known."""
        known = self._is_dtype(node, wanted, steps)
        others = (self._is_dtype(node, each, steps) for each in (*_UNSCALED, FLOAT16))
        itself = Equals(self._key(node) or text(node), wanted)
        return either(known, both(itself, opposite(either(*others))))

    def _given_by_call(self, call: cst.Call, wanted: str, steps: int) -> Formula:
        """``table.get(name)``, ``getattr(torch, name)``, or what a function of the file returns."""
        given = arguments(call).positional
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "get" and given:
            chosen = self._chosen_by_key(call.func.value, given[0], wanted, steps)
            if chosen is not False:
                return chosen
        if self.names.is_any(call.func, {"builtins.getattr"}) and len(given) > 1:
            names = _SPELLINGS.get(wanted, {wanted})
            if not self.names.is_any(given[0], {"torch"}) or not self._is_option(given[1], names):
                return False
            words = (name.partition(".")[2] for name in sorted(names))
            return either(*(self._equals(given[1], word, steps) for word in words))
        function = self.values.function(call.func)
        if function is None or not (1 <= len(returned(function)) <= _MAX_CASES):
            return False
        parts = (
            both(self.guard(value, steps - 1), self._is_dtype(value, wanted, steps - 1))
            for value in returned(function)
        )
        given_for = {**self._defaults(function), **self.program.bind(function, call)}
        return self._passed(either(*parts), given_for, steps - 1)

    def _defaults(self, function: cst.FunctionDef) -> dict[str, cst.BaseExpression]:
        """Parameter -> its default."""
        params = (*function.params.params, *function.params.kwonly_params)
        names = (each.name.value for each in params)
        found = {name: self.program.default(function, name) for name in names}
        return {name: default for name, default in found.items() if default is not None}

    def _is_option(self, name: cst.BaseExpression, wanted: Iterable[str]) -> bool:
        """Whether the file says that a name of a dtype may be one of some."""
        words = {each.partition(".")[2] for each in wanted}
        if literal(name) is not ...:
            return True
        return any(literal(string) in words for string in self.tree.nodes(cst.SimpleString))

    def _passed(
        self, condition: Formula, given: dict[str, cst.BaseExpression], steps: int
    ) -> Formula:
        """A formula of a function's parameters, as a formula of what a call gives for them."""
        match condition:
            case Not(part):
                return opposite(self._passed(part, given, steps))
            case All(parts):
                return both(*(self._passed(part, given, steps) for part in parts))
            case Any_(parts):
                return either(*(self._passed(part, given, steps) for part in parts))
            case Ordered() | Contains():
                return Truthy(f"{condition.key} as passed on")
            case Truthy(key) | Equals(key):
                name, dot, rest = key.partition(".")
                if name not in given:
                    return condition
                if not dot:
                    return self._of_argument(condition, given[name], steps)
                base = self._key(given[name]) or text(given[name])
                return replace(condition, key=f"{base}.{rest}")
        return condition

    def _of_argument(
        self, atom: Truthy | Equals, argument: cst.BaseExpression, steps: int
    ) -> Formula:
        known = literal(argument)
        if known is not ...:
            return known == atom.constant if isinstance(atom, Equals) else bool(known)
        return self._case_truth(atom, argument, steps)

    def _equals(self, node: cst.BaseExpression, constant: str, steps: int) -> Formula:
        """When a name, or what stands for one, is a certain word."""
        known = literal(node)
        if known is not ...:
            return known == constant
        atom = Equals(self._key(node) or text(node), constant)
        return self._expanded(atom, node, steps - 1)

    def _chosen_by_key(
        self, table: cst.BaseExpression, index: cst.BaseExpression, wanted: str, steps: int
    ) -> Formula:
        """``{"bf16": torch.bfloat16, ...}[precision]``."""
        parts: list[Formula] = []
        for known in self.values.alternatives(table):
            for name, value in self.values.items(known) or ():
                here = self._is_dtype(value, wanted, steps - 1)
                if here is not False:
                    parts.append(both(self._equals(index, name, steps), here))
        return either(*parts)

    def _where_bf16(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """The ``torch.bfloat16`` that a dtype comes from, or the dtype itself."""
        candidates = [node, *self.values.alternatives(node)]
        candidates += [v for _, v in self.cases(node) if v is not None]
        for candidate in candidates:
            for part in descendants(candidate):
                if isinstance(part, cst.Attribute) and self.names.is_any(part, {BFLOAT16}):
                    return part
        return node


def _left_open(condition: Formula, known: Formula) -> Formula:
    """A condition without what follows from something else that is known to hold."""
    if not Facts().allows(known, condition):
        return False
    if not Facts().allows(known, opposite(condition)):
        return True
    match condition:
        case All(parts):
            kept = list(parts)
            for part in sorted(parts, key=size, reverse=True):
                others = [each for each in kept if each is not part]
                if not Facts().allows(known, *others, opposite(part)):
                    kept = others
            return both(*kept)
        case Any_(parts):
            return either(*(_left_open(part, known) for part in parts))
        case Not(part):
            return opposite(_left_open(part, known))
    return condition


def _as_code(condition: Formula) -> str | None:
    """A test that can be read, of one setting."""
    match condition:
        case False:
            return "False"
        case Not(Equals(key, constant)) if _SETTING.match(key):
            return f"{key} != {json.dumps(constant)}" if isinstance(constant, str) else None
        case Equals(key, str(constant)) if _SETTING.match(key):
            return f"{key} == {json.dumps(constant)}"
        case Ordered() | Not(Ordered()):
            return None
        case Truthy(key) if _SETTING.match(key):
            return key
        case Not(Truthy(key)) if _SETTING.match(key):
            return f"not {key}"
    return None


def _takes_over(region: Region) -> bool:
    """Whether a region has the dtype of the one around it: the old calls have one of their own."""
    return region.dtype is None and DEVICE_AUTOCAST.get(region.function) != "cuda"


def _is_autocast_dtype(name: str) -> bool:
    """Whether an attribute is called after the dtype of autocast, as ``amp_dtype`` is."""
    return name.lower().startswith(_AUTOCAST) and name.lower().endswith("dtype")


def telling(condition: Formula) -> set[str]:
    """The keys in a formula that may stand for fp16: nothing follows unless their role is seen."""
    match condition:
        case Not(part):
            return telling(part)
        case All(parts) | Any_(parts):
            return {key for part in parts for key in telling(part)}
        case Equals(key, str(constant)) if not _TELLING_VALUE.search(constant):
            return set()
        case Truthy(key) | Equals(key):
            silent = _BF16.search(key) or _PROBE.search(key)
            return {key} if _TELLING.search(key) and not silent else set()
    return set()


def _named_bf16(condition: Formula) -> list[Formula]:
    """The settings in a formula that by their names say bf16: on, where the dtype is that."""
    return [Truthy(key) for key in atoms(condition) if _BF16.search(key) and "=" not in key]
