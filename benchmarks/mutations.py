"""Does the verifier call a random edit proven that changes what a program does?

    python benchmarks/mutations.py [--count N] [--seconds S] [--seed N] [--list]
    python benchmarks/mutations.py --each N [--seed N]

Each mutant is one edit of a fixed text of a page, or of a program in ``programs/``: an operator, a
literal, a name, the order of two statements, the arguments of a call, a statement that is gone. It
is judged against the text without the edit, by eager experiments; first in float32 alone, which
refutes most. Where it is called proven, both are run, in processes of their own: of a program, what
it prints has to be the same, to the last digit; a page is played by ``player.py``, and has to do
the same, but for rounding. Texts are written by ``ast.unparse``, so layout is no edit.

Prints how many edits of each kind got which verdict, and the proven ones that do something else;
with ``--list`` all proven ones, to be read. Exits with 1 if a proven one does something else.

With ``--each`` edits of each page are judged in float16 until so many are refuted: what is refuted
there is no wrong fix that somebody chose. Exits with 1 if a page has fewer.
"""

from __future__ import annotations

import argparse
import ast
import copy
import difflib
import functools
import itertools
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import player

from amp_lint import registry
from amp_lint.handbook import pages
from amp_lint.verify import Change, ProofSettings, Prover, Verdict
from amp_lint.verify.compare import compare

PROGRAMS = Path(__file__).with_name("programs")
TO_RUN = 120.0
"""Seconds for a program, which prints in two if the machine is idle."""
_OPERATORS: tuple[type[ast.operator], ...] = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_TESTS: tuple[type[ast.cmpop], ...] = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
SAME, OTHER, _MORE = "the same", "something else", "the same, and print more"
_ROUNDING = 4e-3
"""Part of the largest number by which others may be off: four eps of float16."""
_MOST_EDITS = 200
"""Edits of one page that are made, of which many cannot be compared."""
_CHUNK = 20
"""Edits that are judged before the clock is asked."""
Choose = random.Random


@dataclass(frozen=True)
class Text:
    """A text to be edited."""

    name: str
    code: str
    runs: bool


@dataclass(frozen=True)
class Mutant:
    """A text with one edit."""

    of: Text
    kind: str
    code: str

    @property
    def diff(self) -> str:
        """What was edited."""
        old, new = self.of.code.splitlines(), self.code.splitlines()
        return "\n".join(
            line for line in difflib.unified_diff(old, new, n=0, lineterm="") if line[:2] != "@@"
        )


def main() -> int:
    args = _arguments()
    if args.each:
        return each_page(args.each, args.seed)
    edits = [*mutants([*texts()], random.Random(args.seed), args.count)]
    verdicts = judged(edits, args.seconds, args.seed)
    print(table(Counter((each.kind, verdict) for each, verdict in verdicts)))
    proven = [each for each, verdict in verdicts if verdict is Verdict.PROVEN]
    done = what_they_do(proven)
    print(f"{len(proven)} proven edits were run: {dict(Counter(done))}")
    for each, how in zip(proven, done, strict=True):
        if args.list or how == OTHER:
            print(f"\n{each.of.name}, {each.kind}: {how}\n{each.diff}")
    return 1 if OTHER in done else 0


def judged(edits: Sequence[Mutant], seconds: float, seed: int) -> list[tuple[Mutant, Verdict]]:
    """The verdicts, cheap questions first: on the text alone, in float32, in all dtypes."""
    began = time.monotonic()
    compared = ((each, compare(each.of.code, each.code)) for each in edits)
    owned = [each for each, found in compared if not found.reasons]
    done = {id(each): Verdict.NOT_COMPARABLE for each in edits}
    for dtypes in (("float32",), ProofSettings().dtypes):
        settings = ProofSettings(modes=("eager",), seed=seed, dtypes=dtypes)
        with Prover(settings) as prover:
            for at in range(0, len(owned), _CHUNK):
                some = owned[at : at + _CHUNK]
                if time.monotonic() - began > seconds:
                    for each in owned[at:]:
                        del done[id(each)]
                    break
                changes = [Change(each.of.code, each.code) for each in some]
                for each, proof in zip(some, prover.prove_all(changes), strict=True):
                    done[id(each)] = proof.verdict
        owned = [each for each in owned if done.get(id(each)) is Verdict.PROVEN]
    return [(each, done[id(each)]) for each in edits if id(each) in done]


