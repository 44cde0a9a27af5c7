"""What an expression certainly gives where it stands, and that computing it cannot raise.

By what is bound to the names that it reads, and never by the names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet

import libcst as cst

from amp_lint.amp.roles import SCALERS
from amp_lint.flow.values import literal
from amp_lint.syntax.names import Binding
from amp_lint.verify.compare.plain import literal_text
from amp_lint.verify.compare.shown import formats
from amp_lint.verify.compare.shown.audience import TEXTS
from amp_lint.verify.compare.shown.course import Course
from amp_lint.verify.compare.shown.formats import NUMBERS, ONES, TENSORS, Kind
from amp_lint.verify.compare.shown.losses import Losses
from amp_lint.verify.compare.shown.repeats import Repeats
from amp_lint.verify.compare.touches import counts
from amp_lint.vocabulary.amp import GET_SCALE
from amp_lint.vocabulary.operations import DTYPES

_LARGEST = 2**31
_DISPLAYS = (cst.List, cst.Tuple, cst.Set, cst.Dict, cst.ListComp, cst.SetComp, cst.DictComp)
_SUMS = (cst.Add, cst.Subtract, cst.Multiply)
_DIVISIONS = (cst.Divide, cst.FloorDivide, cst.Modulo)
_RAISING = (cst.Power, cst.LeftShift)
_MULTIPLYING = (cst.MultiplyAssign, cst.PowerAssign, cst.LeftShiftAssign)
_UNKNOWN = frozenset({Kind.ANY, Kind.LIST})
_GROWING = (cst.AddAssign, cst.SubtractAssign)
_ORDERS = (
    cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual, cst.Equal, cst.NotEqual
)  # fmt: skip
_HALVES = re.compile(r"[\ud800-\udfff]")
_WRITTEN_HALVES = re.compile(r"\\[uU]0*[dD][89a-fA-F]|[\ud800-\udfff]")
"""Halves of characters, which no encoding has."""
_LIKE_ITSELF = frozenset({"clone", "contiguous", "cpu", "detach"})
"""Methods that give a tensor of the same kind, whatever kind it is."""
_OF_FLOATS = frozenset({"abs", "double", "exp", "float", "log", "neg", "sqrt"})
_ALL_IN_ONE = frozenset({"mean", "sum"})
_OF_TENSORS: dict[str, Kind] = {
    "device": Kind.ANY, "dtype": Kind.ANY, "is_cuda": Kind.INT, "is_leaf": Kind.INT,
    "ndim": Kind.INT, "requires_grad": Kind.INT, "shape": Kind.LIST,
}  # fmt: skip
_ASKED: dict[str, Kind] = {"dim": Kind.INT, "numel": Kind.INT, "size": Kind.LIST}
_TEXT_METHODS = frozenset({"capitalize", "lower", "lstrip", "rstrip", "strip", "title", "upper"})
_VERSIONS = frozenset({"torch.version.cuda", "torch.version.git_version", "torch.version.hip"})
"""Names of torch that there are in every build of it."""
_CLOCKS = frozenset({"time.monotonic", "time.perf_counter", "time.process_time", "time.time"})


class Values:
    """What the expressions of one function give."""

    def __init__(self, course: Course, done: AbstractSet[str]) -> None:
        """``done`` are the texts of what the old function computes anyway."""
        self._course, self._names = course, course.model.names
        self._losses = Losses(course, self.kind)
        self._repeats = Repeats(course, done)
        self._open: set[int] = set()
        """Ids of the bindings that are being looked at."""

    def kind(self, node: cst.BaseExpression) -> Kind | None:
        """What an expression gives; None if it may raise, or do anything but compute."""
        found = self._of(node)
        if found is None and self._repeats.is_repeated(node):
            return Kind.ANY if self._is_text_safe else None
        return found

    @property
    def _is_text_safe(self) -> bool:
        """Whether no class of the file says itself how it is shown."""
        return not self._course.eraser.side.mentions(*TEXTS)

    def _of(self, node: cst.BaseExpression) -> Kind | None:
        match node:
            case cst.Integer() | cst.Float():
                value = literal(node)
                if isinstance(value, float):
                    return Kind.FLOAT
                return Kind.INT if isinstance(value, int) and value < _LARGEST else None
            case cst.SimpleString():
                text = literal(node)
                return Kind.TEXT if isinstance(text, str) and not _HALVES.search(text) else None
            case cst.ConcatenatedString(left=left, right=right):
                both = self.kind(left) is Kind.TEXT and self.kind(right) is Kind.TEXT
                return Kind.TEXT if both else None
            case cst.FormattedString(parts=parts):
                inner = [p for p in parts if isinstance(p, cst.FormattedStringExpression)]
                words = "".join(p.value for p in parts if isinstance(p, cst.FormattedStringText))
                is_shown = not _WRITTEN_HALVES.search(words)
                return Kind.TEXT if is_shown and all(map(self._is_formatted, inner)) else None
            case cst.Name():
                return self._of_name(node)
            case cst.Tuple(elements=elements) | cst.List(elements=elements):
                return self._of_display(elements)
            case cst.Attribute():
                return self._of_attribute(node)
            case cst.Call():
                return self._of_call(node)
        return self._of_operation(node)

    def _of_display(self, elements: Iterable[cst.BaseElement]) -> Kind | None:
        plain = all(isinstance(each, cst.Element) for each in elements)
        return Kind.LIST if plain and all(self.kind(each.value) for each in elements) else None

    def _is_formatted(self, part: cst.FormattedStringExpression) -> bool:
        """Whether a part of a text can be shown in its format."""
        spec = part.format_spec or ()
        written = "".join(each.value for each in spec if isinstance(each, cst.FormattedStringText))
        kind = self.kind(part.expression)
        if kind is None or not all(isinstance(each, cst.FormattedStringText) for each in spec):
            return False
        if part.conversion or (part.equal is not None and not spec):
            kind = Kind.TEXT
        return formats.fits(kind, written)

    # --- names --------------------------------------------------------------------------------

    def _of_name(self, name: cst.Name) -> Kind | None:
        if name.value in ("True", "False", "None"):
            return Kind.ANY if name.value == "None" else Kind.INT
        if self._course.is_receiver(name) or not self._course.is_bound(name):
            return None
        if self._losses.is_one(name):
            return Kind.SCALAR if self._losses.is_flat(name) else Kind.ONE
        kind = self._of_bindings(name)
        if kind in _UNKNOWN and not self._is_text_safe:
            return None
        is_endless = kind is Kind.ANY and any(map(_may_be_endless, self._names.bindings(name)))
        return kind if not is_endless else None

    def _of_bindings(self, name: cst.Name) -> Kind:
        course = self._course
        every = self._names.bindings(name)
        if not course.is_local(name):
            is_free = course.is_shared(name) or self._names.module.star_imports
            return self._joined(every) if len(every) == 1 and not is_free else Kind.ANY
        if course.is_shared(name):
            return Kind.ANY
        if any(isinstance(each.node, cst.AugAssign) for each in every):
            return self._joined(every)
        return self._joined(course.reaching(name))

    def _joined(self, bindings: Iterable[Binding]) -> Kind:
        kinds = {self._given(each) for each in bindings}
        if len(kinds) == 1:
            return kinds.pop()
        for several, joined in ((NUMBERS, Kind.REAL), (ONES, Kind.ONE), (TENSORS, Kind.TENSOR)):
            if kinds and kinds <= several:
                return joined
        return Kind.ANY

    def _given(self, binding: Binding) -> Kind:
        """What one binding gives its name."""
        if id(binding) in self._open:
            return Kind.ANY
        self._open.add(id(binding))
        try:
            if isinstance(binding.node, cst.For):
                return Kind.INT if self._counts(binding.node, binding.name) else Kind.ANY
            if isinstance(binding.node, cst.AugAssign):
                return self._grown(binding.node)
            return self.given(binding.value) if binding.kind == "assign" else Kind.ANY
        finally:
            self._open.discard(id(binding))

    def _grown(self, change: cst.AugAssign) -> Kind:
        """What a number is after another one was added; an int added to a float is a float."""
        kind = self.given(change.value)
        return kind if isinstance(change.operator, _GROWING) and kind in NUMBERS else Kind.ANY

    def _counts(self, loop: cst.For, name: str) -> bool:
        """Whether a name counts the rounds of a loop, from a number on."""
        call = loop.iter
        if not counts(loop, name) or not isinstance(call, cst.Call):
            return False
        known = self._names.is_only(call.func, ("builtins.range", "builtins.enumerate"))
        starts = call.args[1:] if self._names.is_any(call.func, ("builtins.enumerate",)) else ()
        return known and all(self.kind(each.value) is Kind.INT for each in starts)

    def given(self, value: cst.BaseExpression | None) -> Kind:
        """What an expression gave that was computed, whether or not it might have raised."""
        if value is None:
            return Kind.ANY
        if isinstance(value, _DISPLAYS):
            return Kind.LIST
        if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Divide):
            both = {self.given(value.left), self.given(value.right)}
            return Kind.FLOAT if both <= NUMBERS else self._of(value) or Kind.ANY
        if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Multiply):
            kind = self._of(value) or Kind.ANY
            return kind if kind is not Kind.INT else Kind.ANY  # squares of squares
        return self._of(value) or self._returned(value) or Kind.ANY

    def _returned(self, value: cst.BaseExpression) -> Kind | None:
        """What builtins return, whatever they are given, and what asks tensors for numbers."""
        if not isinstance(value, cst.Call):
            return None
        known = self._names.qualified(value.func)
        first = value.args[0].value if value.args else None
        if known == {"builtins.int"} and isinstance(first, cst.Call):
            return Kind.INT if _is_method(first, _ALL_IN_ONE | {"item"}) else None
        if isinstance(value.func, cst.Attribute) and value.func.attr.value == "item":
            summed = isinstance(value.func.value, cst.Call)
            return Kind.REAL if summed and _is_method(value.func.value, _ALL_IN_ONE) else None
        if self._is_size(value):
            return Kind.INT
        if len(known) == 1:
            return {"builtins.len": Kind.INT, "builtins.float": Kind.FLOAT,
                    "builtins.str": Kind.TEXT}.get(next(iter(known)))  # fmt: skip
        return None

    def _is_size(self, call: cst.Call) -> bool:
        """Whether a call asks how large something is, as no class of the file is asked."""
        if not isinstance(call.func, cst.Attribute):
            return False
        method, own = call.func.attr.value, self._course.model.tree.nodes(cst.FunctionDef)
        given = [literal(arg.value) for arg in call.args]
        asks = (method == "size" and len(given) == 1 and isinstance(given[0], int)) or (
            method == "numel" and not given
        )
        return asks and all(each.name.value != method for each in own)

    # --- attributes and calls -----------------------------------------------------------------

    def _of_attribute(self, node: cst.Attribute) -> Kind | None:
        known = self._names.qualified(node)
        if known and self._is_imported(node):
            if known <= _VERSIONS | DTYPES.keys():
                return Kind.ANY
            return Kind.TEXT if known == {"torch.__version__"} else None
        if self.kind(node.value) in TENSORS:
            return _OF_TENSORS.get(node.attr.value)
        return None

    def _is_imported(self, node: cst.BaseExpression) -> bool:
        while isinstance(node, cst.Attribute):
            node = node.value
        bindings = self._names.bindings(node) if isinstance(node, cst.Name) else ()
        only = bool(bindings) and all(each.kind == "import" for each in bindings)
        return only and isinstance(node, cst.Name) and self._course.is_bound(node)

    def _of_call(self, call: cst.Call) -> Kind | None:
        if any(arg.star for arg in call.args):
            return None
        known = self._names.qualified(call.func)
        if known and known <= _CLOCKS and not call.args and self._is_imported(call.func):
            return Kind.FLOAT
        if len(known) == 1 and not any(arg.keyword for arg in call.args):
            shows = _BUILTINS.get(next(iter(known)))
            return shows(self, [arg.value for arg in call.args]) if shows else None
        if known or not isinstance(call.func, cst.Attribute):
            return None
        owner, method = call.func.value, call.func.attr.value
        if method == "format" and isinstance(owner, cst.SimpleString):
            return self._of_template(str(literal(owner)), call)
        if not call.args and method == GET_SCALE.word and self._is_scaler(owner):
            return Kind.FLOAT
        return _of_method(self.kind(owner), method) if not call.args else None

    def _of_template(self, template: str, call: cst.Call) -> Kind | None:
        """What ``template.format(...)`` gives."""
        places: dict[int | str, Kind | None] = {
            arg.keyword.value if arg.keyword else index: self.kind(arg.value)
            for index, arg in enumerate(call.args)
        }
        fields = formats.fields(template)
        if fields is None or None in places.values():
            return None
        for key, conversion, spec in fields:
            kind = places.get(key)
            if kind is None or not formats.fits(Kind.TEXT if conversion else kind, spec):
                return None
        return Kind.TEXT

    def _is_scaler(self, owner: cst.BaseExpression) -> bool:
        """Whether something is torch's scaler, and is there: it was used, or made."""
        model = self._course.model
        if model.tree.named(GET_SCALE.word) and any(
            each.name.value == GET_SCALE.word for each in model.tree.nodes(cst.FunctionDef)
        ):
            return False
        if not model.roles.is_scaler(owner):
            return False
        made = self._is_made(owner) or self._repeats.is_used(owner)
        return made and (not isinstance(owner, cst.Name) or self._course.is_bound(owner))

    def _is_made(self, owner: cst.BaseExpression) -> bool:
        """Whether a constructor of a scaler is all that a name, or an attribute, is bound to."""
        model = self._course.model
        if isinstance(owner, cst.Name):
            made: list[cst.BaseExpression | None] = [
                each.value for each in self._course.reaching(owner)
            ]
        elif isinstance(owner, cst.Attribute):
            made = [*self._made_at_first(owner)]
        else:
            return False
        return bool(made) and all(
            isinstance(each, cst.Call) and model.names.is_only(each.func, SCALERS) for each in made
        )

    def _made_at_first(self, owner: cst.Attribute) -> Iterable[cst.BaseExpression]:
        """What is assigned to ``self.x``, if that is done at the end of no test of ``__init__``."""
        tree, model = self._course.model.tree, self._course.model
        within = model.values.enclosing_class(owner)
        init = model.values.method(within, "__init__") if within is not None else None
        if init is None or not isinstance(owner.value, cst.Name):
            return
        if not self._course.is_receiver(owner.value):
            return
        values = model.values.attribute_values(owner)
        statements = [tree.statement(each) for each in values]
        if any(each is not None and tree.parent(each) is init.body for each in statements):
            yield from values

    # --- operations ---------------------------------------------------------------------------

    def _of_operation(self, node: cst.BaseExpression) -> Kind | None:
        match node:
            case cst.UnaryOperation(operator=cst.Minus(), expression=inner):
                kind = self.kind(inner)
                return kind if kind in NUMBERS | ONES else None
            case cst.UnaryOperation(operator=cst.Not(), expression=inner):
                return Kind.INT if self.is_tested(inner) else None
            case cst.BinaryOperation(left=left, operator=cst.Modulo()) if _is_template(left):
                return self._of_percent(node)
            case cst.BinaryOperation():
                return self._of_two(node)
            case cst.Comparison(left=left, comparisons=[other]):
                return self._of_comparison(left, other)
            case cst.IfExp(test=test, body=body, orelse=orelse) if self.is_tested(test):
                kinds = {self.kind(body), self.kind(orelse)}
                return kinds.pop() if len(kinds) == 1 else None if None in kinds else Kind.ANY
        return None

    def is_tested(self, node: cst.BaseExpression) -> bool:
        """Whether a test has an answer, whatever it is."""
        return self.kind(node) in NUMBERS | {Kind.TEXT, Kind.LIST}

    def _of_comparison(self, left: cst.BaseExpression, other: cst.ComparisonTarget) -> Kind | None:
        one, two = self.kind(left), self.kind(other.comparator)
        if one is None or two is None:
            return None
        if isinstance(other.operator, (cst.Is, cst.IsNot)):
            return Kind.INT
        ordered = isinstance(other.operator, _ORDERS) and {one, two} <= NUMBERS
        return Kind.INT if ordered else None

    def _of_two(self, node: cst.BinaryOperation) -> Kind | None:
        left, right = self.kind(node.left), self.kind(node.right)
        if left is None or right is None:
            return None
        if isinstance(node.operator, cst.Multiply) and left is Kind.TEXT:
            times = literal(node.right)
            return Kind.TEXT if isinstance(times, int) and times < _WIDEST else None
        if {left, right} == {Kind.TEXT} and isinstance(node.operator, cst.Add):
            return Kind.TEXT
        if not isinstance(node.operator, (*_SUMS, *_DIVISIONS)):
            return None
        if {left, right} <= NUMBERS:
            return self._of_numbers(node, left, right)
        if len({left, right} & ONES) == 1 and {left, right} & NUMBERS:
            return left if left in ONES else right
        return None

    def _of_numbers(self, node: cst.BinaryOperation, left: Kind, right: Kind) -> Kind | None:
        if isinstance(node.operator, _DIVISIONS) and not self._is_positive(node.right):
            return None
        if isinstance(node.operator, cst.Divide) or Kind.FLOAT in (left, right):
            return Kind.FLOAT
        return left if left is right else Kind.REAL

    def _is_positive(self, node: cst.BaseExpression) -> bool:
        """Whether a number is more than 0: a literal one, or one more than a count."""
        value = literal(node)
        if isinstance(value, (int, float)):
            return value > 0
        match node:
            case cst.BinaryOperation(left=left, operator=cst.Add(), right=right):
                return (self._is_count(left) and self._is_positive(right)) or (
                    self._is_positive(left) and self._is_count(right)
                )
        return False

    def _is_count(self, node: cst.BaseExpression) -> bool:
        """Whether a number counts from 0 on."""
        if not isinstance(node, cst.Name) or self.kind(node) is not Kind.INT:
            return False
        loops = [each.node for each in self._course.reaching(node)]
        return all(
            isinstance(each, cst.For) and isinstance(each.iter, cst.Call)
            and len(each.iter.args) == 1
            for each in loops
        )  # fmt: skip

    def _of_percent(self, node: cst.BinaryOperation) -> Kind | None:
        """What ``template % values`` gives; one value that may be a tuple might be several."""
        template = literal(node.left)
        given = node.right
        if isinstance(given, cst.Tuple):
            values = [each.value for each in given.elements if isinstance(each, cst.Element)]
            kinds = [self.kind(each) for each in values]
            starred = len(values) < len(given.elements)
        else:
            kinds = [self.kind(given)]
            starred = kinds[0] in (Kind.ANY, Kind.LIST)
        known = [each for each in kinds if each is not None]
        if starred or len(known) < len(kinds) or not isinstance(template, str):
            return None
        return Kind.TEXT if formats.fits_percent(template, known) else None

    # --- builtins -----------------------------------------------------------------------------

    def _len(self, given: list[cst.BaseExpression]) -> Kind | None:
        kinds = [self.kind(each) for each in given]
        return Kind.INT if kinds in ([Kind.TEXT], [Kind.LIST]) else None

    def _text(self, given: list[cst.BaseExpression]) -> Kind | None:
        return Kind.TEXT if len(given) == 1 and self.kind(given[0]) else None

    def _float(self, given: list[cst.BaseExpression]) -> Kind | None:
        return Kind.FLOAT if len(given) == 1 and self.kind(given[0]) in NUMBERS | ONES else None

    def _int(self, given: list[cst.BaseExpression]) -> Kind | None:
        return Kind.INT if len(given) == 1 and self.kind(given[0]) is Kind.INT else None

    def _abs(self, given: list[cst.BaseExpression]) -> Kind | None:
        kind = self.kind(given[0]) if len(given) == 1 else None
        return kind if kind in NUMBERS | ONES else None

    def _largest(self, given: list[cst.BaseExpression]) -> Kind | None:
        """What ``max`` or ``min`` of several numbers gives."""
        kinds = {self.kind(each) for each in given}
        if len(given) < 2 or not kinds <= NUMBERS:
            return None
        return kinds.pop() if len(kinds) == 1 else Kind.REAL

    def _type(self, given: list[cst.BaseExpression]) -> Kind | None:
        return Kind.ANY if len(given) == 1 and self.kind(given[0]) else None

    def _round(self, given: list[cst.BaseExpression]) -> Kind | None:
        digits = literal(given[1]) if len(given) == 2 else None
        kind = self.kind(given[0]) if given else None
        return kind if kind in NUMBERS and isinstance(digits, int) else None


