"""Abstract dtypes: what a value may be, and what an operation makes of values under autocast.

A tensor is the set of dtypes that it may have; `ANY` in it stands for all that is not known. What
is found is possible in some run, as far as the text tells: not in all.
"""

from __future__ import annotations

import enum
import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import libcst as cst

from amp_lint.vocabulary.operations import ARRANGING, LEVEL, VIEWS, operations

ANY = "?"
LOW = frozenset({"float16", "bfloat16"})
_CAST = LOW | {"float32"}
"""What autocast casts; float64 and integers are left alone."""
_FLOATING = _CAST | {"float64"}
_ORDER = ("bool", "uint8", "int8", "int16", "int32", "int64", "bfloat16", "float16", "float32",
          "float64", "complex32", "complex64", "complex128")  # fmt: skip
COMPLEX = frozenset({"complex32", "complex64", "complex128"})
_MIXING = ("_loss", "_with_logits")
"""Operations that treat operands of two dtypes each in its own way."""
_MOST_DTYPES = 5
"""Beyond which a value is taken for unknown."""


class Kind(enum.Enum):
    """What a value is."""

    TENSOR = "tensor"
    NUMBER = "number"
    DTYPE = "dtype"
    ITEMS = "tuple"
    RECORD = "record"
    """Items that have names: a dict, or an object that is made of keywords."""
    OTHER = "other"
    """A module, a string, a function: nothing that an operation computes with."""


class Series(enum.Enum):
    """What the numbers of a tensor are, as far as that is known."""

    NONE = ""
    WHOLE = "whole"
    """Whole numbers as they come: positions, indices, times."""
    EVEN = "even"
    """Such, scaled."""
    POWERS = "powers"
    """A base to the power of such, as the frequencies of positions are; not what is exact."""


class Dims(enum.Enum):
    """Whether a tensor has dimensions: one without does not promote those that have."""

    NONE = "0"
    SOME = "1 or more"
    UNKNOWN = "?"


@dataclass(frozen=True, slots=True)
class Value:
    """What is known of one value."""

    kind: Kind
    dtypes: frozenset[str] = frozenset()
    """Of a tensor those that it may have; of a dtype object those that it may be."""
    dims: Dims = Dims.UNKNOWN
    number: float | None = None
    """The value of a number, if it is known; or of a tensor that is made of one."""
    floating: bool = True
    """Of a number: whether it is (or may be) a float."""
    items: tuple[Value, ...] = ()
    names: tuple[str, ...] = ()
    """Of the items of a record."""
    why: cst.CSTNode | None = field(default=None, compare=False)
    """The operation or cast that made it low."""
    cast: bool = False
    """Whether it is low only if autocast is on, where that is not certain."""
    series: Series = Series.NONE
    most: float | None = None
    """Of whole numbers the largest, where that is written."""
    follows: str = ""
    """The parameter of the function whose dtype it has, where that may be any."""
    off_cuda: bool = False
    """Whether it is known to be elsewhere than on CUDA, whose autocast then leaves it alone."""

    @property
    def is_tensor(self) -> bool:
        """Whether it is a tensor, or may be one."""
        return self.kind is Kind.TENSOR

    @property
    def counts(self) -> bool:
        """Whether it holds positions, indices or times as they come."""
        return self.series is Series.WHOLE

    @property
    def locates(self) -> bool:
        """Whether it holds positions, or the frequencies that these are multiplied by."""
        return self.series in (Series.WHOLE, Series.POWERS)

    @property
    def turns(self) -> bool:
        """Whether it holds frequencies: how far an angle turns from one position to the next."""
        return self.series is Series.POWERS

    @property
    def low(self) -> frozenset[str]:
        """The dtypes of 16 bits that it may have."""
        return self.dtypes & LOW if self.is_tensor else frozenset()

    @property
    def is_known(self) -> bool:
        """Whether it can only have the dtypes that are listed."""
        return self.is_tensor and ANY not in self.dtypes

    @property
    def is_wide(self) -> bool:
        """Whether it may have a dtype that is known and has more than 16 bits."""
        return bool(self.dtypes - LOW - {ANY})

    def may_be(self, dtype: str) -> bool:
        """Whether some run gives the tensor this dtype, as far as the text tells."""
        return self.is_tensor and dtype in self.dtypes


