"""Values that get another dtype, where nothing else of them differs.

Whether the old code failed there only its tensors could tell. So that is never proven: but it is
all that differs, and as much as a setting that became another one. Only where float32, float64 or
the dtype of another value takes the place of what there was: a smaller dtype may lose numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import libcst as cst

from amp_lint.model import Model
from amp_lint.syntax.names import dotted
from amp_lint.syntax.tree import descendants
from amp_lint.verify.compare.align import Differing
from amp_lint.verify.compare.effect_free import is_opaque
from amp_lint.verify.compare.erase import Eraser
from amp_lint.verify.compare.plain import BLOCK, Plain
from amp_lint.verify.terms import Form, Input, Op, Term, mapped
from amp_lint.vocabulary.operations import CASTS, DTYPES

_WIDE, _LOW = frozenset({"float32", "float64"}), frozenset({"float16", "bfloat16"})
_LIKE, _TYPED = "type_as", frozenset({"to", "type"})
_DTYPE = "dtype"
_OF, _NAMED = "the dtype of ", "the dtype "
"""Before what a dtype is written as, where it is no literal."""
_AROUND = 2
"""How far around a place that differs a cast may stand: ``x.numpy`` of ``x.float().numpy()``."""
_ASKING = frozenset({"dtype", "is_autocast_enabled", "is_floating_point"})
_TEST = (
    cst.And, cst.Arg, cst.Attribute, cst.BooleanOperation, cst.Call, cst.Comparison,
    cst.ComparisonTarget, cst.Equal, cst.In, cst.Name, cst.Not, cst.NotEqual, cst.NotIn, cst.Or,
    cst.Tuple, cst.UnaryOperation, cst.Element,
)  # fmt: skip
"""What a test is made of that only asks for a dtype."""
Cast = tuple[str, str]
"""What a value was, and what it is now, in words."""


class Casts:
    """Tells which places of two texts differ in dtypes alone."""

    def __init__(self, before: Eraser, after: Eraser) -> None:
        self._before, self._after = before, after

    def of(self, place: Differing) -> Cast | None:
        """What is cast at a place, and what to; None if something else differs."""
        if place.before is None or place.after is None:
            return self._statement(place)
        pairs = ((place.before, place.after), *place.around[:_AROUND])
        return next(filter(None, itertools.starmap(self._value, pairs)), None)

    def _value(self, old: Plain, new: Plain) -> Cast | None:
        """Of an expression in both texts."""
        one, other = _value_of(old.node), _value_of(new.node)
        if one is None or other is None:
            return None
        was, becomes = dtype_of(self._before.model, one), dtype_of(self._after.model, other)
        if was and becomes:
            given = _takes_dtype(self._before.model, one) and _takes_dtype(self._after.model, other)
            return (_in(was), _in(becomes)) if given and _is_wider(was, becomes) else None
        made = self._argument(one, other)
        if made is not None:
            return made
        old_core, was = _cast(self._before.model, one)
        new_core, becomes = _cast(self._after.model, other)
        same = self._before.plain(old_core).digest == self._after.plain(new_core).digest
        if not same or was == becomes or not _is_wider(was, becomes):
            return None
        text = " ".join(self._before.model.tree.source(old_core).split())
        return f"`{text}` {_in(was)}", f"`{text}` {_in(becomes)}"

    def _argument(self, one: cst.BaseExpression, other: cst.BaseExpression) -> Cast | None:
        """Of ``zeros(2)`` and ``zeros(2, dtype=x.dtype)``: two calls that differ in that alone."""
        if not isinstance(one, cst.Call) or not isinstance(other, cst.Call):
            return None
        found = []
        for eraser, call in ((self._before, one), (self._after, other)):
            given = [arg for arg in call.args if _keyword(arg) == _DTYPE]
            rest = [eraser.plain(arg).digest for arg in call.args if arg not in given]
            dtype = _named_dtype(eraser.model, given[0].value) if given else ""
            if given and not dtype:
                return None
            found.append(((eraser.plain(call.func).digest, *rest), dtype))
        (old, was), (new, becomes) = found
        if old != new or was == becomes or not _is_wider(was, becomes):
            return None
        text = self._before.model.tree.source(one.func)
        return f"what `{text}` makes {_in(was)}", f"what `{text}` makes {_in(becomes)}"

    def _statement(self, place: Differing) -> Cast | None:
        """``x = x.float()`` in one of both texts, or the same under a test of a dtype."""
        eraser, code = (self._before, place.before) if place.before else (self._after, place.after)
        assert code is not None
        known = self._is_kept(code.node) if place.before is None else ""
        if known:
            return f"no `{known}`", f"`{known}`, a dtype"
        casts = [*_rebound(eraser.model, code)]
        found: list[str] = []
        for target, core, dtype in casts:
            gone, come = (dtype, "") if place.before else ("", dtype)
            if (
                dotted(target) is None
                or dotted(target) != dotted(core)
                or not _is_wider(gone, come)
            ):
                return None
            found.append(f"`{dotted(target)}` {_in(dtype)}")
        text = ", ".join(found)
        as_it_is = ", ".join(f"`{dotted(target)}` {_in('')}" for target, *_ in casts)
        return None if not casts else (text, as_it_is) if place.before else (as_it_is, text)

    def _is_kept(self, code: cst.CSTNode) -> str:
        """The name, new to the text, that a statement gives a dtype: ``dtype = x.dtype``."""
        match code:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=value):
                is_new = not self._before.model.tree.named(name)
                return name if is_new and dtype_of(self._after.model, value) else ""
        return ""


def is_of_casts(before: Term, after: Term) -> bool:
    """Whether two terms differ in casts alone, and nobody knows what they call."""
    return is_opaque(before) and _without_casts(before) == _without_casts(after)


def _without_casts(term: Term) -> Term:
    """A term without what casts its parts, whenever these are read."""
    match term:
        case Input(key):
            return Input(key)
        case Op(Form.METHOD, name, (core,), ()) if CASTS.get(name) in _WIDE | _LOW:
            return _without_casts(core)
        case Op(Form.METHOD, name, (core, *_)) if name in _TYPED or name == _LIKE:
            return _without_casts(core)
    return mapped(term, _without_casts)


def _keyword(arg: cst.Arg) -> str:
    return arg.keyword.value if arg.keyword is not None else ""


def _named_dtype(model: Model, node: cst.BaseExpression) -> str:
    """Which dtype is given as one: that of a name, or of a call that is given nothing, too."""
    called = node.func if isinstance(node, cst.Call) and not node.args else node
    name = dotted(called)
    is_torch = any(known.startswith("torch.") for known in model.names.qualified(called))
    named = f"{_NAMED}{model.tree.source(node)}" if name and not is_torch else ""
    return dtype_of(model, node) or named


def _rebound(
    model: Model, code: Plain
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression, str]]:
    """What statements give another dtype and nothing else: target, value, and dtype.

    What is something else has a dtype that is none.
    """
    match code.node:
        case cst.Assign(targets=[cst.AssignTarget(target=target)], value=value):
            yield (target, *_cast(model, value))
        case cst.If(test=test, orelse=None) if _asks_for_dtype(test):
            blocks = [part for part in code.parts if part.kind == BLOCK]
            for part in (each for block in blocks for each in block.parts):
                yield from _rebound(model, part)
        case _:
            yield cst.Name("_"), cst.Name("_"), ""


def _asks_for_dtype(test: cst.BaseExpression) -> bool:
    parts = [test, *descendants(test)]
    calls = [part for part in parts if isinstance(part, cst.Call)]
    names = [part.attr.value for part in parts if isinstance(part, cst.Attribute)]
    asks = all((dotted(call.func) or "").rpartition(".")[2] in _ASKING for call in calls)
    code = (
        p for p in parts if isinstance(p, (cst.BaseExpression, cst.BaseCompOp, cst.BaseUnaryOp))
    )
    return asks and not _ASKING.isdisjoint(names) and all(isinstance(p, _TEST) for p in code)


def _value_of(node: cst.CSTNode) -> cst.BaseExpression | None:
    """The expression that a part is, or has: that of an argument."""
    if isinstance(node, cst.Arg):
        return node.value
    return node if isinstance(node, cst.BaseExpression) else None


def _cast(model: Model, node: cst.BaseExpression) -> tuple[cst.BaseExpression, str]:
    """What an expression casts, and what to: ``x`` and ``float32`` of ``x.float()``."""
    match node:
        case cst.Call(func=cst.Attribute(value=core, attr=attr), args=[]):
            dtype = CASTS.get(attr.value, "")
            return (core, dtype) if dtype in _WIDE | _LOW else (node, "")
        case cst.Call(func=cst.Attribute(value=core, attr=attr), args=[arg]) if not arg.star:
            keyword = arg.keyword.value if arg.keyword is not None else _DTYPE
            like = dotted(arg.value) if attr.value == _LIKE else None
            named = _named_dtype if arg.keyword is not None else dtype_of
            dtype = f"{_OF}{like}" if like else named(model, arg.value)
            if dtype and keyword == _DTYPE and (like or attr.value in _TYPED):
                return core, dtype
    return node, ""


def dtype_of(model: Model, node: cst.BaseExpression) -> str:
    """Which dtype an expression is: ``float32``, or in words; "" if it is none."""
    names = model.names.qualified(node)
    known = {DTYPES.get(name, "") for name in names}
    if len(known) == 1 and known <= _WIDE | _LOW:
        return known.pop()
    match node:
        case cst.Attribute(value=owner, attr=attr) if attr.value == _DTYPE:
            return f"{_OF}{dotted(owner)}" if dotted(owner) else ""
        case cst.IfExp(test=test, body=body, orelse=orelse):
            calls = any(isinstance(part, cst.Call) for part in (test, *descendants(test)))
            known = {_no_name(model, body), _no_name(model, orelse), *[""] * calls}
            return "" if "" in known else f"{_NAMED}{model.tree.source(node)}"
        case cst.Name(value=name):
            values = [each.value for each in model.names.bindings(node)]
            known = {"" if v is None or v is node else _no_name(model, v) for v in values}
            found = known.pop() if len(known) == 1 else f"{_NAMED}{name}"
            return "" if not values or "" in {found, *known} else found
    return ""


def _no_name(model: Model, node: cst.BaseExpression) -> str:
    """Which dtype an expression is, if it is no name itself: what that stands for may have it."""
    return "" if isinstance(node, cst.Name) else dtype_of(model, node)


def _takes_dtype(model: Model, node: cst.BaseExpression) -> bool:
    """Whether a dtype is given to what makes or casts a tensor."""
    arg = model.tree.parent(node)
    call = model.tree.parent(arg) if isinstance(arg, cst.Arg) else None
    if not isinstance(call, cst.Call) or not isinstance(arg, cst.Arg):
        return False
    if arg.keyword is not None:
        return arg.keyword.value == _DTYPE
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in _TYPED


def _is_wider(was: str, becomes: str) -> bool:
    """Whether a dtype, or none, became one that can hold as much, or that of another value."""
    if becomes in _WIDE:
        return was not in _WIDE or becomes == was
    if becomes in _LOW:
        return False
    return was not in _WIDE and (bool(becomes) or was in _LOW)


def _in(dtype: str) -> str:
    if not dtype:
        return "as it is"
    for prefix in (_OF, _NAMED):
        if dtype.startswith(prefix):
            return f"in {prefix}`{dtype.removeprefix(prefix)}`"
    return f"in {dtype}"
