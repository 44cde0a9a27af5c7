"""Any program: no crash, fixing comes to an end, and nothing outside the edits changes.

``AMP_LINT_EXAMPLES=20 pytest tests/whole/test_properties.py`` tries twenty times as many, at
random.
"""

from __future__ import annotations

import ast
import contextlib
import io
import itertools
import keyword
import os
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
from fuzz.oracle import kept_by, watched_edits
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from amp_lint import engine, fixing, registry
from amp_lint.engine import AnalysisError
from amp_lint.handbook import pages
from amp_lint.selection import Selection
from amp_lint.text.diagnostic import SYNTAX_ERROR, Applicability, Edit, Fix, applicable
from amp_lint.text.source import Source

FACTOR = int(os.environ.get("AMP_LINT_EXAMPLES", "1"))
ALL = Selection(registry.all_rules())
ROOT = Path(__file__).parents[2]


def tries(number: int) -> settings:
    """So many examples; the same ones in every run, unless more are asked for."""
    return settings(
        derandomize=FACTOR == 1,
        max_examples=number * FACTOR,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
    )


# --- the properties ------------------------------------------------------------------------------


def check_all(data: bytes) -> None:
    """Every property of one program, with safe fixes and with unsafe ones."""
    source = Source(data, "a.py")
    try:
        found = engine.check(source, ALL, named=True)
    except AnalysisError:
        return
    assert SYNTAX_ERROR not in {finding.code for finding in found}
    for finding in found:
        assert 0 <= finding.start < finding.end <= len(source.text)
    for unsafe in (False, True):
        check_fix(source, unsafe=unsafe)


def check_fix(source: Source, *, unsafe: bool) -> None:
    with watched_edits() as torn:
        result = fixing.fix(source, ALL, unsafe=unsafe, named=True)
    assert not torn
    assert not result.refused
    assert bool(result.fixed) == (result.text != source.text)
    assert not any(applicable(finding.fix, unsafe=unsafe) for finding in result.remaining)
    if result.fixed:
        fixed = Source(source.encode(result.text), "a.py")
        assert (fixed.text, fixed.bom) == (result.text, source.bom)
        ast.parse(fixed.data)
        again = fixing.fix(fixed, ALL, unsafe=unsafe, named=True)
        assert (again.text, again.remaining) == (result.text, result.remaining)


# --- any Python ----------------------------------------------------------------------------------

WORDS = sorted({word for rule in ALL.rules for group in rule.requires for word in group})
MENTION = f"\n({', '.join(WORDS)})\n"
"""Gets a program through the sieves of every rule."""
VOCABULARY = [
    *WORDS, "torch", "cuda", "amp", "nn", "F", "scaler", "optimizer", "loss", "model", "self",
    "unscale_", "step", "update", "parameters", "log", "log_softmax", "dtype", "enabled", "eps",
    "dim", "custom_fwd", "partial", "nullcontext", "grad", "zero_grad", "append",
]  # fmt: skip


@st.deferred
def ANY_PROGRAM() -> st.SearchStrategy[str]:
    """Made when it is drawn from: it takes seconds, in each process that collects tests."""
    import hypothesmith

    grammar = hypothesmith.from_grammar(auto_target=False)
    return grammar | hypothesmith.from_node(auto_target=False)


def reworded(program: str, words: list[str]) -> str:
    """The program with its identifiers replaced; the same ones by the same."""
    replacements = itertools.cycle(words)
    chosen: dict[str, str] = {}
    lines = program.splitlines(keepends=True)
    for token in reversed(list(tokenize.generate_tokens(io.StringIO(program).readline))):
        if token.type == tokenize.NAME and not keyword.iskeyword(token.string):
            word = chosen.setdefault(token.string, next(replacements))
            line = lines[token.start[0] - 1]
            lines[token.start[0] - 1] = line[: token.start[1]] + word + line[token.end[1] :]
    return "".join(lines)


@tries(18)
@given(ANY_PROGRAM)
def test_any_program(program: str) -> None:
    check_all((program + MENTION).encode("utf-8", "replace"))