_MOST_NAMES = 32
"""Beyond which nothing is known of a record."""
UNKNOWN = Value(Kind.TENSOR, frozenset({ANY}))
OTHER = Value(Kind.OTHER)
SOME_NUMBER = Value(Kind.NUMBER)


def tensor(*dtypes: str, dims: Dims = Dims.SOME, why: cst.CSTNode | None = None) -> Value:
    """A tensor of one of some dtypes."""
    return Value(Kind.TENSOR, frozenset(dtypes), dims, why=why)


def number(value: float | None, floating: bool | None = None) -> Value:
    """A number of Python's."""
    is_float = isinstance(value, float) or value is None if floating is None else floating
    return Value(Kind.NUMBER, number=value, floating=is_float)


def record(items: Mapping[str, Value]) -> Value:
    """Items with names; what is a record itself is not looked into, so that none grows for ever."""
    if not 0 < len(items) <= _MOST_NAMES:
        return OTHER
    flat = tuple(OTHER if item.kind is Kind.RECORD else item for item in items.values())
    return Value(Kind.RECORD, items=flat, names=tuple(items))


def held(value: Value, name: str) -> Value:
    """An item of a record: what was put there, or what somebody else has put there since."""
    if name not in value.names:
        return UNKNOWN
    item = value.items[value.names.index(name)]
    return replace(item, dtypes=item.dtypes | {ANY}) if item.is_tensor else item


def told(value: Value, names: Mapping[str, str], *, lowered: bool = False) -> Value:
    """A value as another function sees it, which calls the parameters that it follows so.

    What a function may be given for all it does is no news to those that it calls, or that call it;
    what is ``lowered`` by autocast on the way is.
    """
    items = tuple(told(item, names, lowered=lowered) for item in value.items)
    is_any = not lowered and ANY in value.dtypes and value.dtypes >= LOW
    dtypes = frozenset({ANY}) if is_any else value.dtypes
    return replace(value, dtypes=dtypes, follows=names.get(value.follows, ""), items=items)


def join(one: Value, other: Value) -> Value:
    """What is one of two values."""
    if one == other:
        return one
    kinds = {one.kind, other.kind}
    if kinds == {Kind.NUMBER}:
        return number(None, one.floating or other.floating)
    if kinds == {Kind.ITEMS} and len(one.items) == len(other.items):
        return Value(Kind.ITEMS, items=tuple(map(join, one.items, other.items)))
    if kinds == {Kind.RECORD}:
        both = dict(zip(one.names, one.items, strict=True))
        for name, item in zip(other.names, other.items, strict=True):
            both[name] = join(both[name], item) if name in both else item
        return record(both)
    if kinds <= {Kind.OTHER, Kind.RECORD}:
        return OTHER
    tensors = [value for value in (one, other) if value.kind in (Kind.TENSOR, Kind.DTYPE)]
    if not tensors:
        return UNKNOWN
    mixed = len(kinds) > 1
    dtypes = frozenset().union(*(value.dtypes for value in tensors), {ANY} if mixed else ())
    if len(dtypes) > _MOST_DTYPES:
        return UNKNOWN
    kind = Kind.TENSOR if mixed else one.kind
    dims = one.dims if one.dims is other.dims else Dims.UNKNOWN
    why = next((value.why for value in tensors if value.why is not None), None)
    series = one.series if one.series is other.series else Series.NONE
    most = one.most if one.most == other.most else None
    cast = all(value.cast for value in (one, other) if value.low)
    follows = one.follows if one.follows == other.follows else ""
    off = one.off_cuda and other.off_cuda
    made = Value(kind, dtypes, dims, why=why, cast=cast, series=series, most=most, off_cuda=off)
    return replace(made, follows=follows)


