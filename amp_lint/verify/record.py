"""Proofs as JSON: what a report shows can be looked up in its record, and run again from it."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import platform
import types
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, Union, get_args, get_origin, get_type_hints

from amp_lint.verify.proof import Environment, Proof, ProofSettings, Verdict

_Json: TypeAlias = Any
_Kind: TypeAlias = Any  # a type, as `get_type_hints` gives it

SCHEMA = 3
"""Counts up when what a record says changes."""


class RecordError(Exception):
    """A file is no record; the message says where it is wrong."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One proof, and what it is about."""

    rule: str
    """The code; "" if the change fixes no finding."""
    kind: str
    """``fix``, ``unsafe fix``, ``wrong fix`` (all on a page), ``site`` (in a file), ``change``."""
    place: str
    """``line 47`` of the rule's page, ``train.py:51:13``, ``old.py -> new.py``."""
    proof: Proof

    @property
    def on_page(self) -> bool:
        """Whether it is about a fence of a rule's page."""
        return self.kind.endswith("fix")

    @property
    def right(self) -> bool:
        """Whether it is refuted if it is a wrong fix, else proven."""
        wanted = Verdict.REFUTED if self.kind == "wrong fix" else Verdict.PROVEN
        return self.proof.verdict is wanted


@dataclass(frozen=True, slots=True)
class Record:
    """The proofs of one run."""

    schema: int
    environment: Environment | None
    """None where nothing had to be run."""
    platform: str
    """Processor and operating system."""
    settings: ProofSettings
    entries: tuple[Entry, ...]


def proven(entries: Iterable[Entry]) -> frozenset[str]:
    """The codes of the rules whose every fix is proven and every wrong fix refuted."""
    good: dict[str, bool] = {}
    for entry in entries:
        if entry.on_page:
            good[entry.rule] = good.get(entry.rule, True) and entry.right
    return frozenset(code for code, right in good.items() if right)


def record(
    entries: Iterable[Entry], settings: ProofSettings, environment: Environment | None
) -> Record:
    """What one run has shown; the environment, the same for all, stands once."""
    bare = (
        dataclasses.replace(entry, proof=dataclasses.replace(entry.proof, environment=None))
        for entry in entries
    )
    system = f"{platform.machine()} {platform.system()}"
    return Record(SCHEMA, environment, system, settings, tuple(bare))


def dumps(written: Record) -> str:
    """A record as JSON. Numbers that are not finite stand as strings, as in ``"inf"``."""
    return json.dumps(_plain(written), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def loads(text: str) -> Record:
    """The record that a text holds.

    Raises:
        RecordError: it is not a record, or one of another schema.
    """
    try:
        data = json.loads(text)
    except ValueError as error:
        raise RecordError(f"is not JSON: {error}") from error
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise RecordError(f"is not a record of schema {SCHEMA}")
    loaded: Record = _build(Record, data, "record")
    return loaded


def read(path: Path) -> Record:
    """The record in a file.

    Raises:
        RecordError: the file cannot be read or is no record.
    """
    try:
        return loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, RecordError) as error:
        raise RecordError(f"{path}: {error}") from error


def _plain(value: object) -> _Json:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = (field.name for field in dataclasses.fields(value))
        return {name: _plain(getattr(value, name)) for name in names}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, frozenset):
        return sorted(map(_plain, value))
    if isinstance(value, tuple):
        return [*map(_plain, value)]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else str(value)
    return value


def _build(kind: _Kind, value: _Json, where: str) -> _Json:
    """``value`` as the annotated type ``kind``."""
    origin: object = get_origin(kind)
    if origin is tuple or origin is frozenset:
        if not isinstance(value, list):
            raise RecordError(f"{where} must be a list")
        item = get_args(kind)[0]
        built = (_build(item, one, f"{where}[{i}]") for i, one in enumerate(value))
        return tuple(built) if origin is tuple else frozenset(built)
    if origin is Union or origin is types.UnionType:
        (inner,) = (arg for arg in get_args(kind) if arg is not type(None))
        return None if value is None else _build(inner, value, where)
    if dataclasses.is_dataclass(kind):
        return _object(kind, value, where)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        if value not in [member.value for member in kind]:
            raise RecordError(f"{where} is {value!r}")
        return kind(value)
    return _scalar(kind, value, where)


def _object(kind: _Kind, value: _Json, where: str) -> _Json:
    hints = get_type_hints(kind)
    later = {"hunks"} if kind is Proof else set()  # records from before there were any
    if not isinstance(value, dict) or value.keys() | later != hints.keys():
        raise RecordError(f"{where} must be an object with {', '.join(hints)}")
    return kind(**{name: _build(hints[name], value[name], f"{where}.{name}") for name in value})


def _scalar(kind: _Kind, value: _Json, where: str) -> _Json:
    if kind is float and value in ("inf", "-inf", "nan"):
        return float(value)
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise RecordError(f"{where} must be of type {kind.__name__}, not {value!r}")
    return value
