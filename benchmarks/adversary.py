"""Judges changes whose truth is known, and says which verdicts are wrong.

    python benchmarks/adversary.py CHANGES.jsonl [--json FILE] [--only ID ...]

Each line of CHANGES is an object with ``before`` and ``after``, two texts of one file, ``truth``
(``right``, ``wrong`` or ``on purpose``), and, if it has them, ``id`` and ``note``. A wrong change
does something else than before, or fails where it did not. One on purpose trains in another way
that its author may want: bf16 for fp16, another limit. Neither may be proven; a right one, or one
on purpose, must not be refuted. Only eager experiments are made. Exits with 1 if a verdict is
wrong.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from amp_lint.verify import Change, Proof, ProofSettings, Prover, Verdict
from amp_lint.verify.prover import Done

LIMIT = 300.0
"""Seconds for an obligation: the verdicts of a busy machine are those of an idle one."""
TRUTHS = ("right", "on purpose", "wrong")


@dataclass(frozen=True)
class Case:
    """A change and what is right about it."""

    name: str
    truth: str
    note: str
    before: str
    after: str

    def is_wrongly(self, verdict: Verdict) -> bool:
        """Whether a verdict is not only weak but wrong."""
        if verdict is Verdict.PROVEN:
            return self.truth != "right"
        return verdict is Verdict.REFUTED and self.truth != "wrong"


def main() -> int:
    args = _arguments()
    cases = [case for case in read(args.changes) if not args.only or case.name in args.only]
    began = time.monotonic()
    with Prover(ProofSettings(modes=("eager",)), limit=LIMIT) as prover:
        changes = [Change(case.before, case.after, f"{case.name}.py") for case in cases]
        proofs = prover.prove_all(changes, on_done=_progress(len(cases)))
    print(table(cases, proofs))
    wrong = [*_wrong(cases, proofs)]
    print("\n".join(wrong) or "no verdict is wrong")
    print(f"{time.monotonic() - began:.0f} s")
    if args.json:
        args.json.write_text(json.dumps([*map(_row, cases, proofs)], indent=1) + "\n", "utf-8")
    return 1 if wrong else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("changes", type=Path, nargs="+", metavar="CHANGES")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write verdicts and reasons")
    parser.add_argument("--only", nargs="+", metavar="ID", help="judge these alone")
    return parser.parse_args()


def _progress(count: int) -> Callable[[Done], None]:
    """Something to see on a terminal."""
    numbers = itertools.count(1)

    def on_done(_: Done) -> None:
        if sys.stderr.isatty():
            print(f"\r{next(numbers)} of {count}", end="", file=sys.stderr)

    return on_done


def read(paths: Iterable[Path]) -> list[Case]:
    """The changes of files, in order.

    Raises:
        SystemExit: a line is not a change.
    """
    lines = ((path, n, line) for path in paths for n, line in enumerate(_lines(path), 1))
    return [_case(path, number, line) for path, number, line in lines]


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines()


def _case(path: Path, number: int, line: str) -> Case:
    try:
        item = json.loads(line)
        name = item.get("id", f"{path.stem}:{number}")
        texts = item["before"], item["after"]
        return Case(name, _truth(item["truth"]), item.get("note", ""), *texts)
    except (KeyError, ValueError, TypeError) as error:
        sys.exit(f"{path}:{number}: not a change with its truth: {error!r}")


def _truth(value: str) -> str:
    if value not in TRUTHS:
        raise ValueError(f"truth is {value!r}, not one of {', '.join(TRUTHS)}")
    return value


def table(cases: Sequence[Case], proofs: Sequence[Proof]) -> str:
    """Markdown: how many changes of each truth got which verdict."""
    counts = Counter((case.truth, proof.verdict) for case, proof in zip(cases, proofs, strict=True))
    lines = ["| truth | " + " | ".join(v.value for v in Verdict) + " | all |"]
    lines.append("|---|" + "--:|" * (len(Verdict) + 1))
    for truth in TRUTHS:
        row = [counts[truth, verdict] for verdict in Verdict]
        if any(row):
            lines.append(f"| {truth} | " + " | ".join(map(str, (*row, sum(row)))) + " |")
    return "\n".join(lines)


def _wrong(cases: Sequence[Case], proofs: Sequence[Proof]) -> Iterable[str]:
    for case, proof in zip(cases, proofs, strict=True):
        if case.is_wrongly(proof.verdict):
            failure = proof.counterexample
            why = f": {failure.text}" if failure else ""
            yield f"{case.name} ({case.truth}, {case.note}): {proof.verdict.value}{why}"


def _row(case: Case, proof: Proof) -> dict[str, object]:
    return {
        "id": case.name,
        "truth": case.truth,
        "verdict": proof.verdict.value,
        "reasons": proof.reasons,
        "shown": [f"{s.subject}: {s.judgement.verdict.value}: {s.judgement.statement}"
                  for s in proof.shown],
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
