"""What a run has shown, as data: in memory, and in a file that is only appended to.

A file of JSON lines can be read whatever ended the run: the last line may be cut. Each mistake is a
line when it first happens; counts follow now and then, and at the end.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO, TypeAlias

from amp_lint.mistake import At, Mistake
from amp_lint.runtime.frames import Place

Numbers: TypeAlias = "dict[str, float | str]"
"""What was measured, by the names that messages use."""
FORMAT = 1
"""Of the file; one of a later version is refused."""


class RecordError(Exception):
    """A record cannot be read or written; the message says why in one line."""


@dataclass(slots=True, eq=False)
class Observation:
    """A mistake that has happened at a place."""

    mistake: Mistake
    places: Mapping[At, Place]
    numbers: Numbers
    step: int
    """The first step in which it happened, from 1; 0 for what the whole run shows."""
    count: int = 1
    callers: tuple[Place, ...] = ()
    """The calls of the project that have led to it when it was first reached."""

    @property
    def key(self) -> tuple[Mistake, Place]:
        """What is counted as one."""
        return self.mistake, self.places[At.EVENT]


@dataclass(slots=True)
class Summary:
    """What became of the training, in numbers."""

    steps: int = 0
    """Of all optimizers, those that were skipped as well."""
    skips: int = 0
    first_scale: float | None = None
    last_scale: float | None = None
    sampled: int = 0
    """Steps that were looked at operation by operation."""
    on_cuda: bool = False
    """Whether CUDA was in use."""
    cut_in: int = 0
    """The step that was not looked at closely, and in which the script has ended itself."""
    error: str = ""
    """The name of the exception that has ended the run."""
    note: str = ""
    """Why less was looked at than was asked for."""
    ended: bool = False
    """Whether the run came to its end by itself."""
    counted: bool = False
    """Whether all counts are those of its end; else it was killed, and they are older."""


@dataclass(slots=True)
class Record:
    """All of it."""

    observations: list[Observation] = field(default_factory=list)
    reached: Counter[Place] = field(default_factory=Counter)
    """How often each call of the training was made with AMP on."""
    passed: Counter[Place] = field(default_factory=Counter)
    """And how often with AMP off."""
    summary: Summary = field(default_factory=Summary)
    exponents: Counter[int] = field(default_factory=Counter)
    """Of the gradients in sampled steps: how much of their sum has which, in parts that add up."""
    scales: list[tuple[int, float]] = field(default_factory=list)
    """Updates of one scaler that have changed its scale, from 1, and the scale after each."""
    files: list[str] = field(default_factory=list)
    """The project's files that were imported, with their full paths."""
    raised: list[Place] = field(default_factory=list)
    """Where an exception has ended the run, in each process in which one has."""


class Recorder:
    """Appends to the file of one process; a child that was forked has a file of its own."""

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        """Begin a file.

        Raises:
            RecordError: it cannot be written.
        """
        self._path, self._about, self._pid = path, {"format": FORMAT, **about}, os.getpid()
        self._stream = self._begun(path)

    def write(self, line: Mapping[str, Any]) -> None:
        """Append a line; what the system refuses is let go, for the training goes on."""
        try:
            if os.getpid() != self._pid:
                self._pid = os.getpid()
                self._stream = self._begun(self._path.with_name(f"{self._path.name}.{self._pid}"))
            print(json.dumps(line), file=self._stream, flush=True)
        except (OSError, ValueError, RecordError):
            return

    def _begun(self, path: Path) -> TextIO:
        try:
            stream = path.open("w", encoding="utf-8")
            print(json.dumps(self._about), file=stream, flush=True)
        except OSError as error:
            raise RecordError(
                f"{path}: cannot be written: {error.strerror or error}; name another file"
            ) from error
        return stream


def seen_line(seen: Observation) -> dict[str, Any]:
    """An observation as a line of the file."""
    places = {at.name: list(place) for at, place in seen.places.items()}
    numbers = {"mistake": seen.mistake.name, "first": seen.step, "numbers": seen.numbers}
    callers = [list(place) for place in seen.callers]
    return {"seen": {**numbers, "places": places, "callers": callers}}