@tries(20)
@given(
    ANY_PROGRAM.filter(lambda text: any(map(str.isalpha, text))),
    st.lists(st.sampled_from(VOCABULARY), min_size=3, max_size=8),
)
def test_any_program_in_our_words(program: str, words: list[str]) -> None:
    try:
        text = reworded(program, words)
        ast.parse(text)
    except (SyntaxError, tokenize.TokenError, ValueError, IndexError):
        assume(False)
    check_all((text + MENTION).encode("utf-8", "replace"))


# --- training programs ---------------------------------------------------------------------------

Block: TypeAlias = list[str | tuple[str, "Block"]]
"""Lines, and compound statements with the block below them."""

IMPORTS = st.lists(
    st.sampled_from([
        "import torch.nn.functional as F",
        "from torch import nn",
        "from torch.cuda.amp import autocast, GradScaler",
        "from torch.cuda.amp import autocast as ac, GradScaler  # both",
        "from torch.cuda.amp import (\n    GradScaler,  # the scaler\n    autocast,\n)",
        "from torch.cuda import amp",
        "import torch.cuda.amp as amp",
        "import torch, torch.cuda.amp",
        "import numpy as np; from torch.amp import autocast, GradScaler",
        "from torch.cpu.amp import autocast",
        "from torch.cuda.amp import *",
        "try:\n    from torch.amp import GradScaler\nexcept ImportError:\n"
        "    from torch.cuda.amp import GradScaler",
        "from torch.nn.utils import clip_grad_norm_",
        "from functools import partial\nfrom contextlib import nullcontext",
    ]),
    max_size=4,
    unique=True,
)  # fmt: skip
CONTEXT = st.sampled_from([
    "autocast()",
    "autocast(False)",
    "autocast(enabled=use_amp)",
    "torch.cuda.amp.autocast(True, torch.float16)",
    "amp.autocast(), torch.no_grad()",
    "model.no_sync(), torch.autocast('cuda')",
    "(torch.autocast('cuda', dtype=torch.bfloat16))",
    "torch.autocast(\n        'cuda',\n        enabled=False,\n    ) as region",
    "nullcontext() if debug else torch.cuda.amp.autocast()",
    "ctx",
    "self.ctx()",
])  # fmt: skip
HEADER = st.one_of(
    st.sampled_from([
        "if use_amp:",
        "if scaler is not None:",
        "if (i + 1) % 4 == 0:",
        "if not math.isfinite(loss.item()):",
        "for i, (x, y) in enumerate(loader):",
        "for optimizer in optimizers:",
        "while True:",
        "def train(model, optimizer, loader, scaler=None, use_amp=True):",
        "def step(self, loss):",
        "async def run():",
        "class Trainer(nn.Module):",
        "@torch.cuda.amp.autocast()\ndef forward(self, x):",
        "@torch.cuda.amp.custom_fwd\ndef forward(ctx, x):",
        "@staticmethod\n@torch.cuda.amp.custom_bwd\ndef backward(ctx, grad):",
    ]),
    CONTEXT.map("with {}:".format),
    CONTEXT.map("with {}:  # a comment".format),
)  # fmt: skip
FOLLOWERS: dict[str, list[str | None]] = {
    "if": ["else:", "elif scaler:", None, None],
    "for": ["else:", None, None],
    "try": ["except RuntimeError:", "finally:"],
}
SIMPLE = st.sampled_from([
    "scaler = GradScaler()",
    "scaler = torch.cuda.amp.GradScaler(1024.0, enabled=use_amp)",
    "scaler = amp.GradScaler() if use_amp else None",
    "self.scaler = torch.amp.GradScaler('cuda')",
    "scaler = self.scaler",
    "ctx = torch.cuda.amp.autocast(enabled=use_amp)",
    "ctx = partial(torch.cuda.amp.autocast, dtype=torch.float16)",
    "optimizer = torch.optim.SGD(model.parameters(), 0.1)",
    "optimizer.zero_grad()",
    "loss = model(x).mean()  # forward",
    "loss = scaler.scale(loss)",
    "scaler.scale(loss).backward()",
    "scaler.scale(loss / 4).backward(retain_graph=True)",
    "loss.backward()",
    "loss.backward(); optimizer.step()",
    "self.scaler.scale(loss).backward()",
    "scaler.unscale_(optimizer)",
    "clip_grad_norm_(model.parameters(), 1.0)",
    "norm = torch.nn.utils.clip_grad_norm_(\n        model.parameters(), max_norm\n    )",
    "nn.utils.clip_grad_value_(self.model.parameters(), 5e3); n += 1",
    "self.scaler.step(self.optimizer)",
    "scaler.step(optimizer)",
    "scaler.step(optimizer_d); scaler.update()",
    "scaler.update()",
    "optimizer.step()",
    "p = F.softmax(z, dim=-1)",
    "p = torch.softmax(z, 1)  # probabilities",
    "logp = torch.log(p)",
    "logp = (p + 1e-8).log()",
    "loss = -(y * torch.log(F.softmax(z / 2, dim=1))).sum()",
    "loss = F.nll_loss(z.softmax(-1).clamp(min=1e-9).log(), y)",
    "logp = \\\n    torch.log(nn.Softmax(dim=1)(z))",
    "norm = nn.LayerNorm(8, eps=1e-12)",
    "model = model.half().cuda()",
    "model.to(torch.float16)",
    "isinstance(scaler, torch.cuda.amp.GradScaler)",
    "text = '''a\n  string\n'''",
    "# a comment",
    "",
    "x = x.to(device); y = y.to(device)",
    "step(self, loss)",
    "train(model, optimizer, loader, scaler)",
    "del p",
    "global scaler",
])  # fmt: skip
LEAVING = ["continue", "break", "return loss", "yield loss", "raise ValueError", "pass"]
"""What ends a block, or stands in for an empty one."""


