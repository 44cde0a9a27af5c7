"""Rules about calls and classes find what they are about in ten spellings, and nothing beside."""

from __future__ import annotations

import pytest

from amp_lint import engine
from amp_lint.registry import all_rules
from amp_lint.selection import Selection
from amp_lint.text.source import Source
from tests.rules.test_spellings import found

HEAD = """\
import argparse, contextlib
import torch, torch as th
import torch.nn as nn
import torch.nn.functional as F
import torch.autograd as ag
from torch import autograd
from torch.amp import autocast, GradScaler
from torch.autograd import Function, grad
from torch.cuda import amp
from torch.cuda.amp import autocast as old_autocast, GradScaler as OldScaler
from torch.nn.functional import cross_entropy as ce, log_softmax

LOSS = nn.CrossEntropyLoss()
"""
HALVED = """
def cast(model):
    return model.half()

def train(model, batches, device):
    {line}
    optimizer = torch.optim.AdamW(model.parameters())
    for x, y in batches:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
"""
ENTERED = """
def f(x, w, on, device):
    with {line}:
        return x @ w
"""
BEFORE = """
def f(x, w, on):
    {line}
    return x @ w
"""
GENERATOR = """
class Loader:
    {line}
"""
FUNCTION = """
class Product({line}):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w.t(), x.t() @ g
"""
BACKWARD = """
class Product(Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x.mm(w)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        {line}
"""
OPTION = """
parser = argparse.ArgumentParser()
{line}
args = parser.parse_args()

def f(x, w):
    with torch.autocast("cuda", enabled=args.amp):
        return x @ w
"""
LOGITS = """
def helper(y, t):
    return F.cross_entropy(y, t)

def f(x, w, t):
    with torch.autocast("cuda", dtype=torch.float16):
        y = x @ w
    return {line}
"""
PENALTY = """
def slopes(y, x):
    return grad(y.sum(), x, create_graph=True)

def penalty(x, scaler, w):
    with torch.autocast("cuda", dtype=torch.float16):
        y = x @ w
    {line}
    scaler.scale((g.norm(2, dim=1) - 1).pow(2).mean()).backward()
"""
LOGGED = """
def train(model, optimizer, batches, scaler: torch.amp.GradScaler):
    for x, y in batches:
        optimizer.zero_grad()
        s = scaler.scale(model(x, y))
        s.backward()
        scaler.step(optimizer)
        scaler.update()
        {line}
"""
MOVED = """
from torch import backends, cuda
from torch import get_autocast_gpu_dtype as dtype_of
from torch.backends.cuda import matmul
from torch.cuda import is_bf16_supported
from torch.cuda import is_bf16_supported as has_bf16
{line}
"""
FOUND: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("AMP203", HALVED, (
        "model.half()", "model = model.half()", "model.to(torch.float16)", "model = (model.half())",
        "model = model.to(device).half()", "model.to(device=device, dtype=th.half)",
        "model.type(dst_type=torch.half)", "dtype = torch.float16; model.to(device, dtype)",
        "model = cast(model)", "model = nn.Linear(3, 3, dtype=torch.float16)",
        "model = nn.Sequential(nn.Linear(3, 3), nn.ReLU()).half().train()",
        "model.apply(lambda layer: layer.half())", "[*map(print, 'ab')]; model.half()",
        "for layer in model.children(): layer.half()",
        "for p in model.parameters(): p.data = p.data.half()",
        "for _, p in model.named_parameters(): p.data = p.data.to(torch.float16)",
    )),
    ("AMP206", ENTERED, (
        "torch.autocast()", "torch.autocast(enabled=on)", "autocast(True)",
        "torch.autocast(dtype=torch.float16)", "old_autocast('cuda')", "th.autocast(th.half)",
        "amp.autocast(dtype='cuda')", "autocast('cuda', 'float16')", "(autocast)(torch.float16)",
        "torch.autocast('cuda', dtype='float16')", "torch.autocast(device='cuda')",
        "old_autocast(device_type='cuda')", "autocast(torch.device('cuda'))",
    )),
    ("AMP206", "scaler = {line}\n", (
        "GradScaler(True)", "torch.amp.GradScaler(False)", "th.GradScaler(65536.0)",
        "OldScaler('cuda')", "amp.GradScaler(device='cuda')", "OldScaler(enable=True)",
        "torch.cuda.amp.GradScaler(True)", "GradScaler('cuda', True)",
    )),
    ("AMP207", ENTERED, (
        "torch.autocast", "autocast", "old_autocast", "amp.autocast", "th.amp.autocast",
        "(torch.autocast)", "torch.no_grad(), autocast", "torch.autocast as region",
        "torch.cpu.amp.autocast", "torch.autocast('cuda') and torch.no_grad()",
    )),
    ("AMP207", BEFORE, (
        "torch.autocast('cuda')", "old_autocast()", "amp.autocast(True)", "(autocast('cuda'))",
        "region = autocast('cuda')", "_ = torch.autocast('cuda')", "if on: autocast('cuda')",
        "autocast('cuda') if on else contextlib.nullcontext()",
        "region = contextlib.nullcontext() if on else th.autocast(device_type='cuda')",
    )),
    ("AMP208", GENERATOR, (
        "@torch.autocast('cuda')\n    def batches(self, xs):\n        yield from xs",
        "@amp.autocast()\n    def batches(self, xs):\n        for x in xs: yield x @ x",
        "@old_autocast(True)\n    async def batch(self, x):\n        return x @ x",
        "def batches(self, xs):\n        with autocast('cuda'):\n            yield xs[0] @ xs[1]",
        "def batches(self, xs):\n        with autocast('cuda'):\n            y = yield xs @ xs",
        "def run(self, w):\n        with autocast('cuda'):\n            def f(x):\n"
        "                return x @ w\n        return f",
        "def run(self, w):\n        with autocast('cuda'):\n            f = lambda x: x @ w\n"
        "        return f",
        "def run(self, xs):\n        with autocast('cuda'):\n            return (x for x in xs)",
        "def run(self, xs):\n        r = autocast('cuda')\n        with r: yield xs @ xs",
    )),
    ("AMP211", FUNCTION, (
        "Function", "torch.autograd.Function", "autograd.Function", "ag.Function",
        "th.autograd.function.Function",
    )),
    ("AMP211", BACKWARD, (
        "return g.mm(w.t()), x.t().mm(g)", "return torch.mm(g, w.t()), None",
        "return torch.matmul(other=w.t(), input=g), None", "a = g @ w.t(); return a, None",
        "return F.linear(g, w), None", "return (g).matmul((w.mT)), None",
        "return torch.einsum('ij,kj->ik', g, w), None", "return g @ w.transpose(-1, -2), None",
        "return g @ ctx.saved_tensors[1].t(), None", "return th.mm(g, w.t()), None",
    )),
    ("AMP212", OPTION, (
        "parser.add_argument('--amp', type=bool)", "parser.add_argument('-a', '--amp', type=bool)",
        "parser.add_argument('--on', dest='amp', default=True, type=(bool))",
        "parser.add_argument_group('x').add_argument('--amp', type=bool)",
        "parser.add_argument('--amp', type=lambda text: bool(text))",
        "parser.add_argument('--amp', action='store_true', default=True)",
        "parser.add_argument('--no-amp', dest='amp', default=False, action='store_false')",
        "parser.add_argument('--amp', default=False)",
        "parser.add_argument('--amp', type=str, default=True)",
        "import builtins; parser.add_argument('--amp', type=builtins.bool)",
    )),
    ("AMP318", LOGITS, (
        "F.cross_entropy(y, t)", "ce(input=y, target=t)", "nn.CrossEntropyLoss()(y, t)",
        "LOSS(y, t)", "F.log_softmax(y, -1)", "(y).log_softmax(dim=-1)", "nn.LogSoftmax(-1)(y)",
        "torch.logsumexp(y, 1)", "torch.special.log_softmax(y, 1)", "helper(y, t)",
        "F.nll_loss(log_softmax(y, 1), t)", "F.kl_div(y.log_softmax(1), t)",
        "f'{F.cross_entropy(y, t)}'", "nn.NLLLoss()(y.view(-1, 9).log_softmax(1), t)",
    )),
    ("AMP321", PENALTY, (
        "g = torch.autograd.grad(y.sum(), x, create_graph=True)[0]",
        "g, = grad(y.mean(), x, create_graph=True)", "g = slopes(y, x)[0]",
        "g = ag.grad(outputs=y, inputs=x, grad_outputs=torch.ones_like(y), create_graph=True)[0]",
        "g = autograd.grad(y, x, torch.ones_like(y), None, True)[0]",
        "z = y.sum(); g = grad(z, x, create_graph=True)[0]",
        "g = grad([y.sum()], [x], create_graph=True)[0]",
        "keep = True; g = grad(y.sum(), x, create_graph=keep)[0]",
        "g = grad(y, x, y.new_ones(y.shape), create_graph=True)[0]",
        "g = grad(y, x, torch.full_like(y, 1.0), create_graph=True)[0]",
        "g = (lambda: grad(y.sum(), x, create_graph=True))()[0]",
        "g = x; print(f'{grad(y.sum(), x, create_graph=True)}')",
    )),
    ("AMP116", LOGGED, (
        "print(s.item() / scaler.get_scale())", "v = float(s) / scaler.get_scale()",
        "k = scaler.get_scale(); v = s / k", "v = s.detach().cpu() / scaler.get_scale()",
        "v = s.item(); v /= scaler.get_scale()", "v = torch.div(s, scaler.get_scale())",
        "v = s.div(scaler.get_scale())", "v = s.item() * (1 / scaler.get_scale())",
        "k = 1.0 / scaler.get_scale(); v = k * s.data", "print(f'{s / scaler.get_scale()}')",
        "v = (s.item()) / (scaler.get_scale())",
    )),
    ("AMP402", MOVED, (
        "torch.get_autocast_gpu_dtype()", "dtype_of()", "th.is_autocast_cpu_enabled()",
        "(torch.get_autocast_cpu_dtype)()", "f = lambda: torch.get_autocast_gpu_dtype()",
        "torch.set_autocast_cpu_dtype(dtype=torch.half)", "x = torch.get_autocast_gpu_dtype()",
        "print(f'{dtype_of()}')", "f = torch.get_autocast_gpu_dtype; f()",
        "torch.set_autocast_cpu_enabled(True)",
    )),
    ("AMP403", MOVED, (
        "backends.fp32_precision = 'tf32'; x = matmul.allow_tf32",
        "X = 'tf32'; torch.backends.cuda.matmul.fp32_precision = X; x = matmul.allow_tf32",
        *(f"torch.backends.cuda.matmul.fp32_precision = 'tf32'; {read}" for read in (
            "print(torch.backends.cuda.matmul.allow_tf32)", "x = backends.cuda.matmul.allow_tf32",
            "x = th.backends.cuda.matmul.allow_tf32", "f = lambda: matmul.allow_tf32",
            "x = (torch.backends.cuda.matmul).allow_tf32", "print(f'{matmul.allow_tf32}')",
            "m = torch.backends.cuda.matmul; x = m.allow_tf32", "assert matmul.allow_tf32",
        )),
    )),
    ("AMP404", "{line}\n", (
        "from apex import amp; amp.initialize(m, o)", "import apex; apex.amp.initialize(m, o)",
        "import apex.amp as amp; amp.initialize(m, o)", "import apex.amp; apex.amp.initialize(m)",
        "from apex.amp import initialize; initialize(m, o)",
        "from apex.amp import initialize as init; init(m, o)",
        "from apex import amp as a; a.initialize(models=m, optimizers=o)",
        "from apex import amp; f = lambda: amp.initialize(m, o)",
        "from apex import amp; print(f'{amp.initialize(m, o)}')",
        "from apex import amp; (amp).initialize(m, o)",
    )),
    ("AMP405", "import contextlib, transformer_engine.pytorch as te\n{line}\n", (
        "with te.fp8_autocast(enabled=True): pass", "c = te.fp8_autocast()",
        "from transformer_engine.pytorch import fp8_autocast; c = fp8_autocast()",
        "from transformer_engine.pytorch import fp8_autocast as f; c = f(True)",
        "import transformer_engine; c = transformer_engine.pytorch.fp8_autocast()",
        "from transformer_engine import pytorch; c = pytorch.fp8_autocast()",
        "with (te.fp8_autocast)(): pass", "f = lambda: te.fp8_autocast()",
        "contextlib.ExitStack().enter_context(te.fp8_autocast())", "print(f'{te.fp8_autocast()}')",
    )),
    ("AMP406", MOVED, (
        "x = torch.cuda.is_bf16_supported()", "x = is_bf16_supported()", "assert has_bf16()",
        "x = torch.half if th.cuda.is_bf16_supported() else None", "x = cuda.is_bf16_supported()",
        "f = lambda: torch.cuda.is_bf16_supported()", "print(f'{is_bf16_supported()}')",
        "x = (torch.cuda.is_bf16_supported)()", "f = torch.cuda.is_bf16_supported; f()",
        "x = torch.cuda.is_available() and torch.cuda.is_bf16_supported()",
    )),
)  # fmt: skip
SILENT: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("AMP203", HALVED, (
        "model = nn.Linear(3, 3, dtype=torch.bfloat16)", "other = nn.Linear(3, 3).half()",
        "for p in device.parameters(): p.data = p.data.half()", "model.apply(lambda m: m.float())",
        "halves = [p.half() for p in model.parameters()]",
        "from torch import zeros\n    for layer in model.children(): zeros(3, dtype=torch.half)",
        "for p in model.parameters(): half = p.data.half()",
        "for p in model.parameters():\n        if p.dim() > 1:\n            continue\n"
        "        p.data = p.data.half()",
        "for p in model.parameters(): p.data = p.data.half()\n"
        "    for p in model.parameters(): p.data = p.data.float()",
    )),
    ("AMP206", ENTERED, (
        "torch.autocast('cuda')", "old_autocast(on)", "autocast(device.type, th.float16, on)",
        "torch.autocast('cuda:0')", "autocast(device_type=device)",
    )),
    ("AMP207", BEFORE, (
        "region = autocast('cuda')\n    with region: x = x @ w",
        "global region; region = autocast('cuda')",
        "region = autocast('cuda'); regions = [region]", "return autocast('cuda')",
    )),
    ("AMP208", GENERATOR, (
        "def run(self, xs, f):\n        with autocast('cuda'):\n            g = (x for x in f(xs))",
        "def run(self, xs):\n        with autocast('cuda'):\n            g = lambda x: x @ x\n"
        "            return g(xs)",
    )),
    ("AMP212", OPTION, (
        "parser.add_argument('--amp', type=lambda text: bool(int(text)))",
        "parser.add_argument('--no-amp', dest='amp', action='store_false', default=True)",
        "parser.add_argument('--amp', type=str, default='fp16')",
    )),
    ("AMP318", LOGITS, (
        "F.cross_entropy(y.float(), t)", "nn.CrossEntropyLoss()(y.float(), t)",
        "F.nll_loss(F.log_softmax(y.float(), 1), t)", "y.log_softmax(-1, dtype=torch.float32)",
    )),
    ("AMP321", PENALTY, (
        "g = grad(y, x, torch.full_like(y, 1e4), create_graph=True)[0]",
        "g = grad(scaler.scale(y.sum()), x, create_graph=True)[0]",
    )),
    ("AMP402", MOVED, ("torch.get_autocast_dtype('cuda')", "torch.is_autocast_enabled('cpu')")),
    ("AMP403", MOVED, (
        "x = torch.backends.cuda.matmul.allow_tf32", "matmul.fp32_precision = 'tf32'",
        "x = matmul.allow_tf32; matmul.fp32_precision = 'tf32'",
    )),
    ("AMP404", "{line}\n", (
        "from torch.cuda import amp; amp.initialize(m, o)", "from my import amp; amp.initialize()",
    )),
    ("AMP406", MOVED, ("x = torch.cuda.is_bf16_supported(including_emulation=False)",)),
    ("AMP116", LOGGED, (
        "v = s.item() * scaler.get_scale()", "v = s.item() * (2 / scaler.get_scale())",
        "v = scaler.get_scale() / s.item()",
    )),
)  # fmt: skip


