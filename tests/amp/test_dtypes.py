"""Which value has which dtype where."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import libcst as cst
import pytest

from amp_lint.amp.dtypes import ANY, Series
from amp_lint.model import Model
from amp_lint.text.source import Source

HEAD = "import math\nimport torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
PROGRAMS = Path(__file__).parents[2] / "benchmarks" / "dtype_programs.py"
IN_FLOAT16 = {
    "x @ w": "float16",
    "torch.matmul(x, w) * 0.5": "float16",
    "x.bmm(w).softmax(-1)": "float32",
    "F.linear(x, w).exp()": "float32",
    "torch.exp(x @ w).half()": "float16",
    "(x @ w).float() @ w": "float16",
    "(x @ w) + torch.zeros(3)": "float32",
    "(x @ w) + torch.tensor(1.0)": "float16|float32",
    "(x @ w) * math.sqrt(3)": "float16",
    "(x @ w) + b": ANY,
    "x": ANY,
    "x.to(torch.bfloat16)": "bfloat16",
    "(x @ w).to(torch.zeros(2).dtype)": "float32",
    "(x @ w).type_as(w)": ANY,
    "(x @ w).add_(torch.zeros(3))": "float16",
    "(x @ w).exp_()": "float16",
    "torch.zeros_like(x @ w)": "float16",
    "(x @ w).new_zeros(3)": "float16",
    "torch.arange(10)": "int64",
    "torch.arange(10).float() / 3": "float32",
    "torch.arange(10, dtype=torch.float16)": "float16",
    "(x @ w).max(-1, keepdim=True)[0]": "float16",
    "(x @ w).sum(-1)": "float32",
    "(x @ w).mean(-1)": "float16",
    "F.softmax(x @ w, -1, dtype=torch.float16)": "float16",
    "torch.where(x > 0, x @ w, -1.0)": "float16",
    "torch.cat([x @ w, x @ w])": "float16",
    "torch.cat([x @ w, torch.zeros(3)])": "float32",
    "(x @ w).argmax(-1)": "int64",
    "(x @ w) ** 2": "float32",
    "2 / (x @ w)": "float32",
    "(x @ w)[:, 0].reshape(-1)": "float16",
    "torch.einsum('ij,jk->ik', x, w)": "float16",
    "x.cuda().double()": "float64",
    "unknown(x @ w)": ANY,
    "[x @ w for _ in range(3)][0]": "float16",
    "(x @ w) if b else (x.float() @ w)": "float16",
    "(x @ w).device": "",
}


def values(text: str) -> dict[str, str]:
    """Every variable of a program -> the dtypes it may have, of all runs."""
    model = Model(Source((HEAD + text).encode(), "x.py"))
    found: dict[str, set[str]] = {}
    for target in model.tree.nodes(cst.AssignTarget):
        node = model.tree.parent(target)
        assert isinstance(node, cst.Assign)
        for run in model.dtypes.runs(node):
            value = run.of(node.value)
            kinds = value.dtypes if value.is_tensor else set[str]()
            found.setdefault(model.tree.source(target.target), set()).update(kinds)
    return {name: "|".join(sorted(dtypes)) for name, dtypes in found.items()}


def test_operations_under_autocast() -> None:
    lines = [f"        v{i} = {line}\n" for i, line in enumerate(IN_FLOAT16)]
    region = '    with torch.autocast("cuda", dtype=torch.float16):\n'
    found = values(f"def f(x, w, b):\n{region}" + "".join(lines))
    assert dict(zip(IN_FLOAT16, found.values(), strict=True)) == IN_FLOAT16


STATEMENTS = {
    "outside": ("y = x @ w", ANY),
    "outside of half": ("y = x.half() * 2", "float16"),
    "rebound": ("y = x.half()\ny = y.float()", "float16|float32"),
    "branches": ("if w:\n    z = x.half()\nelse:\n    z = x.float()\ny = z", "float16|float32"),
    "one leaves": ("if w:\n    return\nelse:\n    z = x.float()\ny = z", "float32"),
    "a loop": ("z = x.float()\nfor i in w:\n    z = z.half()\ny = z", "float16|float32"),
    "an accumulator": ("z = torch.zeros(3)\nfor i in w:\n    z += i.half()\ny = z", "float32"),
    "in place": ("z = x.half()\nz += torch.zeros(3)\ny = z", "float16"),
    "asked": (
        "z = x.half() if w else x.float()\nif z.dtype == torch.float16:\n    y = z",
        "float16",
    ),
    "undecided": ("with torch.autocast('cuda', enabled=w):\n    y = x @ x", f"{ANY}|float16"),
    "undecided of it": (
        "with torch.autocast('cuda', enabled=w):\n    y = (x @ x).sum(0)", f"{ANY}|float32"
    ),
    "off": ("with torch.autocast('cuda', enabled=False):\n    y = x.half() @ x.half()", "float16"),
    "on a CPU": ("with torch.autocast('cpu'):\n    y = x @ x", "bfloat16"),
    "made off CUDA": (
        "with torch.autocast('cuda'):\n    y = torch.rand(3, 3) @ torch.rand(3, 3)", "float32"
    ),
    "made off CUDA for one of unknown home": (
        "with torch.autocast('cuda'):\n    y = torch.rand(3, 3) @ x", "float16"
    ),
    "made off CUDA with a setting": (
        "z = torch.rand(3, 3) / w\nwith torch.autocast('cuda'):\n    y = z @ z", ANY
    ),
    "made where something is": (
        "z = torch.rand(3, 3, device=x.device)\nwith torch.autocast('cuda'):\n    y = z @ z",
        "float16",
    ),
    "made on the default device": (
        "torch.set_default_device(w)\nz = torch.rand(3, 3)\n"
        "with torch.autocast('cuda'):\n    y = z @ z",
        "float16",
    ),
    "moved to CUDA": (
        "z = torch.rand(3).cuda()\nwith torch.autocast('cuda'):\n    y = z @ torch.rand(3).to(w)",
        "float16",
    ),
    "cast and not moved": (
        "z = torch.arange(3).to(torch.float32)\n"
        "with torch.autocast('cuda'):\n    y = z[:, None] @ z.view(1, -1)",
        "float32",
    ),
    "moved away": ("with torch.autocast('cuda'):\n    y = (x @ w).cpu()", "float16"),
    "computed away": (
        "z = x.float().cpu()\nwith torch.autocast('cuda'):\n    y = z @ torch.zeros_like(z)",
        "float32",
    ),
    "on a CPU, made there": (
        "with torch.autocast('cpu'):\n    y = torch.rand(3, 3) @ torch.rand(3, 3)", "bfloat16"
    ),
    "not on CUDA": (
        "with torch.autocast('cuda'):\n    z = x @ w\n    if not z.is_cuda:\n        y = z + 1", ANY
    ),
    "on the CPU, by name": (
        "with torch.autocast('cuda'):\n    z = x @ w\n    d = z.device\n"
        "    if d.type != 'cuda':\n        y = z",
        ANY,
    ),
    "on CUDA": (
        "with torch.autocast('cuda'):\n    z = x @ w\n"
        "    if z.device.type != 'cpu':\n        y = z",
        "float16",
    ),
    "an index": ("x.sum(0).gather(1, w)\ny = w * 0.5", "float32"),
    "an index of a function": ("torch.gather(x, 1, index=w)\ny = w + 1", "int32|int64"),
    "an index that is something else before": ("w = w.half()\nx.gather(1, w)\ny = w", "float16"),
    "no index": ("x.softmax(w)\ny = w * 0.5", ANY),
    "unpacked": ("z, i = x.half().max(-1)\ny = z", "float16"),
    "the second": ("z, i = x.half().max(-1)\ny = i", "int64"),
    "of two": ("y = x.half().chunk(2)[0]", "float16"),
    "try": ("try:\n    z = x.half()\nexcept OSError:\n    z = x.float()\ny = z", "float16|float32"),
    "a call": ("y = helper(x.half())", "float16"),
    "a tensor that is asked for its dtype": (
        "if isinstance(x, torch.Tensor) and x.dtype in (torch.half, torch.bfloat16):\n"
        "    x = x.float()\ny = x",
        f"{ANY}|float32",
    ),
    "something that is asked for a dtype besides": (
        "if w and x.dtype == torch.half:\n    x = x.float()\ny = x", f"{ANY}|float16|float32"
    ),
    "asked whether": ("if x.dtype == torch.float16:\n    pass\ny = x", f"{ANY}|float16"),
    "asked for any": ("if x.dtype in (torch.half, torch.float32):\n    pass\ny = x", ANY),
    "cast where asked": (
        "k = x.dtype in (torch.float16, torch.bfloat16)\nif k:\n    x = x.float()\ny = x",
        f"{ANY}|float32",
    ),
    "cast elsewhere": (
        "d = x.dtype\nk = w and d == torch.float16\nif k:\n    x = x.float()\ny = x",
        f"{ANY}|float16|float32",
    ),
    "in a region that is asked for": (
        "z = x.float()\nif torch.is_autocast_enabled():\n    z = x.half()\ny = z", f"{ANY}|float32"
    ),
    "of two lists": (
        "h = [v.half() for v in w]\nfor a, b in zip(h, w):\n    y = a", "float16"
    ),
    "of a table": ("h = {k: v.half() for k, v in w}\nfor k, a in h.items():\n    y = a", "float16"),
    "by a key": ("h = {k: v.half() for k, v in w}\ny = h[w[0]]", "float16"),
    "counted": ("for i, a in enumerate(x.half()):\n    y = a", "float16"),
    "asked of what it was": (
        "k = x.dtype\nx = w(x)\nif k == torch.float16:\n    pass\ny = x", ANY
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STATEMENTS)
def test_statements(name: str) -> None:
    text, expected = STATEMENTS[name]
    body = "".join(f"    {line}\n" for line in text.split("\n"))
    found = values(f"def helper(a):\n    return a * 2\n\n\ndef f(x, w):\n{body}")
    assert found["y"] == expected


MODULE = """
class Net(nn.Module):
    def __init__(self, dim, scale=None):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.body = nn.Sequential(nn.Linear(dim, dim), nn.LayerNorm(dim))
        self.scale = scale or dim ** -0.5
        self.bias = nn.Parameter(torch.zeros(dim))
        self.register_buffer("table", torch.arange(dim).float())

    def forward(self, x):
        a = self.proj(x) * self.scale
        b = a + self.bias
        c = self.body(x)
        d = self.table * 2
        return a


