"""Files that want to be executed, or to blow the reader up, are verified or refused in time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amp_lint.verify import Change, ProofSettings, Prover, Verdict
from amp_lint.verify.compare import compare
from amp_lint.verify.obligations import Import
from tests.conftest import CLIP, FIXED, Result

Run = Callable[..., Result]
SECONDS = 45.0
SIZE = 5_000_000

PRELUDES = {
    "endless loop": "while True: pass\n",
    "shell at import": "import os\nos.system('touch {mark}')\nos.remove('{sentinel}')\n",
    "deletes at import": "import pathlib\npathlib.Path('{sentinel}').unlink()\n",
    "decorator": "@(lambda f: open('{mark}', 'w'))\ndef f(): pass\n",
    "default": "def f(x=__import__('os').remove('{sentinel}')): pass\n",
    "annotation": "x: __import__('os').remove('{sentinel}') = 1\n",
    "f-string": "x = f\"{{__import__('os').remove('{sentinel}')}}\"\n",
    "class body": "class A:\n    __import__('os').remove('{sentinel}')\n",
    "metaclass": "class A(metaclass=lambda *a: open('{mark}', 'w')): pass\n",
    "reduce": "class A:\n    def __reduce__(self): return (exec, (\"open('{mark}', 'w')\",))\n",
    "gigantic power": "x = 10**10**10\n",
    "gigantic shift": "x = 1 << (1 << 60)\n",
    "gigantic string": "x = 'a' * 10**18\n",
    "infinite literal": "x = 1e400\n",
    "complex literal": "x = 1e400j\n",
    "deep parentheses": "x = " + "(" * 150 + "1" + ")" * 150 + "\n",
    "deep expression": "x = " + "-" * 2000 + "1\n",
    "long sum": "x = " + "+".join(["y"] * 1200) + "\n",
    "long chain": "x = y" + ".a" * 1200 + "\n",
    "long elif": "if a: pass\n" + "elif b: pass\n" * 400,
    "deep blocks": "".join("    " * n + "if a:\n" for n in range(90)) + "    " * 90 + "pass\n",
    "exit": "import sys\nsys.exit(7)\nraise SystemExit\n",
    "recursion": "def f(): return f()\nf()\n",
    "site": "import amp_lint\namp_lint.verify = None\n__import__('torch').log = None\n",
}
"""Harmless to read. ``{sentinel}`` is a file that must stay, ``{mark}`` one that must not come."""


@pytest.fixture(scope="module")
def proving() -> Iterator[Prover]:
    with Prover(
        ProofSettings(dtypes=("float32",), modes=("eager",), examples=5), workers=1
    ) as prover:
        prover.environment()
        yield prover


@pytest.fixture
def traps(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Paths for the preludes; in the end nothing may have touched them."""
    sentinel, mark = tmp_path / "sentinel", tmp_path / "mark"
    sentinel.write_text("here")
    yield {"sentinel": str(sentinel), "mark": str(mark)}
    assert sentinel.read_text() == "here"
    assert not mark.exists()


def prove(proving: Prover, before: str, after: str) -> Verdict:
    started = time.monotonic()
    proof = proving.prove(Change(before, after))
    assert time.monotonic() - started < SECONDS
    return proof.verdict


@pytest.mark.parametrize("name", PRELUDES)
def test_a_hostile_beginning(name: str, proving: Prover, traps: dict[str, str]) -> None:
    prelude = PRELUDES[name].format(**traps) if "{" in PRELUDES[name] else PRELUDES[name]
    verdict = prove(proving, prelude + CLIP, prelude + FIXED)
    assert verdict is not Verdict.REFUTED


@pytest.mark.parametrize("name", PRELUDES)
def test_a_hostile_change(name: str, proving: Prover, traps: dict[str, str]) -> None:
    acts = "{" in PRELUDES[name]
    prelude = PRELUDES[name].format(**traps) if acts else PRELUDES[name]
    verdicts = [prove(proving, CLIP, prelude + FIXED), prove(proving, prelude + CLIP, FIXED)]
    assert not (acts and Verdict.PROVEN in verdicts), "what touches files came or went unseen"


