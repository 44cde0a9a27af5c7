"""One case of each part of a campaign, by its number: a pure function of seed, part and number.

They run in worker processes, so that they take and give plain data.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from typing import Any

from fuzz import kills, mutants, neutral, oracle
from fuzz.code import parsed

Record = dict[str, Any]
"""What is written down of a case; ``labels`` are the classes of what failed."""


def chance(seed: int, part: str, index: int) -> random.Random:
    """The random numbers of one case."""
    return random.Random(f"{seed}/{part}/{index}")


def mutant(seed: int, index: int) -> Record:
    """A changed program, and all that does not hold for it."""
    made = mutants.mutant(chance(seed, "mutants", index))
    verdict = oracle.judged(made.data)
    return {
        "labels": [": ".join(problem) for problem in verdict.problems],
        "base": made.base,
        "changes": made.changes,
        "python": parsed(made.data) is not None,
        "digest": verdict.digest,
        "findings": verdict.findings,
        "fixed": verdict.fixed,
        "seconds": round(verdict.seconds, 3),
    }


def again(seed: int, index: int) -> Record:
    """The findings in a mutant once more; this process hashes strings in another way."""
    made = mutants.mutant(chance(seed, "mutants", index))
    return {"labels": [], "digest": oracle.judged(made.data).digest}


def edit(seed: int, index: int) -> Record:
    """A neutral edit, and the findings that only one of both texts has."""
    kind = neutral.KINDS[index % len(neutral.KINDS)]
    case = neutral.case(kind, chance(seed, "neutral", index))
    if case is None:
        return {"labels": [], "kind": kind, "base": None}
    try:
        label = neutral.difference(case.base.text, case.after, kind)
    except Exception as error:
        return {"labels": [f"{kind}: crash, {oracle.place_of(error)}"], "kind": kind}
    return {
        "labels": [label] if label else [],
        "kind": kind,
        "base": case.base.name,
        "findings": len(neutral.found(case.base.text)),
    }


def kill(seed: int, index: int) -> Record:
    """A run that is killed."""
    return _ended(kills.drawn(chance(seed, "kills", index), signal.SIGKILL))


def interrupt(seed: int, index: int) -> Record:
    """A run that gets Ctrl-C."""
    return _ended(kills.drawn(chance(seed, "interrupts", index), signal.SIGINT))


def _ended(done: kills.Round) -> Record:
    return {
        "labels": [": ".join(problem) for problem in done.problems],
        "size": done.size,
        "moment": done.moment,
        "code": done.code,
        "written": done.written,
        "temporaries": done.temporaries,
        "late": done.late,
    }


PARTS: dict[str, Callable[[int, int], Record]] = {
    "mutants": mutant,
    "again": again,
    "neutral": edit,
    "kills": kill,
    "interrupts": interrupt,
}
