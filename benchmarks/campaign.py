"""Does amp-lint hold what it promises for any file, any way to write a program, any moment?

    python benchmarks/campaign.py [--mutants [N]] [--neutral [N]] [--kills [N]] [--resume]

Without a part, all three are played:

* ``--mutants``: changed programs, half of them no Python any more. None may crash amp-lint or take
  it more than 10 s of CPU time; what ``--fix`` writes must parse, be what ``--diff`` shows, keep
  every byte outside of the edits, have nothing left to fix, and stay as it is when fixed again.
  Every tenth is linted once more in another process.
* ``--neutral``: edits after which a program does the same. The findings must be the same, at the
  same statements. Differences are listed by kind of edit; `ACCEPTED` says which are known.
* ``--kills``: N runs over a folder that are killed, and a quarter as many that get Ctrl-C. Each
  file is as it was or fixed, and after the next run nothing else lies there.

Cases are numbered; each is a function of ``--seed`` and its number. Their outcomes are written to
``--folder`` as they come: a campaign that was ended goes on with ``--resume``. Of each class of
failure one program is made small and kept in ``failures/`` there. Prints the tables of
benchmarks/tables/campaign.md, and exits with 1 if anything failed that is not accepted.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from pathlib import Path
from typing import IO

from fuzz import mutants, neutral, oracle, parts
from fuzz.kills import STARTING
from fuzz.parts import Record
from fuzz.shrink import shrunk
from marked import updated

from amp_lint.run.workers import Pool, WorkerError

LIMIT = 300.0
"""Seconds for one case, after which its process is killed."""
NUMBERS = {"mutants": 20_000, "neutral": 5_000, "kills": 200}
BEGIN, END = "<!-- campaign -->", "<!-- end of campaign -->"

_MENTION = "AMP110 is silent about files that mention a scaler, in whatever way"
_MEANT = "who names the parameter means it"
_PYTHON = "Python itself starts then, and nothing of amp-lint"
ACCEPTED: dict[str, str] = {
    "annotations: AMP110 lost": _MENTION,
    "comments: AMP110 lost": _MENTION,
    f"exit status: {STARTING}": _PYTHON,
    f"traceback: {STARTING}": _PYTHON,
    "f-strings: AMP109 lost": "an f-string is not read as a constant",
    "keyword arguments: AMP206 lost": _MEANT,
    "positional arguments: AMP206 gained": _MEANT,
    "renamed variables: AMP110 gained": _MENTION,
    "renamed variables: AMP110 lost": _MENTION,
}
"""Differences that neutral edits may make, and what an interrupt may do, and why."""


def main() -> int:
    args = _arguments()
    campaign = Campaign(args.folder, args.seed, args.jobs)
    asked = {part: number for part in NUMBERS if (number := getattr(args, part)) is not None}
    campaign.open(resume=args.resume)
    try:
        for part, number in (asked or NUMBERS).items():
            campaign.play(part, number)
    except KeyboardInterrupt:
        print("\ninterrupted; go on with --resume", file=sys.stderr)
        return 130
    failed = campaign.keep_failures(small=not args.no_shrinking)
    table = campaign.figures()
    (args.folder / "figures.md").write_text(f"{table}\n", "utf-8")
    print(table)
    if args.update:
        page = args.update.read_text("utf-8")
        args.update.write_text(updated(page, BEGIN, END, table), "utf-8")
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for part, number in NUMBERS.items():
        parser.add_argument(f"--{part}", type=int, nargs="?", const=number, metavar="N",
                            help=f"play this part (default: {number:,} times)")  # fmt: skip
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--resume", action="store_true", help="go on where the last run ended")
    parser.add_argument("--jobs", type=int, default=1, help="worker processes (default: 1)")
    parser.add_argument("--folder", type=Path, default=Path("build/campaign"))
    parser.add_argument("--no-shrinking", action="store_true", help="keep failures as they are")
    parser.add_argument("--update", type=Path, metavar="PAGE", help="write the tables into it")
    return parser.parse_args()


class Campaign:
    """The outcomes of all cases, in a folder."""

    def __init__(self, folder: Path, seed: int, jobs: int) -> None:
        self._folder, self._seed, self._jobs = folder, seed, jobs
        self._records: dict[str, dict[int, Record]] = {part: {} for part in parts.PARTS}

    def open(self, *, resume: bool) -> None:
        """Read what has been played; ends the program where that belongs to another campaign."""
        self._folder.mkdir(parents=True, exist_ok=True)
        head = {"seed": self._seed, "code": _fingerprint()}
        path = self._folder / "campaign.json"
        if not path.exists():
            path.write_text(json.dumps(head))
        elif not resume:
            sys.exit(f"{self._folder} holds a campaign: give --resume, or another --folder")
        elif (known := json.loads(path.read_text())) != head:
            other = "seed" if known["seed"] != self._seed else "code"
            sys.exit(f"{self._folder} holds a campaign of another {other}: give another --folder")
        for part in parts.PARTS:
            self._records[part] = dict(_read(self._journal(part)))

    def _journal(self, part: str) -> Path:
        return self._folder / f"{part}.jsonl"

    def play(self, part: str, number: int) -> None:
        """Play the cases of a part that are not played yet, and what belongs to it."""
        self._play(part, range(number), self._jobs)
        if part == "mutants":
            self._play("again", range(0, number, 10), self._jobs)
        if part == "kills":
            self._play("interrupts", range(max(1, number // 4)), 1)

    def _play(self, part: str, indexes: range, jobs: int) -> None:
        todo = [index for index in indexes if index not in self._records[part]]
        if not todo:
            return
        progress = Progress(part, len(indexes), len(indexes) - len(todo))
        alone = part in ("kills", "interrupts")  # they start processes of their own
        outcomes = self._one_by_one(part, todo) if alone else self._in_workers(part, todo, jobs)
        with self._journal(part).open("a") as journal:
            for index, record in outcomes:
                self._records[part][index] = record
                _write(journal, index, record)
                progress.show(bool(record["labels"]))
        progress.end()

    def _one_by_one(self, part: str, todo: Sequence[int]) -> Iterator[tuple[int, Record]]:
        for index in todo:
            yield index, parts.PARTS[part](self._seed, index)

    def _in_workers(
        self, part: str, todo: Sequence[int], jobs: int
    ) -> Iterator[tuple[int, Record]]:
        with contextlib.closing(Pool(size=jobs)) as pool:
            case = parts.PARTS[part]
            calls = {pool.submit(LIMIT, case, self._seed, index): index for index in todo}
            for call in as_completed(calls):
                try:
                    record = call.result()[0]
                except WorkerError as error:
                    record = {"labels": [f"crash: {error}"]}
                yield calls.pop(call), record

    # --- failures ---------------------------------------------------------------------------------

    def failures(self) -> dict[tuple[str, str], list[int]]:
        """The cases of each class of failure, by part and class."""
        found: dict[tuple[str, str], list[int]] = {}
        for part, records in self._records.items():
            for index, record in sorted(records.items()):
                for label in record["labels"]:
                    found.setdefault((part, label), []).append(index)
        again, first = self._records["again"], self._records["mutants"]
        for index in sorted(again.keys() & first.keys()):
            if again[index].get("digest") != first[index].get("digest"):
                found.setdefault(("again", "another process finds something else"), []).append(
                    index
                )
        return found

    def keep_failures(self, *, small: bool) -> list[str]:
        """Write one program of each class that is not accepted; the classes."""
        folder = self._folder / "failures"
        folder.mkdir(exist_ok=True)
        failed = []
        for (part, label), indexes in sorted(self.failures().items()):
            if label in ACCEPTED:
                continue
            failed.append(label)
            path = folder / f"{_slug(f'{part} {label}')}.py"
            if not path.exists() and part in _TEXTS:
                text = _TEXTS[part](self._seed, indexes[:5], label, small)
                path.write_bytes(f"# {label}; cases {indexes[:5]}\n".encode() + text)
                print(f"kept {path}", file=sys.stderr)
        return failed

    # --- figures ----------------------------------------------------------------------------------

    def figures(self) -> str:
        """The tables, in Markdown."""
        blocks = [*self._sums(), self._failed(), self._kinds()]
        return "\n\n".join(block for block in blocks if block)

    def _sums(self) -> Iterator[str]:
        played = self._records["mutants"].values()
        if played:
            python = sum(record.get("python", False) for record in played)
            found = sum(record.get("findings", 0) > 0 and record["python"] for record in played)
            fixed = sum(record.get("fixed", False) for record in played)
            longest = max(record.get("seconds", 0.0) for record in played)
            yield (
                f"{len(played):,} mutants (seed {self._seed}), {python:,} of them Python, of which "
                f"{found:,} have findings and {fixed:,} were fixed. The longest run took "
                f"{longest:.1f} s of CPU time. {len(self._records['again']):,} were linted again "
                "in another process."
            )
        edits = [record for record in self._records["neutral"].values() if record.get("base")]
        if edits:
            silent = sum(not record.get("findings") for record in edits)
            same = sum(not record["labels"] for record in edits)
            yield (
                f"{len(edits):,} neutral edits of {len(neutral.KINDS)} kinds, {silent:,} of them "
                f"of silent programs: {same:,} change nothing in what is found."
            )
        for part, words in (("kills", "killed"), ("interrupts", "interrupted with Ctrl-C")):
            rounds = self._records[part].values()
            if rounds:
                late = sum(record["late"] for record in rounds)
                partly = sum(record["written"] > 0 for record in rounds)
                left = sum(record["temporaries"] > 0 for record in rounds)
                yield (
                    f"{len(rounds)} runs {words}, {late} of them after their end; {partly} had "
                    f"written files, {left} left a temporary file."
                )

    def _failed(self) -> str:
        lines = [
            f"| {part} | {label} | {len(indexes)} | {ACCEPTED.get(label, '')} |"
            for (part, label), indexes in sorted(self.failures().items())
        ]
        head = ["| part | what differs or fails | cases | accepted, because |", "|---|---|--:|---|"]
        return "\n".join([*head, *lines]) if lines else "Nothing failed."

    def _kinds(self) -> str:
        """How many edits of each kind make a difference."""
        played, differ = Counter[str](), Counter[str]()
        for record in self._records["neutral"].values():
            played[record["kind"]] += record.get("base") is not None
            differ[record["kind"]] += bool(record["labels"])
        if not played:
            return ""
        lines = [f"| {kind} | {played[kind]} | {differ[kind]} |" for kind in sorted(+differ)]
        head = ["| kind of neutral edit | edits | with a difference |", "|---|--:|--:|"]
        same = ", ".join(f"{kind} ({played[kind]})" for kind in sorted(played) if not differ[kind])
        return "\n".join([*head, *lines, "", f"Without any difference: {same}."])


class Progress:
    """A line on stderr: how many cases are played, how many failed, how long it will take."""

    def __init__(self, part: str, total: int, done: int) -> None:
        self._part, self._total, self._done = part, total, done
        self._first, self._started, self._failed = done, time.monotonic(), 0
        self._live = sys.stderr.isatty()
        self._next = 0.0

    def show(self, failed: bool) -> None:
        """Count a case."""
        self._done += 1
        self._failed += failed
        now = time.monotonic()
        if now < self._next and self._done < self._total:
            return
        self._next = now + (0.5 if self._live else 60)
        rate = (now - self._started) / (self._done - self._first)
        left = f"{rate * (self._total - self._done) / 60:.0f} min left"
        line = f"{self._part}: {self._done}/{self._total}, {self._failed} failed, {left}"
        print(f"\r\033[K{line}" if self._live else f"{line}\n", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leave the line."""
        if self._live:
            print(file=sys.stderr)