def train(x):
    net = Net(3)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        out = net(x)
"""


def test_modules() -> None:
    found = values(MODULE)
    assert {name: found[name] for name in ("a", "b", "c", "d", "out")} == {
        "a": "bfloat16", "b": "float32", "c": "float32", "d": "float32", "out": "bfloat16"
    }  # fmt: skip


def test_modules_of_other_libraries() -> None:
    """A mel spectrogram is a product with a matrix, after a transform in float32."""
    made = "torchaudio.transforms.MelSpectrogram(16000)"
    program = MODULE.replace("nn.Linear(dim, dim)\n", f"{made}\n", 1)
    assert values(f"import torchaudio\n{program}")["out"] == "bfloat16"
    assert values(program)["out"] == ANY


def test_functions_of_einops() -> None:
    made = values("""
import einops
from einops import rearrange
from einops.layers.torch import Rearrange
with torch.autocast("cuda", dtype=torch.float16):
    y = x @ w
    moved = rearrange(y, "b (h d) -> b h d", h=heads)
    again = einops.repeat(x.float(), "b d -> b r d", r=2)
    scores = einops.einsum(again, again, "b h d, b h e -> b d e")
    head = nn.Sequential(nn.Linear(4, 4), Rearrange("b d -> d b"))
    logits = head(x)
    unknown = rearrange([y, x], "two b d -> b two d")
