"""Lint published packages: does anything crash, what is found, how long does it take?

    python benchmarks/packages.py FOLDER [--findings OUT.json]

Every directory in FOLDER is one package, such as a wheel unpacked with ``pip download --no-deps``
and ``unzip``. amp-lint runs over each as users run it, as a process of its own, with every rule and
without the package's configuration and ``noqa`` comments. Prints a table in Markdown; *looked at*
counts the files that amp-lint does not leave out (``.gitignore``, directories such as ``build``),
*parsed* those that survive the sieves. Exits with 1 if a run crashed: a traceback, an internal
error, or an exit status other than 0 (nothing found), 1 (something found) and 2 (an error of a
file, listed below the table).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amp_lint.run.config import Choice, Settings
from amp_lint.run.discover import Discovery

_CRASH = re.compile(r"Traceback \(most recent|internal error|Fatal Python error|process .* died")


@dataclass(frozen=True)
class Result:
    """One package."""

    name: str
    files: int
    looked_at: int
    parsed: int
    megabytes: float
    seconds: float
    status: int
    findings: list[dict[str, Any]]
    errors: list[str]

    @property
    def crashed(self) -> bool:
        return self.status not in (0, 1, 2) or any(map(_CRASH.search, self.errors))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--findings", type=Path, metavar="OUT.json", help="keep the findings here")
    args = parser.parse_args()
    packages = sorted(path.resolve() for path in args.folder.iterdir() if path.is_dir())
    print("| package | files | looked at | parsed | MB | s | MB/s | exit | findings |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|---|")
    results = []
    for package in packages:
        results.append(lint(package))
        print(row(results[-1]), flush=True)
    print(total(results))
    for result in results:
        for error in result.errors:
            print(f"\n{result.name}: {'CRASH: ' * result.crashed}{error}", end="")
    print()
    if args.findings:
        findings = [
            {"package": package.name, "root": str(package), **finding}
            for package, result in zip(packages, results, strict=True)
            for finding in result.findings
        ]
        args.findings.write_text(json.dumps(findings), "utf-8")
    return 1 if any(result.crashed for result in results) else 0


def lint(package: Path) -> Result:
    """Run amp-lint over one package."""
    command = [sys.executable, "-m", "amp_lint", "--isolated", "--ignore-noqa", "--preview"]
    command += ["--select", "ALL", "--output-format", "json", "."]
    start = time.perf_counter()
    done = subprocess.run(command, cwd=package, capture_output=True, check=False)
    seconds = time.perf_counter() - start
    files = [Path(top) / name for top, _, names in os.walk(package) for name in names]
    files = [file for file in files if file.suffix == ".py"]
    megabytes = sum(file.stat().st_size for file in files) / 1e6
    findings = json.loads(done.stdout) if done.returncode in (0, 1, 2) and done.stdout else []
    errors = done.stderr.decode("utf-8", "replace").splitlines()
    counts = len(files), *_sieved(package)
    return Result(title(package), *counts, megabytes, seconds, done.returncode, findings, errors)


def title(package: Path) -> str:
    """The name of the package, with its version where the directory says it."""
    stems = [path.stem for path in (*package.glob("*.dist-info"), *package.glob("*.data"))]
    return stems[0].replace("-", " ") if stems else package.name


def _sieved(package: Path) -> tuple[int, int]:
    """How many files are looked at, and how many of them are parsed with libcst."""
    settings = Settings(Choice("benchmark", preview=True), isolated=True)
    discovery = Discovery(settings, lambda path, problem: None, force_exclude=False)
    looked_at = [found.path for found in discovery.files([package])]
    return len(looked_at), sum(_survives(path, settings) for path in looked_at)


def _survives(path: Path, settings: Settings) -> bool:
    sieve, data = settings.selection(path).sieve, path.read_bytes()
    try:
        rules = sieve.by_bytes(data)
        return bool(rules and sieve.by_syntax(data, rules))
    except (SyntaxError, ValueError, RecursionError):
        return False


def row(result: Result) -> str:
    """A line of the table."""
    cells = [
        *(result.files, result.looked_at, result.parsed, f"{result.megabytes:.1f}"),
        *(f"{result.seconds:.1f}", f"{result.megabytes / result.seconds:.1f}"),
        *("crash" if result.crashed else result.status, _counts(result.findings)),
    ]
    return f"| {result.name} | " + " | ".join(map(str, cells)) + " |"


def total(results: list[Result]) -> str:
    """The last line of the table."""
    megabytes, seconds = (
        sum(getattr(result, name) for result in results) for name in ("megabytes", "seconds")
    )
    files, looked_at, parsed, crashed = (
        sum(getattr(result, name) for result in results)
        for name in ("files", "looked_at", "parsed", "crashed")
    )
    findings = [finding for result in results for finding in result.findings]
    return (
        f"| **{len(results)} packages** | {files} | {looked_at} | {parsed} | {megabytes:.1f} "
        f"| {seconds:.1f} | {megabytes / seconds:.1f} | {crashed} crashed | {_counts(findings)} |"
    )


def _counts(findings: list[dict[str, Any]]) -> str:
    count = Counter(finding["code"] for finding in findings)
    return ", ".join(f"{code} {count[code]}" for code in sorted(count)) or "–"  # noqa: RUF001


if __name__ == "__main__":
    sys.exit(main())