@dataclass(frozen=True, slots=True)
class Ambient:
    """The autocast state in which code runs."""

    device: str = "cuda"
    dtypes: frozenset[str] = frozenset()
    """What low precision may be; none where autocast is off."""
    certain: bool = True
    """Whether it is certainly so; else autocast may be off, or on though nothing says so."""
    region: cst.CSTNode | None = field(default=None, compare=False)
    """What opens the region."""
    elsewhere: str = ""
    """Path and line of the region, where it is in another file."""
    supposed: bool = False
    """Whether nothing says that it is so."""
    outside: frozenset[str] = field(default=frozenset(), compare=False)
    """The methods of models that the other file calls, and not in its regions."""

    @property
    def is_on(self) -> bool:
        """Whether autocast is on in some run that is known."""
        return bool(self.dtypes)


OFF = Ambient()
WHATEVER = Ambient(certain=False)


@dataclass(slots=True, eq=False)
class Run:
    """One run of a function, or of the module: what its expressions are."""

    function: cst.FunctionDef | cst.Module
    ambient: Ambient
    values: dict[int, Value] = field(default_factory=dict)
    ambients: dict[int, Ambient] = field(default_factory=dict)
    """For operations and subscripts: the autocast state in which they run."""
    result: Value | None = None
    calls: tuple[cst.Call, ...] = ()
    """The calls that lead here from the outermost function, the innermost first."""

    def of(self, node: cst.CSTNode | None) -> Value:
        """What an expression may be; unknown where it was not reached."""
        return self.values.get(id(node), UNKNOWN)

    def state(self, node: cst.CSTNode) -> Ambient | None:
        """The autocast state of an operation; None where it was not reached."""
        return self.ambients.get(id(node))


def applied(
    name: str, operands: Sequence[Value], ambient: Ambient, node: cst.CSTNode | None = None
) -> Value:
    """What an operation of the table gives.

    Args:
        name: as the table has it.
        operands: all tensors and numbers that it gets, the first one first.
        ambient: the autocast state.
        node: where it stands, for `Value.why`.
    """
    table = operations()
    given = [value for value in operands if value.kind in (Kind.TENSOR, Kind.NUMBER)]
    off = all_off_cuda(given, settings=table.policies["cuda"].get(name) != "low")
    ambient = OFF if off and ambient.device == "cuda" else ambient
    plain = replace(_plain(name, given), off_cuda=off)
    policy = table.policies.get(ambient.device, {}).get(name, "")
    lows = [value for value in given if value.low]
    cast = all(value.cast for value in lows)
    if not policy or not ambient.is_on:
        uncertain = not ambient.is_on and not ambient.certain and table.is_listed(name)
        dtypes = plain.dtypes | {ANY} if uncertain else plain.dtypes
        plain = replace(plain, follows="") if uncertain else plain
    else:
        dtypes = _cast(policy, plain, [value for value in given if value.is_tensor], ambient.dtypes)
        plain, without = replace(plain, follows=""), plain.dtypes
        if not ambient.certain:
            dtypes |= without - LOW if lows and cast and policy != "low" else without
    if len(dtypes) > _MOST_DTYPES:
        dtypes = frozenset({ANY})
    inherited = next((v.why for v in given if v.low and v.why is not None), None)
    lowered = policy == "low" and ambient.is_on
    why = (node if lowered else inherited or node) if dtypes & LOW else None
    cast = cast and (not ambient.certain if lowered else bool(lows))
    return replace(plain, dtypes=dtypes, why=why, cast=cast)


