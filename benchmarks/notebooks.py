"""Does fixing a notebook keep every byte outside of the code that is fixed?

    python benchmarks/notebooks.py [--count 500] [--seed 0] [--execute 0]

Notebooks are made of the examples on the pages of the rules, cut between statements into cells,
with magics, shell lines, cells of other languages, cells that are no Python, texts and outputs in
between, in formats 3 and 4, written in every way that JSON allows. Each is linted and fixed with
unsafe fixes, all in this process, and has to

* have the findings of the same code in a Python file, beside the cells that are no Python;
* keep every byte outside of the code of its cells, and every cell that no fix is for;
* have the fixed code in its cells, with the findings that were told to remain;
* be the same when it is fixed once more.

``--execute N`` also runs N of the notebooks that were fixed, before and after, in Jupyter's kernel
(``pip install nbclient ipykernel``): a cell that ran has to run, and one that did not may only fail
as it did. Notebooks that would install something are left out, and those with a character that the
kernel's messages cannot have.

Printed are counts; exits with 1 if a notebook fails.
"""

from __future__ import annotations

import argparse
import ast
import codecs
import importlib
import itertools
import json
import random
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from amp_lint import registry
from amp_lint.handbook import pages
from amp_lint.run.job import Action, Job, Outcome, lint
from amp_lint.selection import Selection
from amp_lint.text.diagnostic import SYNTAX_ERROR

ALL = Selection(registry.all_rules(), preview=True)
MAGICS = (
    "%matplotlib inline", "!pip install torch", "!pip install \\\n    torch \\\n  numpy", "?print",
    "print??", "files = !ls *.py", "%time x = 1", "%timeit -n 1 x", "%env A='", "x = %pwd", ";f a",
)  # fmt: skip
HEADS = ("%%time\n", "%%capture out\n", "\n%%timeit\n")
FOREIGN = ("%%bash\nls 'a", "%%writefile a.py\nimport torch", "%%html\n<b>", "%%R\nx <- 1")
BROKEN = ("def f(:\n    pass", "x = (", "print 'é'", "if x:", "'\ud800'", "a\0b")
TEXTS = ("# Title", "a\n\nb", 'é\u2028\N{PILE OF POO} \\ " / \x7f', "", "scaler.step(optimizer)")


@dataclass(frozen=True)
class Made:
    """A notebook, and what is known of it."""

    data: bytes
    kept: tuple[bytes, ...]
    """What is around the code of its cells, in order: one more than there are cells of code."""
    code: str
    """What is to be found in it, as a file."""
    broken: int
    """Cells that are no Python."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Formatter)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--execute", type=int, default=0, metavar="N")
    args = parser.parse_args()
    seeds = range(args.seed, args.seed + args.count)
    counts, failures = run(seeds)
    if args.execute:
        executed = [*itertools.islice(execute(seeds), args.execute)]
        counts["notebooks executed before and after"] = len(executed)
        failures += filter(None, executed)
    for what, count in counts.items():
        print(f"{count:>6} {what}")
    for failure in failures:
        print(failure)
    return bool(failures)


class _Formatter(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    """Keeps the lines of the description."""


def run(seeds: Sequence[int]) -> tuple[Counter[str], list[str]]:
    """Make a notebook of each seed and try it; counts, and a line for each that fails."""
    programs = [*_programs()]
    counts = Counter(notebooks=len(seeds))
    failures = []
    for seed in seeds:
        made = make(random.Random(seed), programs)
        outcome = _linted(made.data)
        counts["cells of code"] += len(made.kept) - 1
        counts["cells that are no Python"] += made.broken
        counts["findings"] += len(outcome.found or outcome.findings)
        counts["fixes"] += len(outcome.fixed)
        counts["notebooks changed"] += outcome.before is not None
        failures += [f"seed {seed}: {problem}" for problem in problems(made, outcome)]
    return counts, failures


def execute(seeds: Sequence[int]) -> Iterator[str]:
    """What went wrong in each notebook that was fixed and can be run; "" for nothing."""
    programs = [*_programs()]
    for seed in seeds:
        data = make(random.Random(seed), programs).data
        outcome = _linted(data)
        if outcome.before is None or outcome.source is None:
            continue
        if b"pip install" in data or b"ud800" in data:
            continue
        was, now = _errors(data), _errors(outcome.source.file_data)
        worse = [new for old, new in zip(was, now, strict=True) if new and new != old]
        yield f"seed {seed}: {worse[0]}, and did not before" if worse else ""


def _errors(data: bytes) -> list[str]:
    """The error of each cell of code, "" for none, as Jupyter's kernel runs it."""
    nbclient: Any = importlib.import_module("nbclient")
    nbformat: Any = importlib.import_module("nbformat")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cells of older formats have no ids
        notebook = nbformat.reads(data.decode("utf-8-sig"), as_version=4)
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python"}
        resources = {"metadata": {"path": folder}}
        nbclient.NotebookClient(notebook, allow_errors=True, resources=resources).execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    errors = ([o.ename for o in cell.outputs if o.output_type == "error"] for cell in cells)
    return [each[0] if each else "" for each in errors]