STEP: Block = [
    ("if args.half:", ["model.half()"]),
    "optimizer = torch.optim.SGD(model.parameters(), 0.1)",
    "scaler = torch.cuda.amp.GradScaler()",
    "loss = model(x).mean()",
    "scaler.scale(loss).backward()",
    "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
    "scaler.step(optimizer)",
    "scaler.update()",
]


@st.composite
def steps(draw: st.DrawFn) -> Block:
    """A training step that lacks some parts, with others in a block of their own."""
    parts = [part for part in STEP if draw(st.integers(0, 7))]
    begin, end = sorted(draw(st.tuples(*[st.integers(0, len(parts))] * 2)))
    inner = draw(st.one_of(CONTEXT.map("with {}:".format), HEADER)), parts[begin : end + 1]
    return [*parts[:begin], *([inner] if inner[1] else []), *parts[end + 1 :]]


def _followers(header: str) -> list[str | None]:
    """What may follow the block below a header; None: nothing."""
    return FOLLOWERS.get(header.rstrip(":").split()[0], [None])


@st.composite
def blocks(draw: st.DrawFn, depth: int = 3) -> Block:
    """A block of a training program."""
    block: Block = []
    for _ in range(draw(st.integers(1, 5))):
        if draw(st.integers(0, 5)) == 0:
            block += draw(steps())
        elif depth and draw(st.integers(0, 2)) == 0:
            header = draw(st.one_of(HEADER, st.just("try:")))
            block.append((header, draw(blocks(depth - 1))))
            follower = draw(st.sampled_from(_followers(header)))
            if follower:
                block.append((follower, draw(blocks(depth - 1))))
        else:
            block.append(draw(SIMPLE))
    block.append(draw(st.sampled_from(LEAVING)))
    return block


def lines(block: Block, indent: str, prefix: str = "") -> Iterator[str]:
    """The lines of a block, indented by ``indent`` for each level."""
    for item in block:
        text, body = item if isinstance(item, tuple) else (item, None)
        if text.startswith(("@", "try:\n")):
            text = text.replace("\n", f"\n{prefix}")
        yield f"{prefix}{text}" if text else ""
        if body is not None:
            yield from lines(body, indent, prefix + indent)


