"""Which formats are those of a number or a text, so that none of them raises."""

from __future__ import annotations

import enum
import re
import string
from collections.abc import Iterator

_WIDTH = r"\d{0,3}"
_PLACES = r"(?:\.\d{1,2})"
_NUMBER = rf"(?:[^{{}}]?[<>=^])?[-+ ]?0?{_WIDTH}"
_OF_FLOAT = re.compile(rf"{_NUMBER}[,_]?{_PLACES}?[eEfFgG%]|{_NUMBER}[,_]?{_PLACES}?")
_OF_INT = re.compile(rf"{_NUMBER}[,_]?d?|{_NUMBER}[box]|{_NUMBER}[,_]?{_PLACES}?[eEfFgG%]")
_OF_REAL = re.compile(rf"{_NUMBER}[,_]?{_PLACES}?[eEfFgG%]|{_NUMBER}[,_]?")
_OF_TEXT = re.compile(rf"(?:[^{{}}]?[<>^])?{_WIDTH}{_PLACES}?s?")
_OLD = re.compile(rf"%(?:%|[-#0 +]*{_WIDTH}{_PLACES}?(?P<kind>[dioxXeEfFgGsra]))")


class Kind(enum.Enum):
    """What a value certainly is."""

    INT = "an int or a bool, of a size that any float has"
    FLOAT = "a float"
    REAL = "an int or a float"
    SCALAR = "a tensor without dimensions, of floats"
    ONE = "a tensor of one float"
    TENSOR = "a tensor"
    TEXT = "a string"
    LIST = "a list or the like"
    ANY = "something"


NUMBERS = frozenset({Kind.INT, Kind.FLOAT, Kind.REAL})
ONES = frozenset({Kind.SCALAR, Kind.ONE})
TENSORS = ONES | {Kind.TENSOR}
_SPECS = {
    Kind.INT: _OF_INT,
    Kind.FLOAT: _OF_FLOAT,
    Kind.REAL: _OF_REAL,
    Kind.SCALAR: _OF_FLOAT,
    Kind.TEXT: _OF_TEXT,
}


def fits(kind: Kind, spec: str) -> bool:
    """Whether ``format(value, spec)`` gives a text for every value of a kind."""
    known = _SPECS.get(kind)
    return not spec or (known is not None and known.fullmatch(spec) is not None)


def fits_percent(template: str, kinds: list[Kind]) -> bool:
    """Whether ``template % values`` gives a text: as many as there are places, each of its kind."""
    places = [each["kind"] for each in _OLD.finditer(template) if each["kind"]]
    if "%" in _OLD.sub("", template) or len(places) != len(kinds):
        return False
    return all(map(_fits_place, places, kinds))


def _fits_place(place: str, kind: Kind) -> bool:
    if place in "sra":
        return True
    if place in "dioxX":
        return kind is Kind.INT
    return kind in NUMBERS | ONES


def fields(template: str) -> Iterator[tuple[int | str, str, str]] | None:
    """The position or keyword of each field of ``template.format``, its conversion and format.

    None if it is none, or asks for a part of what it is given.
    """
    try:
        parsed = [each for each in string.Formatter().parse(template) if each[1] is not None]
    except ValueError:
        return None
    names = [str(name) for _, name, _, _ in parsed]
    specs = [(conversion or "", spec or "") for _, _, spec, conversion in parsed]
    plain = all(name.isidentifier() or name.isdecimal() or not name for name in names)
    mixed = "" in names and any(map(str.isdecimal, names))
    if not plain or mixed or any("{" in spec for _, spec in specs):
        return None
    return _numbered(names, specs)


def _numbered(
    names: list[str], specs: list[tuple[str, str]]
) -> Iterator[tuple[int | str, str, str]]:
    count = 0
    for name, (conversion, spec) in zip(names, specs, strict=True):
        key: int | str = int(name) if name.isdecimal() else name or count
        count += not name
        yield key, conversion, spec