def _linted(data: bytes, name: str = "n.ipynb") -> Outcome:
    return lint(Job(name, data, True, ALL, Action.PREVIEW, True))


def problems(made: Made, outcome: Outcome) -> Iterator[str]:
    """What is wrong with what became of a notebook."""
    yield from outcome.errors
    if outcome.source is None:
        return
    after = outcome.source.file_data
    codes = sorted(finding.code for finding in outcome.found or outcome.findings)
    expected = _linted(made.code.encode(), "n.py")
    known = sorted(finding.code for finding in expected.found or expected.findings)
    if [code for code in codes if code != SYNTAX_ERROR] != known:
        yield f"{codes} are found and not {known}"
    if sum(finding.code == SYNTAX_ERROR for finding in outcome.findings) != made.broken:
        yield "another number of cells is told to be no Python"
    was, now = (_sources(data, made.kept) for data in (made.data, after))
    if now is None or was is None:
        yield "something outside of the code has changed"
    elif len(was) != len(now):
        yield "cells are lost"
    elif [one != other for one, other in zip(was, now, strict=True)] != [
        json.loads(one) != json.loads(other) for one, other in zip(was, now, strict=True)
    ]:
        yield "code is written in another way and is the same"
    code = ["".join(json.loads(each)) for each in now or ()]
    if [each for each in code if each not in FOREIGN] != [
        each[1] for each in outcome.source.pieces()
    ]:
        yield "other code is written than was made"
    if [*map(_magics, was or ())] != [*map(_magics, now or ())]:
        yield "magics are not what they were"
    again = _linted(after)
    if again.before is not None:
        yield "it is fixed once more"
    if [each.code for each in again.findings] != [each.code for each in outcome.findings]:
        yield "other findings are left than were told"


def _magics(source: str) -> list[str]:
    lines = [line.strip() for line in "".join(json.loads(source)).splitlines()]
    return [line for line in lines if line in (*MAGICS, *map(str.strip, HEADS))]


def _sources(data: bytes, kept: Sequence[bytes]) -> list[str] | None:
    """The JSON of the code of each cell; None if what is around it is not there."""
    text, found = data.decode(), []
    at = 0
    for before in kept[:-1]:
        if not text.startswith(before.decode(), at):
            return None
        at += len(before.decode())
        _, end = json.JSONDecoder().raw_decode(text, at)
        found.append(text[at:end])
        at = end
    return found if text[at:] == kept[-1].decode() else None


# --- making ---------------------------------------------------------------------------------------


def make(rng: random.Random, programs: Sequence[str]) -> Made:
    """A notebook of some program."""
    program = rng.choice(programs)
    cells, codes = _cells(rng, program)
    older = rng.random() < 0.3
    spelled = [_spelled(rng, code) for code in codes]
    whole, mark = _whole(rng, cells, older=older), "@%d@"
    text = json.dumps(
        whole,
        indent=rng.choice((None, 0, 1, 2, "\t")),
        ensure_ascii=rng.random() < 0.3 or any("\ud800" in code for code in codes),
        separators=rng.choice((None, (",", ":"), (" , ", " : "))),
    )
    text = rng.choice(("", "\n", "\r\n")) + text + rng.choice(("", "\n", "\n\n"))
    if rng.random() < 0.1:
        text = text.replace("\n", "\r\n")
    if rng.random() < 0.1:
        text = text.replace("/", "\\/")
    kept, rest = [], text
    for number in range(len(codes)):
        before, rest = rest.split(f'"{mark % number}"')
        kept.append(before)
    kept.append(rest)
    bom = codecs.BOM_UTF8 if rng.random() < 0.1 else b""
    data = (
        bom + "".join(part + code for part, code in zip(kept, [*spelled, ""], strict=True)).encode()
    )
    kept[0] = bom.decode() + kept[0]
    broken = sum(code in BROKEN for code in codes)
    return Made(data, tuple(part.encode() for part in kept), program, broken)


