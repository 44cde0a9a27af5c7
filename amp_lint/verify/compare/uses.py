"""Where two texts use torch's AMP interface, side by side."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from amp_lint.amp.ambient import inherited
from amp_lint.amp.kinds import ObjectKind
from amp_lint.amp.roles import SCALERS
from amp_lint.model import Model
from amp_lint.syntax.tree import descendants
from amp_lint.verify.compare.lift import Lifter, is_amp
from amp_lint.verify.compare.units import name_of
from amp_lint.verify.obligations import Object, Place, Use
from amp_lint.verify.terms import Const, Form, Global, Op, Term
from amp_lint.vocabulary.amp import DEFAULT_DTYPES, DEVICE_AUTOCAST, GRAD_SCALER
from amp_lint.vocabulary.meaning import Part

_PARTIAL = "functools.partial"
_Family = tuple[str, str, str]
"""Function, what is used there, what it is bound to."""
_NAMED = ("reference", "annotation")
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
    def family(self) -> _Family:
        """Equal for uses of what is one thing under its old and its new name."""
        member = self.use.args[0] if self.use.name == _PARTIAL else Global(self.use.name)
        assert isinstance(member, Global)
        last = member.name.rpartition(".")[2]
        return self.function, _DEVICE.sub("", last), self.bound


def compare_uses(before: list[AmpUse], after: list[AmpUse]) -> Iterator[Object]:
    """An obligation for every use that became another one."""
    pairs = list(_pairs(before, after))
    made = next(((o.use, n.use) for o, n in pairs if _makes_scaler(o.use)), None)
    for old, new in pairs:
        is_scaler = old.use.kind == "reference" and _is_scaler(old.use.name)
        about = made if is_scaler and made and made[0].name != made[1].name else None
        if old.use != new.use or about is not None:
            place = Place(old.line, new.line, old.function)
            yield Object(place, old.use, new.use, old.nested, about)


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
                yield f"line {site.line}: `{site.family[1]}` was {how}"


def _pairs(before: list[AmpUse], after: list[AmpUse]) -> Iterator[tuple[AmpUse, AmpUse]]:
    old, new = ([site.family for site in sites] for sites in (before, after))
    families = dict.fromkeys((*old, *new))
    uneven = [family for family in families if old.count(family) != new.count(family)]
    for tag, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal" or (tag == "replace" and j - i == m - k and _alike(old[i:j], new[k:m])):
            pairs = zip(before[i:j], after[k:m], strict=True)
            yield from (pair for pair in pairs if pair[0].family not in uneven)
    for family in uneven:
        sides = ([s for s in sites if s.family == family] for sites in (before, after))
        yield from _of_family(*sides)


def _of_family(before: list[AmpUse], after: list[AmpUse]) -> Iterator[tuple[AmpUse, AmpUse]]:
    """The pairs of what is used more often in one text: those that are the same, and in between."""
    old, new = ([site.use for site in sites] for sites in (before, after))
    for tag, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal" or (tag == "replace" and j - i == m - k):
            yield from zip(before[i:j], after[k:m], strict=True)


def _alike(old: list[_Family], new: list[_Family]) -> bool:
    return [member for _, member, _ in old] == [member for _, member, _ in new]


def _makes_scaler(use: Use) -> bool:
    return use.kind == "call" and _is_scaler(use.name)


def _is_scaler(name: str) -> bool:
    return name in SCALERS or name.endswith(f".{GRAD_SCALER.word}")


def amp_uses(lifter: Lifter) -> Iterator[AmpUse]:
    """Every use, in order."""
    model = lifter.model
    compared = {id(part) for node in _compared(lifter) for part in descendants(node)}
    inside = {
        id(part)
        for call in model.tree.nodes(cst.Call)
        if lifter.is_amp_call(call)
        for arg in call.args[lifter.is_partial(call) :]
        for part in descendants(arg)
    }
    for node in sorted(_references(model), key=model.tree.order):
        (name,) = (n for n in model.names.qualified(node) if is_amp(n))
        use = _use(lifter, node, name)
        if use is None or (use.kind in _NAMED and id(node) in inside):
            continue  # an argument of another use, which has it
        start, _ = model.tree.span(node)
        line = model.source.position(start)[0]
        nested = _is_nested(model, node, name)
        owned = use.kind in _NAMED or (id(node) in compared and id(node) not in inside)
        bound = "," if id(node) in inside else _bound(model, node)
        yield AmpUse(use, name_of(model, node), line, nested, owned, bound)


def _bound(model: Model, node: cst.CSTNode) -> str:
    """What a scaler is bound to that a call of ``node`` makes; "" if to nothing."""
    call = model.tree.parent(node)
    holder = model.tree.parent(call) if call is not None else None
    if not isinstance(call, cst.Call) or not model.roles.is_constructor(call):
        return ""
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


def _is_nested(model: Model, node: cst.CSTNode, name: str) -> bool:
    """Whether autocast is used where another region may be active."""
    call = model.tree.parent(node)
    if name not in DEVICE_AUTOCAST or not isinstance(call, cst.Call):
        return False
    device = DEVICE_AUTOCAST[name]
    taken = inherited(model.regions, model.names, call, device, DEFAULT_DTYPES[device])
    return Part.DTYPE in taken


def _references(model: Model) -> Iterator[cst.Name | cst.Attribute]:
    """The outermost expressions that stand for one AMP name, and are read."""
    nodes: list[cst.Name | cst.Attribute] = [
        *model.tree.nodes(cst.Name),
        *model.tree.nodes(cst.Attribute),
    ]
    for node in nodes:
        if len([name for name in model.names.qualified(node) if is_amp(name)]) == 1 and not (
            _is_part(model, node) or _is_target(model, node)
        ):
            yield node


def _is_part(model: Model, node: cst.CSTNode) -> bool:
    """Whether a name is a part of an import, or of a longer name that counts itself."""
    holder = model.tree.parent(node)
    if isinstance(holder, cst.Attribute):
        return holder.value is not node or any(map(is_amp, model.names.qualified(holder)))
    return model.tree.ancestor(node, cst.Import) is not None or (
        model.tree.ancestor(node, cst.ImportFrom) is not None
    )


def _is_target(model: Model, node: cst.CSTNode) -> bool:
    """Whether a name is bound here, or is the keyword of an argument, and not read."""
    holder = model.tree.parent(node)
    if isinstance(holder, (cst.AssignTarget, cst.AnnAssign)):
        return holder.target is node
    if isinstance(holder, (cst.Arg, cst.Param)):
        return getattr(holder, "keyword", None) is node or getattr(holder, "name", None) is node
    return isinstance(holder, (cst.FunctionDef, cst.ClassDef)) and holder.name is node


def _use(lifter: Lifter, node: cst.Name | cst.Attribute, name: str) -> Use | None:
    holder = lifter.model.tree.parent(node)
    if isinstance(holder, cst.Call) and holder.func is node:
        return _call(lifter, holder, name)
    if isinstance(holder, cst.Decorator):
        return Use("decorator", name)
    if isinstance(holder, cst.Arg):
        call = lifter.model.tree.parent(holder)
        partial = isinstance(call, cst.Call) and lifter.model.names.is_any(call.func, {_PARTIAL})
        if isinstance(call, cst.Call) and partial and call.args[0] is holder:
            return _call(lifter, call, _PARTIAL, node, name)
    annotates = lifter.model.tree.ancestor(node, cst.Annotation) is not None
    return Use("annotation" if annotates else "reference", name)


def argument_term(lifter: Lifter, node: cst.BaseExpression) -> Term:
    """An argument; of one that is no literal it is kept whether it is a bool or a device."""
    term, kind = lifter.term(node, {}), lifter.model.kinds.of(node)
    if isinstance(term, Const) or kind not in (ObjectKind.BOOL, ObjectKind.DEVICE):
        return term
    return Op(Form.OTHER, "bool" if kind is ObjectKind.BOOL else "device", (term,))


def _call(
    lifter: Lifter, call: cst.Call, name: str, about: cst.CSTNode | None = None, amp: str = ""
) -> Use:
    """The use that a call is; ``about`` is the argument that stands for ``amp`` in a partial."""
    keywords: dict[str, Term] = {}
    args: list[Term] = []
    for arg in call.args:
        term = Global(amp) if arg.value is about else argument_term(lifter, arg.value)
        if arg.keyword is not None:
            keywords[arg.keyword.value] = term
        elif not arg.star:
            args.append(term)
    starred = any(arg.star for arg in call.args)
    by_name = tuple(sorted(keywords.items(), key=lambda item: item[0]))
    return Use("call", name, tuple(args), by_name, starred)