def each_page(wanted: int, seed: int) -> int:
    """Print of how many edits of each page so many are refuted; 1 if there are fewer somewhere."""
    by_page: dict[str, list[Text]] = {}
    for text in texts():
        if not text.runs:
            by_page.setdefault(text.name.partition(",")[0], []).append(text)
    found = {}
    with Prover(ProofSettings(modes=("eager",), seed=seed, dtypes=("float16",))) as prover:
        for page, of in by_page.items():
            edits = mutants(of, random.Random(seed), _MOST_EDITS)
            owned = (each for each in edits if not compare(each.of.code, each.code).reasons)
            refuted = judged_here = 0
            while refuted < wanted and (some := [*itertools.islice(owned, wanted)]):
                proofs = prover.prove_all([Change(each.of.code, each.code) for each in some])
                refuted += sum(proof.verdict is Verdict.REFUTED for proof in proofs)
                judged_here += len(some)
            found[page] = refuted
            print(f"{page}: {refuted} refuted of {judged_here} that can be compared", flush=True)
    few = [page for page, refuted in found.items() if refuted < wanted]
    print(f"{len(found) - len(few)} of {len(found)} pages; fewer: {', '.join(few) or 'none'}")
    return 1 if few else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=2000, help="edits to judge")
    parser.add_argument("--seconds", type=float, default=1200.0, help="begin no more after these")
    parser.add_argument("--each", type=int, default=0, help="refuted edits of each page")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--list", action="store_true", help="show the proven edits of pages too")
    return parser.parse_args()


def texts() -> Iterator[Text]:
    """The programs, and the fixed texts of all pages."""
    for path in sorted(PROGRAMS.glob("*.py")):
        yield Text(path.name, _plain(path.read_text("utf-8")), True)
    for rule in registry.all_rules():
        for example in pages.parse(registry.page(rule)).examples:
            for fence in filter(None, (example.fixed, example.unsafe)):
                yield Text(f"{rule.code}, line {fence.line}", _plain(fence.text), False)


def _plain(code: str) -> str:
    return ast.unparse(ast.parse(code)) + "\n"


def mutants(of: Sequence[Text], choose: Choose, count: int) -> Iterator[Mutant]:
    """Different edits; every second one is of a program."""
    programs = [text for text in of if text.runs]
    seen: set[tuple[str, str]] = set()
    for number in range(20 * count):
        text = choose.choice(programs if programs and number % 2 else of)
        kind = choose.choice([*EDITS])
        tree = ast.parse(text.code)
        if not EDITS[kind](tree, choose):
            continue
        code = ast.unparse(tree) + "\n"
        if code != text.code and (text.name, code) not in seen:
            seen.add((text.name, code))
            yield Mutant(text, kind, code)
            if len(seen) == count:
                return


# --- edits: each changes a tree at one place, or says that it cannot ------------------------------


def _operator(tree: ast.Module, choose: Choose) -> bool:
    found = [n for n in ast.walk(tree) if isinstance(n, (ast.BinOp, ast.Compare, ast.UnaryOp))]
    if not found:
        return False
    node = choose.choice(found)
    if isinstance(node, ast.BinOp):
        node.op = choose.choice(_OPERATORS)()
    elif isinstance(node, ast.Compare):
        node.ops[0] = choose.choice(_TESTS)()
    else:
        node.op = ast.UAdd() if isinstance(node.op, ast.USub) else ast.USub()
    return True


def _literal(tree: ast.Module, choose: Choose) -> bool:
    found = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and n.value is not None]
    if not found:
        return False
    node = choose.choice(found)
    value = node.value
    if isinstance(value, bool):
        node.value = not value
    elif isinstance(value, int):
        node.value = value + choose.choice((-1, 1))
    elif isinstance(value, float):
        node.value = value * choose.choice((0.1, 2.0, 10.0, -1.0))
    else:
        node.value = f"{value}_" if isinstance(value, str) else 0
    return True


def _name(tree: ast.Module, choose: Choose) -> bool:
    found = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    if len(found) < 2:
        return False
    node, other = choose.sample(found, 2)
    node.id = other.id
    return True


def _blocks(tree: ast.Module) -> list[list[ast.stmt]]:
    named = ("body", "orelse", "finalbody")
    lists = (getattr(node, name, None) for node in ast.walk(tree) for name in named)
    return [block for block in lists if isinstance(block, list) and len(block) > 1]