def _may_be_endless(binding: Binding) -> bool:
    """Whether a name may be bound to an int of more digits than are shown of one."""
    node, value = binding.node, binding.value
    if isinstance(node, cst.AugAssign):
        return isinstance(node.operator, _MULTIPLYING)
    return isinstance(value, cst.BinaryOperation) and isinstance(value.operator, _RAISING)


_WIDEST = 1000
_Shows = Callable[[Values, list[cst.BaseExpression]], Kind | None]
_BUILTINS: dict[str, _Shows] = {
    "builtins.abs": Values._abs, "builtins.float": Values._float, "builtins.int": Values._int,
    "builtins.len": Values._len, "builtins.repr": Values._text, "builtins.round": Values._round,
    "builtins.str": Values._text, "builtins.max": Values._largest, "builtins.min": Values._largest,
    "builtins.type": Values._type,
}  # fmt: skip


def _of_method(owner: Kind | None, method: str) -> Kind | None:
    """What a method gives that is called without arguments."""
    if owner is Kind.TEXT:
        return Kind.TEXT if method in _TEXT_METHODS else None
    if owner not in TENSORS or method in _ASKED:
        return _ASKED.get(method) if owner in TENSORS else None
    if method in _LIKE_ITSELF or (owner in ONES and method in _OF_FLOATS):
        return owner
    if owner in ONES and method in _ALL_IN_ONE:
        return Kind.SCALAR
    return Kind.FLOAT if owner in ONES and method == "item" else None


def _is_method(node: cst.BaseExpression, methods: AbstractSet[str]) -> bool:
    """Whether a call is one of a method that makes one number of a tensor."""
    if not isinstance(node, cst.Call) or node.args or not isinstance(node.func, cst.Attribute):
        return False
    return node.func.attr.value in methods


def _is_template(node: cst.BaseExpression) -> bool:
    return literal_text(node) is not None and isinstance(literal(node), str)