def files_line(record: Record) -> dict[str, Any]:
    """The files that have run so far as a line of the file."""
    return {"files": record.files}


def state_line(record: Record) -> dict[str, Any]:
    """All counts as a line of the file."""
    return {
        "counts": [seen.count for seen in record.observations],
        "reached": [[list(place), count] for place, count in record.reached.items()],
        "passed": [[list(place), count] for place, count in record.passed.items()],
        "summary": asdict(record.summary),
        "exponents": [*record.exponents.items()],
        "scales": record.scales,
        "files": record.files,
        "raised": [[*place] for place in record.raised],
    }


def read(path: Path) -> Record:
    """What a file holds.

    Raises:
        RecordError: it cannot be read, or is no record.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise RecordError(f"{path}: cannot be read: {reason}; give a record of a run") from error
    lines = [*_lines(text)]
    if not lines or lines[0].get("format") != FORMAT:
        raise RecordError(f"{path}: is no record of this version; `--record FILE` writes one")
    try:
        return _record(lines)
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"{path}: is damaged ({error}); run again with `--record`") from error


def _lines(text: str) -> Iterator[dict[str, Any]]:
    """The lines up to one that is cut."""
    for line in text.splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            return
        if isinstance(found, dict):
            yield found


def _record(lines: Iterable[dict[str, Any]]) -> Record:
    record = Record()
    for line in lines:
        if "seen" in line:
            record.observations.append(_observation(line["seen"]))
        elif "counts" in line:
            for seen, count in zip(record.observations, line["counts"], strict=False):
                seen.count = int(count)
            record.reached, record.passed = _counted(line["reached"]), _counted(line["passed"])
            record.summary = Summary(**line["summary"])
            record.exponents = Counter(dict(line["exponents"]))
            record.scales = [(int(update), float(scale)) for update, scale in line["scales"]]
            record.raised = [Place(*place) for place in line.get("raised", ())]
        if "files" in line:
            record.files = [*map(str, line["files"])]
    return record


def _observation(data: dict[str, Any]) -> Observation:
    places = {At[name]: Place(*place) for name, place in data["places"].items()}
    callers = tuple(Place(*place) for place in data.get("callers", ()))
    mistake, first = Mistake[data["mistake"]], int(data["first"])
    return Observation(mistake, places, data["numbers"], first, callers=callers)


def _counted(pairs: Iterable[tuple[list[Any], int]]) -> Counter[Place]:
    return Counter({Place(*place): int(count) for place, count in pairs})


def folded(records: Iterable[Record]) -> Record:
    """Several processes of one training as one: what happened in more than one is one mistake."""
    whole, known = Record(), dict[tuple[Mistake, Place], Observation]()
    whole.summary.ended = whole.summary.counted = True
    for record in records:
        whole.files = [*dict.fromkeys([*whole.files, *record.files])]
        whole.reached.update(record.reached)
        whole.passed.update(record.passed)
        whole.exponents.update(record.exponents)
        whole.scales = whole.scales or record.scales
        whole.raised += record.raised
        _add(whole.summary, record.summary)
        for seen in record.observations:
            first = known.setdefault(seen.key, seen)
            if first is not seen:
                first.count += seen.count
                first.step = min(first.step, seen.step)
    whole.observations = [*known.values()]
    return whole


def _add(whole: Summary, part: Summary) -> None:
    whole.steps = max(whole.steps, part.steps)
    whole.skips = max(whole.skips, part.skips)
    whole.sampled = max(whole.sampled, part.sampled)
    whole.on_cuda = whole.on_cuda or part.on_cuda
    whole.cut_in = whole.cut_in or part.cut_in
    whole.error = whole.error or part.error
    whole.note = whole.note or part.note
    whole.first_scale = whole.first_scale or part.first_scale
    whole.last_scale = part.last_scale if whole.last_scale is None else whole.last_scale
    whole.ended = whole.ended and part.ended
    whole.counted = whole.counted and part.counted