def _programs() -> Iterator[str]:
    for rule in registry.all_rules():
        for example in pages.parse(registry.page(rule)).examples:
            yield pages.unmarked(example.flagged.text)


def _cells(rng: random.Random, program: str) -> tuple[list[dict[str, Any]], list[str]]:
    """The cells of a notebook, without code, and the code of each that has some."""
    cells: list[dict[str, Any]] = []
    codes: list[str] = []

    def add(code: str) -> None:
        cells.append(_code(rng, len(codes)))
        codes.append(code)

    for part in _parts(rng, program):
        if rng.random() < 0.3:
            kind = rng.choice(("markdown", "raw"))
            cells.append({"cell_type": kind, "metadata": {}, "source": rng.choice(TEXTS)})
        if rng.random() < 0.15:
            add(rng.choice((*FOREIGN, *BROKEN, "", "\n")))
        add(_dressed(rng, part))
    return cells, codes


def _parts(rng: random.Random, program: str) -> Iterator[str]:
    """A program cut between its statements."""
    lines = program.splitlines()
    starts = [node.lineno - 1 for node in ast.parse(program).body]
    cuts = [at for at in starts[1:] if rng.random() < 0.6 and lines[at - 1].strip() == ""]
    for start, end in zip([0, *cuts], [*cuts, len(lines)], strict=True):
        yield "\n".join(lines[start:end]) + rng.choice(("", "", "\n"))


def _dressed(rng: random.Random, code: str) -> str:
    """Code with what IPython reads around it."""
    for _ in range(rng.choice((0, 0, 1, 2))):
        code = f"{rng.choice(MAGICS)}\n{code}"
    if rng.random() < 0.2:
        code = f"{code}\n{rng.choice(MAGICS)}"
    if rng.random() < 0.3:
        code = f"# é \N{PILE OF POO} \u2028\n{code}"
    if rng.random() < 0.1:
        code = rng.choice(HEADS) + code
    if rng.random() < 0.1:
        code = "".join(f"  {line}" for line in code.splitlines(keepends=True))
    return code


def _code(rng: random.Random, number: int) -> dict[str, Any]:
    picture = {"image/png": "iVBORw0KGgo=\n" * rng.randrange(9), "text/plain": rng.choice(TEXTS)}
    output = {"output_type": "display_data", "data": picture, "metadata": {}}
    cell: list[tuple[str, Any]] = [
        ("cell_type", "code"),
        ("metadata", {"source": "x", "trusted": True}),
        ("execution_count", rng.choice((None, 1))),
        ("outputs", [output] * rng.randrange(2)),
        ("source", f"@{number}@"),
    ]
    rng.shuffle(cell)
    return dict(cell)


def _whole(rng: random.Random, cells: list[dict[str, Any]], *, older: bool) -> dict[str, Any]:
    """A notebook of some cells, in format 3 or 4."""
    metadata = rng.choice(({}, {"kernelspec": {"language": "python", "name": "python3"}}))
    if not older:
        members = [("cells", cells), ("metadata", metadata), ("nbformat", 4), ("nbformat_minor", 2)]
    else:
        for cell in cells:
            if cell["cell_type"] == "code":
                cell |= {"input": cell.pop("source"), "language": "python"}
        half = rng.randrange(len(cells))
        sheets = [{"cells": part, "metadata": {}} for part in (cells[:half], cells[half:])]
        members = [("metadata", metadata), ("nbformat", 3), ("worksheets", sheets)]
    rng.shuffle(members)
    return dict(members)


def _spelled(rng: random.Random, code: str) -> str:
    """The JSON of the code of a cell."""
    is_ascii = rng.random() < 0.5 or "\ud800" in code
    value = code if rng.random() < 0.3 else code.splitlines(keepends=True)
    return json.dumps(value, indent=rng.choice((None, 1, 4)), ensure_ascii=is_ascii)


if __name__ == "__main__":
    sys.exit(main())
