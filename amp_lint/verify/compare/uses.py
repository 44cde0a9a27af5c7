"""Where two texts use torch's AMP interface, side by side."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from amp_lint.amp.ambient import changes_dtype, inherited
from amp_lint.amp.kinds import ObjectKind
from amp_lint.model import Model
from amp_lint.syntax.references import Reference, is_read, reference
from amp_lint.syntax.tree import descendants
from amp_lint.verify.compare.lift import Lifter, is_amp
from amp_lint.verify.compare.units import name_of
from amp_lint.verify.obligations import Object, Place, Use
from amp_lint.verify.terms import Const, Form, Global, Op, Term
from amp_lint.vocabulary.amp import DEFAULT_DTYPES, DEPRECATED_STATE, DEVICE_AUTOCAST, GRAD_SCALER
from amp_lint.vocabulary.meaning import Part

_TESTS = ("type", "exact type")
_Family = tuple[str, str, str]
"""Function, what is used there, what it is bound to."""
_SETTERS = [name.rpartition(".")[2] for name in DEPRECATED_STATE if ".set_" in name]
_SETTERS += [new.rpartition(".")[2] for new, _ in DEPRECATED_STATE.values() if ".set_" in new]
_DEVICE = re.compile(r"_(gpu|cpu|xla|ipu)(?=_|$)")


@dataclass(frozen=True, slots=True, eq=False)
class AmpUse:
    """One use of torch's AMP interface, and where it stands."""

    use: Use
    function: str
    line: int
    nested: bool
    owned: bool
    """Whether what it does is compared besides: it makes a region that is entered, or a scaler."""

    bound: str
    """What a scaler is bound to, as it is written; of an argument of another use, ","."""

    @property
    def member(self) -> str:
        """Its name in the module, the same for what is one thing under its old and new name."""
        return _DEVICE.sub("", self.use.name.rpartition(".")[2])

    @property
    def family(self) -> _Family:
        """Equal for uses of one thing in one place."""
        return self.function, self.member, self.bound


def compare_uses(before: list[AmpUse], after: list[AmpUse]) -> Iterator[Object]:
    """An obligation for every use that became another one, and for tests of what became another."""
    pairs = list(_pairs(before, after))
    for old, new in pairs:
        made = tuple(
            (o.use, n.use)
            for o, n in pairs
            if (old.use.kind in _TESTS or _may_ask(old))
            and o.use.kind == "call"
            and o.member == old.member
        )
        if old.use != new.use or any(o.name != n.name for o, n in made):
            place = Place(old.line, new.line, old.function)
            yield Object(place, old.use, new.use, old.nested, made)


def _may_ask(site: AmpUse) -> bool:
    """Whether a class of scalers is handed on, or matched, so that somebody may ask for it."""
    return site.use.kind in ("value", "base") and site.member.endswith(GRAD_SCALER.word)


def lonely_uses(before: list[AmpUse], after: list[AmpUse]) -> Iterator[str]:
    """Reasons for what is used on one side only, but for regions and scalers.

    Those are compared by what they do: as states of operations, and in training steps. A context
    that nothing here enters does nothing that could be compared; of scalers with one name, the
    last is that of the step.
    """
    paired = {id(site) for pair in _pairs(before, after) for site in pair}
    bound = [{site.family for site in sites if site.bound} for sites in (before, after)]
    for sites, how in ((before, "removed"), (after, "added")):
        for site in sites:
            owned = site.owned and not all(site.family in families for families in bound)
            if id(site) not in paired and not owned:
                yield f"line {site.line}: `{site.member}` was {how}"


def _pairs(before: list[AmpUse], after: list[AmpUse]) -> Iterator[tuple[AmpUse, AmpUse]]:
    """The uses of each family in order; of one that a text has more of, what is between equals."""
    for family in dict.fromkeys(site.family for site in (*before, *after)):
        old, new = ([s for s in sites if s.family == family] for sites in (before, after))
        if len(old) == len(new):
            yield from zip(old, new, strict=True)
        else:
            yield from _between_equals(old, new)


def _between_equals(
    before: Sequence[AmpUse], after: Sequence[AmpUse]
) -> Iterator[tuple[AmpUse, AmpUse]]:
    old, new = ([site.use for site in sites] for sites in (before, after))
    for _, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if j - i == m - k:
            yield from zip(before[i:j], after[k:m], strict=True)


def amp_uses(lifter: Lifter) -> Iterator[AmpUse]:
    """Every use, in order."""
    model = lifter.model
    compared = {id(part) for node in _compared(lifter) for part in descendants(node)}
    inside = {
        id(part)
        for call in model.tree.nodes(cst.Call)
        for arg in call.args[lifter.is_partial(call) :]
        for part in descendants(arg)
    }
    for found in _references(model, model.tree.module):
        node = found.node
        start, _ = model.tree.span(node)
        line = model.source.position(start)[0]
        owned = id(node) in compared and id(node) not in inside
        bound = "," if id(node) in inside else _bound(model, found)
        nested = _is_nested(model, found)
        yield AmpUse(_use(lifter, found), name_of(model, node), line, nested, owned, bound)