""")
    expected = {"moved": "float16", "again": "float32", "scores": "float16", "logits": "float16"}
    assert {name: made[name] for name in expected} == expected
    assert made["unknown"] == ANY


def test_random_programs() -> None:
    """What is inferred holds what torch gives, for CPU autocast and with CUDA's lists."""
    made = subprocess.run(
        [sys.executable, str(PROGRAMS), "240"], check=True, capture_output=True, text=True
    )
    for found in json.loads(made.stdout.splitlines()[-1]).values():
        assert found["wrong"] == []
        assert found["single"] >= 0.9 * found["variables"]


def test_what_no_operation_computes_with() -> None:
    assert values("def f(x):\n    y = torch.bucketize(x, x) * x.half()\n") == {"y": ANY}
    assert values("class A:\n    def __init__(self, x):\n        y = x + 'a'\n") == {"y": ANY}


SUPPOSED = """
import library

class Rotary(nn.Module):
    def __init__(self, dim, base=10000.0):
        super().__init__()
        self.register_buffer("inverse", 1.0 / base ** (torch.arange(0, dim, 2).float() / dim))
        self.scale = torch.exp(torch.arange(0, dim, 2) * (-math.log(base) / dim))
        self.made(dim)

    def made(self, dim):
        k = dim @ dim

    @off
    def decorated(self, x):
        k = x @ x

    @library.force_fp32
    def forced(self, x):
        k = x @ x

    @library.documented("it")
    def documented(self, x):
        m = x @ x

    def forward(self, x, given):
        a = x @ given
        b = self.inverse[None, :].expand(3, -1)
        c = self.scale * 2
        d = torch.arange(5).view(-1, 1) + 1
        e = x.new_zeros(3) * 2
        f = torch.zeros_like(x.view(-1)) + x
        g = x + given
        h = twice(x)
        i = torch.zeros(3).to(x.dtype)
        j = x.sum(0)


def twice(z):
    return z + z
"""