def all_off_cuda(given: Sequence[Value], *, settings: bool = False) -> bool:
    """Whether what an operation gets is known not to be on CUDA.

    With ``settings``, what nothing is known of may be a number.
    """
    tensors = [value for value in given if value.is_tensor]
    others = [value for value in tensors if not value.off_cuda]
    known = [value for value in others if not settings or value.dtypes != {ANY}]
    return len(others) < len(tensors) and not known


def _cast(policy: str, plain: Value, given: Sequence[Value], low: frozenset[str]) -> frozenset[str]:
    """What a listed operation gives where autocast is on."""
    if plain.dtypes and not plain.dtypes & _FLOATING and ANY not in plain.dtypes:
        return plain.dtypes  # of integers, or not of floating point
    kept = frozenset({"float64"} if any("float64" in value.dtypes for value in given) else ())
    if policy == "low":
        return low | kept
    if policy == "float32":
        first = given[0].dtypes if given else frozenset({ANY})
        castable = any(value.dtypes & {*_CAST, ANY} for value in given)
        uncast = plain.dtypes - LOW if first - _CAST else frozenset()
        return uncast | kept | frozenset({"float32"} if castable else ())
    if not any(value.dtypes & {*_CAST, ANY} for value in given):
        return plain.dtypes
    if policy == "varies" or any(ANY in value.dtypes for value in given):
        return frozenset({ANY})
    wide = any("float32" in value.dtypes for value in given)
    narrow = all(value.dtypes - {"float32"} for value in given)
    return (
        (frozenset({"float32"}) if wide else frozenset()) | (low if narrow else frozenset()) | kept
    )


def _plain(name: str, given: Sequence[Value]) -> Value:
    """What an operation gives where autocast is off."""
    table = operations()
    gives = table.gives.get(name, "float")
    tensors = [value for value in given if value.is_tensor]
    dims = Dims.UNKNOWN if name in table.fewer else _dims(tensors)
    if not gives:
        return UNKNOWN
    if gives != "float":
        if gives == "complex64" and any(not v.dtypes <= {"float32"} for v in tensors):
            may_be = all(v.dtypes & {"float32", ANY} for v in tensors)
            return Value(Kind.TENSOR, frozenset({ANY, gives} if may_be else {ANY}), dims)
        return Value(Kind.TENSOR, frozenset({gives}), dims)
    if not tensors:
        return Value(Kind.TENSOR, frozenset({ANY}), dims)
    if name in table.follows_first:
        first = tensors[0]
        return Value(Kind.TENSOR, first.dtypes, first.dims, follows=first.follows)
    dtypes = promoted([*map(_with_dims, given)] if name in LEVEL else given)
    if dtypes & COMPLEX:
        return UNKNOWN
    if any("bool" in value.dtypes for value in tensors):
        dtypes |= {"bool", "int64"} if dtypes & {"bool", "int64"} else frozenset()
    if name in table.float_of_integers:
        dtypes = frozenset("float32" if d in _ORDER[:6] else d for d in dtypes)
    if name.endswith(_MIXING) and len({v.dtypes for v in tensors}) > 1:
        return UNKNOWN
    followed = {value.follows for value in tensors}
    follows = followed.pop() if len(followed) == 1 and dtypes == {ANY} else ""
    return Value(Kind.TENSOR, dtypes, dims, follows=follows)