def _mutant_text(seed: int, indexes: Sequence[int], label: str, small: bool) -> bytes:
    """The shortest of some mutants, made small."""
    made = [mutants.mutant(parts.chance(seed, "mutants", index)).data for index in indexes]
    data = min(made, key=len)

    def shows(text: str) -> bool:
        problems = oracle.judged(text.encode("latin-1")).problems
        return label in {": ".join(problem) for problem in problems}

    text = data.decode("latin-1")
    return (shrunk(text, shows) if small and shows(text) else text).encode("latin-1")


def _edit_text(seed: int, indexes: Sequence[int], label: str, small: bool) -> bytes:
    """The shortest of some programs, made small, and what the edit makes of it."""
    cases = []
    for index in indexes:
        kind = neutral.KINDS[index % len(neutral.KINDS)]
        if case := neutral.case(kind, parts.chance(seed, "neutral", index)):
            cases.append(case)
    case = min(cases, key=lambda case: len(case.base.text))
    text, after = case.base.text, case.after.text
    if small and neutral.shows(text, case.kind, label):
        text = shrunk(text, lambda text: neutral.shows(text, case.kind, label) is not None, 150)
        changed = neutral.shows(text, case.kind, label)
        after = changed.text if changed else after
    edited = "".join(f"# {line}\n" for line in after.splitlines())
    return f"{text}\n# --- edited ---\n{edited}".encode()


_TEXTS: dict[str, Callable[[int, Sequence[int], str, bool], bytes]] = {
    "mutants": _mutant_text,
    "neutral": _edit_text,
}


def _slug(label: str) -> str:
    return re.sub(r"\W+", "-", label).strip("-")[:80]


def _fingerprint() -> str:
    """Of all that a case depends on: amp-lint, its rules and pages, the examples, this."""
    root = Path(__file__).parents[1]
    folders = ("amp_lint", "rules", "examples", "benchmarks/fuzz")
    paths = [path for folder in folders for path in (root / folder).rglob("*")]
    total = hashlib.sha256()
    for path in sorted(path for path in paths if path.suffix in (".py", ".md")):
        total.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return total.hexdigest()[:16]


def _read(path: Path) -> Iterator[tuple[int, Record]]:
    """The cases in a journal; the last line may be torn."""
    if path.exists():
        for line in path.read_text().splitlines():
            with contextlib.suppress(ValueError):
                record = json.loads(line)
                yield record.pop("index"), record


def _write(journal: IO[str], index: int, record: Record) -> None:
    journal.write("\n" * (journal.tell() > 0) + json.dumps({"index": index, **record}))
    journal.flush()


if __name__ == "__main__":
    sys.exit(main())