def test_what_modules_may_be_run_in() -> None:
    """Where nothing runs them: what autocast would make of them, and whose dtype a value has."""
    model = Model(Source((HEAD + SUPPOSED).encode(), "x.py"))
    series: dict[str, Series] = {}
    follows: dict[str, str] = {}
    for target in model.tree.nodes(cst.AssignTarget):
        node, name = model.tree.parent(target), model.tree.source(target.target)
        assert isinstance(node, cst.Assign)
        for run in model.dtypes.runs(node):
            series[name], follows[name] = run.of(node.value).series, run.of(node.value).follows
            if name == "k":
                assert model.supposed is not None
                assert not any(r.ambient.supposed for r in model.supposed.reaching(node.value))
            if name in "am":
                assert model.supposed is not None
                assert ANY in run.of(node.value).dtypes
                (supposed,) = model.supposed.reaching(node.value)
                assert supposed.of(node.value).dtypes == {"float16"}
    assert [series[name] for name in "abcd"] == [Series.NONE, *[Series.POWERS] * 2, Series.WHOLE]
    assert [follows[name] for name in "efghij"] == ["x", "x", "", "x", "x", ""]


@pytest.mark.parametrize(
    ("ending", "supposed"),
    [
        ("Net()(torch.ones(3))", True),
        ("Net()(torch.ones(3)).sum().backward()", False),
        ("def train(x):\n    loss = Net().cuda()(x).sum()\n    loss.backward()", False),
        ("def train(x, scaler):\n    scaler.scale(Net()(x).sum()).backward()", True),
        ("def train(x, engine):\n    engine.backward(Net()(x).sum())", True),
    ],
)
def test_who_trains_in_float32_has_no_autocast(ending: str, supposed: bool) -> None:
    net = "class Net(nn.Module):\n    def forward(self, x):\n        return x @ x\n\n\n"
    model = Model(Source((HEAD + net + ending).encode(), "x.py"))
    (product,) = model.tree.nodes(cst.BinaryOperation)
    assert model.supposed is not None
    states = {run.ambient.supposed for run in model.supposed.reaching(product)}
    assert (True in states) is supposed


def test_a_number_that_becomes_a_matrix_promotes() -> None:
    found = values(
        "def f(x):\n    y = torch.diagflat(torch.tensor(2.0)).remainder(torch.ones(4).half())\n"
    )
    assert found == {"y": "float32"}


@pytest.mark.parametrize(
    ("body", "plain"),
    [
        ("net(x).backward()", True),
        ("with torch.autocast('cuda'):\n        loss = net(x)\n    loss.backward()", False),
        ("return net(x)", False),
        ("accelerator.backward(net(x))", False),
    ],
)
def test_a_file_that_trains_itself_runs_in_no_other_region(body: str, plain: bool) -> None:
    text = f"import torch\ndef train(net, x):\n    {body}\n"
    model = Model(Source(text.encode(), "a.py"))
    assert model.trains_plainly is plain


@pytest.mark.parametrize("count", [2, 12])
def test_one_of_several_modules(count: int) -> None:
    classes = "".join(
        f"class Net{i}(nn.Module):\n"
        "    def __init__(self):\n"
        f"        super().__init__()\n        self.out = nn.Linear({i}, 3)\n"
        "    def forward(self, x):\n        return self.out(x)\n"
        for i in range(count)
    )
    chosen = "".join(f"    if n == {i}:\n        net = Net{i}()\n" for i in range(count))
    known = values(
        f"{classes}def f(n, x):\n    net = Net0()\n{chosen}"
        '    with torch.autocast("cuda"):\n        r = net(x)\n    return r\n'
    )
    assert known["r"].split("|")[-1] == "float16", known
