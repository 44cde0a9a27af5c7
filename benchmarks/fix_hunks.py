"""Judges what projects changed when they repaired a bug of mixed precision, hunk by hunk.

    python benchmarks/fix_hunks.py MIRRORS FIXES.jsonl ... [--json FILE]

Each line of FIXES is an object with ``repo``, ``commit`` (the repair, as ``fix_commit`` where there
is one) and ``paths`` or ``path``; MIRRORS/<owner>+<name>/repo is a git directory. Of each commit
every file in ``paths`` is held against itself before the commit, in eager mode. Prints a table of
the hunks by verdict and code, and each that is refuted or proven, with its reason: whether that is
right is to be read.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from amp_lint.verify import Change, Proof, ProofSettings, Prover, Verdict
from amp_lint.verify.prover import Done

LIMIT = 300.0
"""Seconds for an obligation: the verdicts of a busy machine are those of an idle one."""
TOLD = (Verdict.PROVEN, Verdict.CHANGES, Verdict.REFUTED)


@dataclass(frozen=True)
class Repair:
    """A file that a commit changed."""

    repo: str
    commit: str
    path: str
    before: str
    after: str

    @property
    def place(self) -> str:
        """What says where it is."""
        return f"{self.repo}@{self.commit[:8]}:{self.path}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("mirrors", type=Path, metavar="MIRRORS")
    parser.add_argument("fixes", type=Path, nargs="+", metavar="FIXES.jsonl")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write each hunk there, too")
    args = parser.parse_args()
    found = [*repairs(args.fixes, args.mirrors)]
    print(f"{len({(r.repo, r.commit) for r in found})} commits, {len(found)} files")
    began = time.monotonic()
    with Prover(ProofSettings(modes=("eager",)), limit=LIMIT) as prover:
        changes = [Change(repair.before, repair.after, repair.path) for repair in found]
        proofs = prover.prove_all(changes, on_done=_progress(len(changes)))
    print("\n".join((*table(proofs), "", *told(found, proofs))))
    print(f"{time.monotonic() - began:.0f} s")
    if args.json:
        args.json.write_text(json.dumps([*rows(found, proofs)], indent=1) + "\n", "utf-8")
    return 0


def repairs(paths: Sequence[Path], mirrors: Path) -> Iterator[Repair]:
    """Every file of every repair that can be read before and after, once."""
    seen: set[tuple[str, str, str]] = set()
    lines = (line for path in paths for line in path.read_text("utf-8").splitlines() if line)
    for row in map(json.loads, lines):
        commit = row["fix_commit"] if "fix_commit" in row else row["commit"]
        mirror = mirrors / row["repo"].replace("/", "+") / "repo"
        for path in row.get("paths") or [row["path"]]:
            key = row["repo"], commit, path
            if not commit or key in seen or not path.endswith(".py"):
                continue
            seen.add(key)
            texts = [_text(mirror, f"{rev}:{path}") for rev in (f"{commit}^", commit)]
            if texts[0] is not None and texts[1] is not None and texts[0] != texts[1]:
                yield Repair(*key, texts[0], texts[1])


def _text(mirror: Path, name: str) -> str | None:
    command = ["git", "--git-dir", str(mirror), "show", name]
    done = subprocess.run(command, capture_output=True, check=False)
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def _progress(count: int) -> Callable[[Done], None]:
    """Something to see on a terminal."""
    numbers = itertools.count(1)

    def on_done(_: Done) -> None:
        if sys.stderr.isatty():
            print(f"\r{next(numbers)} of {count}", end="", file=sys.stderr)

    return on_done


def table(proofs: Sequence[Proof]) -> Iterator[str]:
    """The hunks, by verdict and code."""
    counts = Counter((hunk.verdict, hunk.code) for proof in proofs for hunk in proof.hunks)
    yield "| verdict | code | hunks |"
    yield "|---|---|--:|"
    for (verdict, code), count in sorted(counts.items(), key=lambda item: -item[1]):
        yield f"| {verdict.value} | `{code}` | {count} |"
    whole = Counter(proof.verdict.value for proof in proofs)
    yield f"\nfiles: {dict(whole)}"


def told(found: Sequence[Repair], proofs: Sequence[Proof]) -> Iterator[str]:
    """Each hunk of which something is said about AMP."""
    for row in rows(found, proofs):
        if row["verdict"] in {verdict.value for verdict in TOLD} and row["code"] != "layout":
            yield f"{row['verdict']} {row['place']}:{row['line']}: {row['reason']}"


def rows(found: Sequence[Repair], proofs: Sequence[Proof]) -> Iterator[dict[str, object]]:
    """Each hunk, as an object."""
    for repair, proof in zip(found, proofs, strict=True):
        for hunk in proof.hunks:
            yield {
                "place": repair.place,
                "line": hunk.line_after,
                "verdict": hunk.verdict.value,
                "code": hunk.code,
                "reason": hunk.reason,
            }


if __name__ == "__main__":
    sys.exit(main())