def _order(tree: ast.Module, choose: Choose) -> bool:
    found = _blocks(tree)
    if not found:
        return False
    block = choose.choice(found)
    at = choose.randrange(len(block) - 1)
    block[at], block[at + 1] = block[at + 1], block[at]
    return True


def _deleted(tree: ast.Module, choose: Choose) -> bool:
    found = _blocks(tree)
    if not found:
        return False
    block = choose.choice(found)
    del block[choose.randrange(len(block))]
    return True


def _argument(tree: ast.Module, choose: Choose) -> bool:
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and (n.args or n.keywords)]
    if not calls:
        return False
    call = choose.choice(calls)
    if len(call.args) > 1 and choose.random() < 0.5:
        call.args.reverse()
    elif call.keywords:
        del call.keywords[choose.randrange(len(call.keywords))]
    else:
        del call.args[choose.randrange(len(call.args))]
    return True


def _repeated(tree: ast.Module, choose: Choose) -> bool:
    found = _blocks(tree)
    if not found:
        return False
    block = choose.choice(found)
    at = choose.randrange(len(block))
    block.insert(at, copy.deepcopy(block[at]))
    return True


EDITS: dict[str, Callable[[ast.Module, Choose], bool]] = {
    "operator": _operator,
    "literal": _literal,
    "name": _name,
    "order": _order,
    "argument": _argument,
    "deleted": _deleted,
    "repeated": _repeated,
}


# --- running --------------------------------------------------------------------------------------


def what_they_do(mutants: Sequence[Mutant]) -> list[str]:
    """How what mutants do compares with what is done without the edit."""
    pages_ = [each for each in mutants if not each.of.runs]
    played = dict(zip(map(id, pages_), _played(pages_), strict=True))
    return [
        played.get(id(each)) or (_MORE if _prints_more(each) else _how(is_same(each)))
        for each in mutants
    ]


def _prints_more(mutant: Mutant) -> bool:
    """Whether all that was edited is that something is printed once more, which is allowed."""
    added = [line for line in mutant.diff.splitlines() if line[:1] == "+" and line[:3] != "+++"]
    return mutant.kind == "repeated" and all(line[1:].strip()[:6] == "print(" for line in added)


def _how(same: bool) -> str:
    return SAME if same else OTHER


def is_same(mutant: Mutant) -> bool:
    """Whether a program prints the same with the edit; hashes and threads are the same in both."""
    return _printed(mutant.of.code) == _printed(mutant.code)


def _played(mutants: Sequence[Mutant]) -> Iterator[str]:
    """How pages with edits compare with those without them."""
    originals = [*dict.fromkeys(each.of.code for each in mutants)]
    pairs = [(code, code) for code in originals]
    pairs += [(each.of.code, each.code) for each in mutants]
    done = subprocess.run(
        [sys.executable, "-I", player.__file__],
        input=json.dumps(pairs), capture_output=True, text=True, check=True, env=_environment(),
    )  # fmt: skip
    seen = json.loads(done.stdout)
    known = dict(zip(originals, seen, strict=False))
    for each, found in zip(mutants, seen[len(originals) :], strict=True):
        yield _MORE if _prints_more(each) else _compared(known[each.of.code], found)


def _compared(old: list[Any], new: list[Any]) -> str:
    if not player.ran(old):
        return "not run"
    if player.are_alike(old, new):
        return SAME
    return "but for rounding the same" if player.are_alike(old, new, within=_ROUNDING) else OTHER


def _environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}


@functools.cache
def _printed(code: str) -> tuple[int, str]:
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-W", "ignore", "-c", code],
            capture_output=True, text=True, timeout=TO_RUN, env=_environment(),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return -1, ""
    return done.returncode, done.stdout


def table(counts: Counter[tuple[str, Verdict]]) -> str:
    """Markdown: how many edits of each kind got which verdict."""
    lines = ["| edit | " + " | ".join(v.value for v in Verdict) + " | all |"]
    lines.append("|---|" + "--:|" * (len(Verdict) + 1))
    for kind in EDITS:
        row = [counts[kind, verdict] for verdict in Verdict]
        lines.append(f"| {kind} | " + " | ".join(map(str, (*row, sum(row)))) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