def progressed(name: str, made: Value, operands: Sequence[Value]) -> Value:
    """What an operation gives, with what its numbers are.

    Args:
        name: as the table has it.
        made: what it gives.
        operands: all tensors and numbers that it gets, in order.
    """
    places = [at for at, value in enumerate(operands) if value.series is not Series.NONE]
    if not places:
        return made
    at, value = places[0], operands[places[0]]
    if name in VIEWS:
        return replace(made, series=value.series, most=value.most)
    if name in ARRANGING:
        ends = [other.most for other in operands if other.is_tensor]
        most = None if None in ends else max(end for end in ends if end is not None)
        return replace(made, series=value.series, most=most)
    others = [other for other in operands if other is not value]
    plain = all(other.kind is Kind.NUMBER for other in others)
    scales = plain or all(other.kind is Kind.NUMBER or ANY in other.dtypes for other in others)
    series = Series.NONE
    if name in ("add", "sub", "mul") and plain:
        series = value.series
    elif value.series is Series.POWERS:
        series = value.series if name in ("mul", "div", "reciprocal") and scales else series
    elif name in ("mul", "div") and at == 0 and scales:
        series = Series.EVEN
    elif (name == "pow" and at == 1 and scales) or name in ("exp", "exp2"):
        series = Series.NONE if _are_exact(name, operands[0], value) else Series.POWERS
    return replace(made, series=series)


def _are_exact(name: str, base: Value, exponent: Value) -> bool:
    """Whether powers have one digit in every dtype: of 2, to whole numbers as they come."""
    number = 2.0 if name == "exp2" else base.number if name == "pow" else None
    of_two = number is not None and number > 0 and math.frexp(number)[0] == 0.5
    return of_two and exponent.series is Series.WHOLE


def _with_dims(value: Value) -> Value:
    return replace(value, dims=Dims.SOME) if value.is_tensor else value


def _dims(tensors: Iterable[Value]) -> Dims:
    """Whether a result has dimensions."""
    known = {value.dims for value in tensors}
    if Dims.SOME in known:
        return Dims.SOME
    return Dims.NONE if known == {Dims.NONE} else Dims.UNKNOWN


def promoted(given: Sequence[Value]) -> frozenset[str]:
    """The dtypes that operands may give together, by torch's rules of promotion."""
    numbers = tuple(value.floating for value in given if value.kind is Kind.NUMBER)
    choices = [
        [(dtype, dims) for dtype in sorted(value.dtypes) for dims in _possible(value.dims)]
        for value in given
        if value.is_tensor
    ]
    found: set[str] = set()
    for combination in itertools.islice(itertools.product(*choices), 256):
        found.add(_promoted(combination, numbers))
    return frozenset(found)


def _possible(dims: Dims) -> Iterator[bool]:
    """Whether a tensor has dimensions: what may be."""
    if dims is not Dims.NONE:
        yield True
    if dims is not Dims.SOME:
        yield False


@functools.lru_cache(maxsize=4096)
def _promoted(operands: tuple[tuple[str, bool], ...], numbers: tuple[bool, ...]) -> str:
    """The dtype of a result.

    Args:
        operands: dtype of each tensor, and whether it has dimensions.
        numbers: for each number of Python's, whether it is a float.
    """
    if any(dtype not in _ORDER for dtype, _ in operands):
        return ANY
    solid = [dtype for dtype, has_dims in operands if has_dims]
    loose = [dtype for dtype, has_dims in operands if not has_dims]
    best = max(map(_category, (*solid, *loose)))
    wanted = max(best, 2 if any(numbers) else 1 if numbers else 0)
    for group in (solid, loose):
        highest = [dtype for dtype in group if _category(dtype) == wanted]
        if highest and (group is loose or max(map(_category, group)) == wanted):
            return _widest(highest)
    return "float32" if wanted == 2 else "int64"


def _category(dtype: str) -> int:
    """0 for bool, 1 for integers, 2 for floating point, 3 for complex numbers."""
    place = _ORDER.index(dtype)
    return 0 if place == 0 else 1 if place < 6 else 2 if place < 10 else 3


def _widest(dtypes: Sequence[str]) -> str:
    """The dtype of a result of operands of one category."""
    if {"float16", "bfloat16"} <= {*dtypes} and not {"float32", "float64"} & {*dtypes}:
        return "float32"
    if "uint8" in dtypes and {"int8"} & {*dtypes} and not {"int32", "int64"} & {*dtypes}:
        return "int16"
    return max(dtypes, key=_ORDER.index)