LITERALS = [
    "10**10**10",
    "1e400",
    "-1e400",
    "1e400j",
    "1 << 10**9",
    "'a' * 10**12",
    "9" * 4000,
    "[0] * 10**12",
    "float('nan')",
    "__import__('os').remove('{sentinel}')",
    "open('{mark}', 'w').fileno()",
    "(yield)",
    "eval('1')",
    "(lambda: 1)()",
    "-" * 500 + "1",
    "x" + "[0]" * 300,
]


@pytest.mark.parametrize("literal", LITERALS)
def test_a_hostile_argument(literal: str, proving: Prover, traps: dict[str, str]) -> None:
    value = literal.format(**traps)
    frame = "import torch\n\ndef f(x):\n    return {}\n"
    before = frame.format(f"torch.log(torch.softmax(x, {value}))")
    after = frame.format(f"torch.log_softmax(x, {value})")
    assert prove(proving, before, after) is not Verdict.REFUTED
    prove(proving, before, frame.format("torch.log_softmax(x, 1)"))
    prove(proving, CLIP.replace("1.0", value), FIXED.replace("1.0", value))


def test_long_nested_lists(proving: Prover) -> None:
    row = "[" * 60 + "0" + "]" * 60 + ",\n"
    data = "data = [\n" + row * (SIZE // 50 // len(row)) + "]\n"
    assert prove(proving, data + CLIP, data + FIXED) is not Verdict.REFUTED


def test_what_python_itself_cannot_read(proving: Prover) -> None:
    for text in ("(" * 100_000, "x = (", "\0", "\ud800 = 1", "def f(:\n", "\ufeff\ufeffx"):
        assert prove(proving, text, CLIP) is Verdict.NOT_COMPARABLE
        assert prove(proving, CLIP, text) is Verdict.NOT_COMPARABLE
        prove(proving, text, text)


def test_the_command_line_does_not_execute_either(
    amp_lint: Run, traps: dict[str, str], tmp_path: Path
) -> None:
    hostile = PRELUDES["shell at import"].format(**traps)
    for name in ("torch", "hypothesis", "sitecustomize", "conftest"):
        (tmp_path / f"{name}.py").write_text(hostile)
    (tmp_path / "a.py").write_text(hostile + CLIP)
    (tmp_path / "b.py").write_text(hostile + FIXED)
    done = amp_lint("verify", "--before", "a.py", "--after", "b.py", "--mode=eager")
    assert done.code == 0, done
    assert amp_lint("a.py", "--fix", "--prove").code == 0
    assert (tmp_path / "a.py").read_text() == hostile + FIXED


@pytest.mark.parametrize(
    "line",
    [
        "import this",
        "import antigravity",
        "import idlelib.idle",
        "import unittest.__main__",
        "from unittest import __main__",
        "from test import regrtest",
        "import elsewhere",
    ],
)
def test_no_import_that_does_something_is_tried(line: str) -> None:
    found = compare("import torch\n", f"import torch\n{line}\n")
    assert not any(isinstance(each, Import) for each in found.obligations)
    assert found.reasons


@pytest.mark.parametrize("line", ["import torch.amp", "from torch import amp", "import math"])
def test_other_imports_are(line: str) -> None:
    found = compare("import torch\n", f"import torch\n{line}\n")
    assert [type(each) for each in found.obligations] == [Import]
    assert not found.reasons


@pytest.mark.parametrize("text", ["\\0", "(" * 5000, "x."])
def test_a_text_that_is_no_type(text: str) -> None:
    before = "from typing import Optional\nimport torch\ndef f(x):\n    return x\n"
    found = compare(before, before.replace("(x)", f'(x: Optional["{text}"])'))
    assert found.reasons