@st.composite
def training_programs(draw: st.DrawFn) -> str:
    """A module with imports and training code."""
    start = ["import torch", *draw(IMPORTS)]
    indent = draw(st.sampled_from(["    ", "  ", "\t", " ", "        "]))
    return "\n".join([*start, "", *lines(draw(blocks()), indent)]) + "\n"


FRAMES: dict[str, Callable[[str], bytes]] = {
    "plain": str.encode,
    "CRLF": lambda text: text.replace("\n", "\r\n").encode(),
    "CR": lambda text: text.replace("\n", "\r").encode(),
    "BOM": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "no last line end": lambda text: text.rstrip().encode(),
    "Latin-1": lambda text: f"# coding: latin-1\n# \xe9\n{text}".encode("latin-1"),
    "form feeds": lambda text: text.replace("\n\n", "\n\f\n").encode(),
    "trailing space": lambda text: text.replace(":\n", ":  \n").encode() + b"  ",
    "docstring": lambda text: f'"""\xe9"""\nfrom __future__ import annotations\n{text}'.encode(),
}  # fmt: skip


@tries(25)
@given(training_programs(), st.sampled_from(sorted(FRAMES)))
def test_training_programs(program: str, frame: str) -> None:
    ast.parse(program)
    check_all(FRAMES[frame](program))


@tries(15)
@given(training_programs())
def test_line_ends_do_not_matter(program: str) -> None:
    """Programs with CRLF and with LF have the same findings and the same fixes."""
    windows = FRAMES["CRLF"](program)
    for unsafe in (False, True):
        expected = fixing.fix(Source(program.encode(), "a.py"), ALL, unsafe=unsafe)
        result = fixing.fix(Source(windows, "a.py"), ALL, unsafe=unsafe)
        assert result.text == expected.text.replace("\n", "\r\n")
        assert [f.message for f in result.remaining] == [f.message for f in expected.remaining]


# --- the programs of the pages and examples, in other surroundings -------------------------------


def _known_programs() -> list[str]:
    texts = [path.read_text() for path in sorted((ROOT / "examples").glob("*.py"))]
    for rule in ALL.rules:
        with contextlib.suppress(FileNotFoundError):
            page = pages.parse(registry.page(rule))
            texts += [example.flagged.text for example in page.examples]
            texts += [fence.text for fence in page.silent]
    return texts


KNOWN = _known_programs()
SURROUNDINGS = [
    "{}",
    "if True:\n{}",
    "def main():\n{}",
    "class A:\n  def f(self):\n{}",
    "try:\n{}\nfinally:\n    pass\n",
    "for epoch in range(3):\n{}\nelse:\n    pass\n",
    "with torch.autocast('cuda'):\n{}",
    "async def main():\n  while True:\n{}",
]


def surrounded(program: str, frame: str, indent: str) -> str:
    """``program`` as a block in ``frame``."""
    if frame == "{}":
        return program
    text = "".join(indent + line for line in program.splitlines(keepends=True))
    return frame.format(text + f"\n{indent}pass")


@tries(30)
@given(
    st.lists(st.sampled_from(KNOWN), min_size=1, max_size=2),
    st.sampled_from(SURROUNDINGS),
    st.sampled_from(["    ", "\t", "   "]),
    st.sampled_from(sorted(FRAMES)),
)
def test_known_programs_elsewhere(
    programs: list[str], frame: str, indent: str, layout: str
) -> None:
    text = surrounded("\n".join(programs), frame, indent)
    try:
        ast.parse(text)
    except SyntaxError:  # a star import or a future import in a function, mixed tabs and spaces
        assume(False)
    check_all(FRAMES[layout](text))


# --- the tests of these tests --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after", "kept"), [("a1cde2", True), ("a1cdE2", False), ("a1cde", False), ("a1cde2 ", False)]
)
def test_kept_by(after: str, kept: bool) -> None:
    fix = Fix("", (Edit(1, 2, "1"), Edit(5, 6, "2")), Applicability.SAFE)
    assert kept_by([fix], "abcdef", after) == kept


def test_rewording() -> None:
    assert reworded("if a:\n  b(a).c = 'a'\n", ["x", "y", "z"]) == "if y:\n  z(y).x = 'a'\n"
