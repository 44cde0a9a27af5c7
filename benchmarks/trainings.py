"""What `amp-lint run` says of small trainings with one mistake each, and of trainings with none.

    python benchmarks/trainings.py [--only TEXT] [--all] [--jobs N] [--device cuda] [--threads]

Runs each file of `trainings/` at `--every 20` and at `--level full`, in a process of its own. A
comment `# AMP101` marks the line at which that code has to be reported as having happened,
`# too: AMP201` one that follows from the mistake and may be reported there. Exits with 1 if a
mistake is missed, is not reported at its line, or something else is said. The trainings are the
CPU's; on another device they run with `"cpu"` replaced by its name, and tensors made there. With
`--threads` their backward passes run in threads of the engine, as they do on CUDA.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).with_name("trainings")
LEVELS = {"every 20": ["--every", "20"], "full": ["--level", "full"]}
_MARK = re.compile(r"#\s*(too:\s*)?(AMP\d{3})\s*$")
_HAPPENED = {"confirmed", "run time only"}
_SECONDS = 120


@dataclass(frozen=True, order=True)
class Place:
    """A code at a line."""

    code: str
    row: int

    def __str__(self) -> str:
        return f"{self.code}:{self.row}"


@dataclass(frozen=True)
class Training:
    """A file, where its mistake has to be reported, and what may be reported besides."""

    path: Path
    expected: frozenset[Place]
    too: frozenset[Place]

    @classmethod
    def of(cls, path: Path) -> Training:
        expected: set[Place] = set()
        too: set[Place] = set()
        for row, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if mark := _MARK.search(line):
                (too if mark[1] else expected).add(Place(mark[2], row))
        if bool(expected) != (path.parent.name == "planted"):
            raise SystemExit(f"{path}: only a planted mistake has a mark, and it has one")
        return cls(path, frozenset(expected), frozenset(too))

    @property
    def codes(self) -> set[str]:
        return {place.code for place in self.expected}


@dataclass
class Verdict:
    """What was said of a training at one level."""

    training: Training
    level: str
    said: list[Place] = field(default_factory=list)
    failure: str = ""

    @property
    def found(self) -> bool:
        return self.training.codes <= {place.code for place in self.said}

    @property
    def at_line(self) -> bool:
        return self.training.expected <= set(self.said)

    @property
    def more(self) -> list[Place]:
        """What was said that is neither the mistake nor what follows from it."""
        return sorted({*self.said} - self.training.expected - self.training.too)

    @property
    def is_right(self) -> bool:
        return self.at_line and not self.more and not self.failure


def _child(path: Path, options: Sequence[str], output: str, threads: bool) -> None:
    """Run ``amp-lint run`` in this process, which was made for it."""
    import engine_threads
    import torch

    if threads:
        engine_threads.install()

    from amp_lint.runtime.cli import run

    torch.set_num_threads(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    told = ["--output-format", "json", "-o", output, "--exit-zero"]
    sys.argv = [str(path)]
    os._exit(run([*options, *told, str(path)]))  # what the parent has started is not the child's


def _moved(text: str, device: str) -> str:
    """A training as it is on a device, with the same lines."""
    default = f'import torch; torch.set_default_device("{device}")'
    return re.sub("^import torch$", default, text.replace('"cpu"', f'"{device}"'), flags=re.M)


def judge(training: Training, level: str, device: str, threads: bool) -> Verdict:
    """Run a training at a level."""
    verdict = Verdict(training, level)
    with tempfile.TemporaryDirectory() as folder:
        path, output = training.path, Path(folder) / "said.json"
        if device != "cpu":
            path = Path(folder) / path.name
            path.write_text(_moved(training.path.read_text("utf-8"), device), "utf-8")
        arguments = (path, LEVELS[level], str(output), threads)
        process = multiprocessing.get_context("fork").Process(target=_child, args=arguments)
        process.start()
        process.join(_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()
            verdict.failure = f"not at its end after {_SECONDS} s"
        elif not output.is_file():
            verdict.failure = f"exit status {process.exitcode}, and no report"
        else:
            verdict.said = _said(json.loads(output.read_text("utf-8")))
            if process.exitcode and not training.expected:
                verdict.failure = f"exit status {process.exitcode}"
    return verdict


def _said(findings: list[dict[str, object]]) -> list[Place]:
    """The findings that have happened."""
    places = set()
    for finding in findings:
        happened, location = finding.get("run"), finding["location"]
        assert isinstance(location, dict)
        if isinstance(happened, dict) and happened["status"] in _HAPPENED:
            places.add(Place(str(finding["code"]), int(location["row"])))
    return sorted(places)


def table(verdicts: Sequence[Verdict]) -> list[str]:
    """A row for each training: what each level has said."""
    rows = ["| training | level | found | at the line | more |", "|---|---|---|---|---|"]
    for verdict in verdicts:
        planted = bool(verdict.training.expected)
        found = ("yes" if verdict.found else "NO") if planted else "-"
        line = ("yes" if verdict.at_line else "NO") if planted else "-"
        more = verdict.failure or ", ".join(map(str, verdict.more))
        name = verdict.training.path.relative_to(FOLDER).with_suffix("")
        rows.append(f"| {name} | {verdict.level} | {found} | {line} | {more} |")
    return rows


def summary(verdicts: Sequence[Verdict]) -> list[str]:
    """The figures of each level."""
    rows = []
    for level in LEVELS:
        of_level = [verdict for verdict in verdicts if verdict.level == level]
        planted = [verdict for verdict in of_level if verdict.training.expected]
        clean = [verdict for verdict in of_level if not verdict.training.expected]
        found, at_line = (sum(getattr(v, name) for v in planted) for name in ("found", "at_line"))
        noisy = sum(bool(verdict.more) for verdict in planted)
        reports = Counter(place.code for verdict in clean for place in verdict.more)
        alarmed = sum(bool(verdict.more) for verdict in clean)
        rows.append(
            f"{level}: of {len(planted)} planted {found} found, {at_line} at the line, "
            f"{noisy} with something else; of {len(clean)} clean {alarmed} with reports "
            f"{dict(reports)}; "
            f"{sum(bool(verdict.failure) for verdict in of_level)} failed"
        )
    return rows


def main() -> int:
    """Run the trainings and print what is wrong; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="files whose path has it")
    parser.add_argument("--all", action="store_true", help="print also what is right")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", action="store_true")
    options = parser.parse_args()
    import engine_threads  # noqa: F401
    import torch  # once, not in each process

    from amp_lint import registry
    from amp_lint.runtime.watch import Watch

    _ = Watch, registry.every_rule()
    torch.set_num_threads(1)
    paths = [path for path in sorted(FOLDER.glob("*/*.py")) if options.only in str(path)]
    todo = [(Training.of(path), level) for path in paths for level in LEVELS]
    with ThreadPoolExecutor(options.jobs) as pool:
        verdicts = list(
            pool.map(lambda each: judge(each[0], each[1], options.device, options.threads), todo)
        )
    shown = [verdict for verdict in verdicts if options.all or not verdict.is_right]
    print("\n".join([*table(shown), "", *summary(verdicts)]))
    return 0 if all(verdict.is_right for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