def _references(model: Model, within: cst.CSTNode) -> Iterator[Reference]:
    """The outermost expressions that stand for one AMP name, and are read."""
    tree, names = model.tree, model.names
    nodes: list[cst.Name | cst.Attribute] = [
        *tree.below(within, cst.Name),
        *tree.below(within, cst.Attribute),
    ]
    for node in sorted(nodes, key=tree.order):
        found = sorted(name for name in names.qualified(node) if is_amp(name))
        holder = tree.parent(node)
        longer = names.qualified(holder) if isinstance(holder, cst.Attribute) else ()
        if found and is_read(tree, node) and not any(map(is_amp, longer)):
            name = found[0] if len(found) == 1 else f"one of {', '.join(found)}"
            yield reference(tree, names, node, name)


def _bound(model: Model, found: Reference) -> str:
    """What a scaler is bound to that is made here; "" if to nothing."""
    call = found.call
    if call is None or not model.roles.is_constructor(call):
        return ""
    holder = model.tree.parent(call)
    targets = [each.target for each in holder.targets] if isinstance(holder, cst.Assign) else []
    return " = ".join(map(model.tree.source, targets))


def _compared(lifter: Lifter) -> Iterator[cst.CSTNode]:
    """What makes the regions that are entered here, and what is bound to a name as a scaler."""
    model = lifter.model
    for region in model.regions.all:
        for context in (region.node, *region.choices):
            yield context
            if isinstance(context, cst.Call):
                yield from model.values.alternatives(context.func)
    yield from model.roles.scaler_calls


def _is_nested(model: Model, found: Reference) -> bool:
    """Whether autocast is used where another region may be active."""
    if found.name not in DEVICE_AUTOCAST or found.call is None:
        return False
    if isinstance(model.tree.parent(found.call), cst.Decorator):
        return False  # it is made where the function is
    device = DEVICE_AUTOCAST[found.name]
    default = DEFAULT_DTYPES[device]
    around = (each.region for chain in model.reach.running(found.call) for each in chain.entered)
    others = (region for region in around if region.node is not found.call)
    if any(changes_dtype(region, model.names, device, default) for region in others):
        return True
    if _may_be_other(model, found.call):
        return True
    taken = inherited(model.regions, model.names, found.call, device, default)
    return Part.DTYPE in taken


def _may_be_other(model: Model, call: cst.Call) -> bool:
    """Whether what autocast casts to may have been set: by a call, a stack, or who runs this.

    A function that is handed on may be run in each region of the file.
    """
    if any(model.tree.named(name) for name in _SETTERS):
        return True
    function = model.tree.ancestor(call, cst.FunctionDef)
    others = [region for region in model.regions.all if region.dtype is not None]
    if function is None or not others:
        return False
    stacked = (each.node for each in others if isinstance(model.tree.parent(each.node), cst.Arg))
    if any(model.tree.contains(function, node) for node in stacked):
        return True
    named = model.tree.named(function.name.value)
    return any(isinstance(model.tree.parent(node), cst.Arg) for node in named)


def _use(lifter: Lifter, found: Reference) -> Use:
    if found.role == "type":
        return _test(lifter.model, found)
    if found.call is None:
        return Use(found.role, found.name)
    keywords: dict[str, Term] = {}
    args: list[Term] = []
    given = found.call.args[found.skipped :]
    for arg in given:
        term = argument_term(lifter, arg.value)
        if arg.keyword is not None:
            keywords[arg.keyword.value] = term
        elif not arg.star:
            args.append(term)
    by_name = tuple(sorted(keywords.items(), key=lambda item: item[0]))
    starred = any(arg.star for arg in given)
    return Use(found.role, found.name, tuple(args), by_name, starred)


def _test(model: Model, found: Reference) -> Use:
    """A test of a type, with all classes of the interface that it names."""
    holders = model.tree.ancestors(found.node)
    test = next(each for each in holders if isinstance(each, (cst.Arg, cst.Comparison)))
    kind = "type" if isinstance(test, cst.Arg) else "exact type"
    return Use(kind, found.name, tuple(Global(each.name) for each in _references(model, test)))


def argument_term(lifter: Lifter, node: cst.BaseExpression) -> Term:
    """An argument; of one that is no literal it is kept whether it is a bool or a device."""
    term, kind = lifter.term(node, {}), lifter.model.kinds.of(node)
    if isinstance(term, Const) or kind not in (ObjectKind.BOOL, ObjectKind.DEVICE):
        return term
    return Op(Form.OTHER, "bool" if kind is ObjectKind.BOOL else "device", (term,))