def codes(code: str, frame: str, line: str) -> list[str]:
    return found(HEAD + frame.replace("{line}", line), code)


@pytest.mark.parametrize(("code", "frame", "lines"), FOUND, ids=lambda each: str(each)[:6])
def test_every_spelling_is_found_once(code: str, frame: str, lines: tuple[str, ...]) -> None:
    for line in lines:
        assert codes(code, frame, line) == [code], line


@pytest.mark.parametrize(("code", "frame", "lines"), SILENT, ids=lambda each: str(each)[:6])
def test_what_is_beside_is_none(code: str, frame: str, lines: tuple[str, ...]) -> None:
    for line in lines:
        assert codes(code, frame, line) == [], line


@pytest.mark.parametrize(
    ("line", "is_offered"),
    [
        ("parser.add_argument('--amp', action='store_true', default=True)", True),
        ("parser.add_argument('--no-amp', dest='amp', action='store_false', default=False)", False),
        ("parser.add_argument('--amp', type=str, default=True)", False),
    ],
)
def test_a_switch_is_made_where_it_says_the_same(line: str, is_offered: bool) -> None:
    rule = next(rule for rule in all_rules() if rule.code == "AMP212")
    source = Source((HEAD + OPTION.replace("{line}", line)).encode(), "x.py")
    (only,) = engine.check(source, Selection((rule,), preview=True))
    assert (only.fix is not None) is is_offered
