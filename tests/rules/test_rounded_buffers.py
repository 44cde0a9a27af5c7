"""What casts the frequencies of rotary embeddings."""

from __future__ import annotations

import pytest

from amp_lint import engine, registry
from amp_lint.selection import Selection
from amp_lint.syntax.project import Links
from amp_lint.text.source import Source

ROTARY = """\
import torch
from torch import nn
class Rotary(nn.Module):
    def __init__(self, width):
        super().__init__()
        angles = 1.0 / (10000 ** (torch.arange(0, width, 2).float() / width))
        self.register_buffer("angles", angles)
class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.rotary = Rotary(width)
"""
TURNED = "angles = torch.arange(9)[:, None] * "
FSDP = "from torch.distributed.fsdp import MixedPrecision\n"
RULES = tuple(rule for rule in registry.all_rules() if rule.code == "AMP505")


def count(program: str, links: Links | None = None) -> int:
    selection = Selection(RULES, preview=True)
    return len(engine.check(Source(program.encode(), "net.py"), selection, links=links))


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("net = Net(8).half()", 1),
        ("net = Net(8).cuda().to(torch.bfloat16)", 1),
        ("net = Net(8).to('cuda', torch.float16)", 1),
        ("net = Net(8).to(dtype=torch.half)", 1),
        ("net = Rotary(8).type(torch.half)", 1),
        ("class Heir(Net): pass\nnet = Heir(8).half()", 1),
        ("net = Net(8).float()", 0),
        ("net = Net(8).to('cuda')", 0),
        ("x = torch.zeros(8).half()", 0),
        ("x = nn.Linear(8, 8).half()", 0),
        (FSDP + "MixedPrecision(buffer_dtype=torch.half)", 1),
        (FSDP + "low = torch.bfloat16\nMixedPrecision(low, low, low)", 1),
        (FSDP + "MixedPrecision(torch.half, torch.half)", 0),
        (FSDP + "MixedPrecision(buffer_dtype=torch.float32)", 0),
    ],
)
def test_casts(line: str, found: int) -> None:
    assert count(ROTARY + line + "\n") == found
    assert not count(ROTARY.replace("10000 **", "10000 *") + line + "\n")


@pytest.mark.parametrize(
    ("made", "found"),
    [
        ("torch.exp(torch.arange(0, width, 2).float() * (-9.2 / width))", 1),
        ("width ** (-torch.arange(0, width, 2).float() / width)", 1),
        ("1.0 / torch.pow(1e4, torch.arange(0, width, 2).float() / width)", 1),
        ("torch.exp2(-torch.arange(0, width, 2) / width)", 1),
        ("2.0 ** (-torch.arange(width) / width)", 1),
        ("torch.exp2(torch.arange(width))", 0),
        ("2.0 ** torch.arange(width)", 0),
        ("0.5 ** torch.arange(width).float()", 0),
        ("torch.arange(width)", 0),
        ("torch.arange(width).float()", 0),
        ("torch.linspace(0, 1, width)", 0),
        ("torch.cos(1e4 ** torch.arange(width).float())", 0),
    ],
)
def test_what_is_kept(made: str, found: int) -> None:
    kept = "1.0 / (10000 ** (torch.arange(0, width, 2).float() / width))"
    assert kept in ROTARY
    assert count(ROTARY.replace(kept, made) + "net = Net(8).half()\n") == found


@pytest.mark.parametrize(
    ("cast", "found"),
    [
        ("to(torch.bfloat16)", 1),
        ("to('cuda', torch.float16)", 1),
        ("type(torch.half)", 1),
        ("half()", 0),
        ("bfloat16()", 0),
        ("to('cuda')", 0),
    ],
)
@pytest.mark.parametrize(
    ("made", "is_complex"),
    [
        ("torch.polar(torch.ones_like(angles), angles)", True),
        ("torch.fft.rfft(given)", True),
        ("torch.polar(torch.ones_like(angles), angles)[:8]", True),
        ("torch.polar(torch.ones_like(angles), angles).real", False),
        ("torch.view_as_real(torch.polar(torch.ones_like(angles), angles))", False),
        ("torch.fft.rfft(given).abs()", False),
        ("torch.polar(torch.ones_like(angles), angles).float()", False),
    ],
)
def test_complex_buffers(made: str, is_complex: bool, cast: str, found: int) -> None:
    kept = 'self.register_buffer("angles", angles)'
    program = ROTARY.replace(kept, f'self.register_buffer("kept", {made})')
    program = program.replace("width):", "width, given=None):").replace("angles = ", TURNED)
    assert count(f"{program}net = Net(8).{cast}\n") == (found if is_complex else 0)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("from transformers import LlamaForCausalLM", 1),
        ("from transformers.models.qwen2.modeling_qwen2 import Qwen2DecoderLayer", 1),
        ("import transformers", 0),
        ("from transformers import LlamaTokenizer", 0),
        ("from transformers import BertModel", 0),
        ("from mine import LlamaForCausalLM", 0),
    ],
)
def test_models_of_transformers(name: str, found: int) -> None:
    program = f"import torch\n{name}\n{FSDP}MixedPrecision(buffer_dtype=torch.bfloat16)\n"
    assert count(program) == found


def test_a_model_of_another_file() -> None:
    links = Links((ROTARY.encode(),), {(0, "net"): 1}, models=True)
    main = (
        "import torch\nfrom net import Net\nnet = Net(8).half()\nnet(torch.zeros(1)).backward()\n"
    )
    assert count(main, links) == 1
    assert not count(main.replace(".half()", ""), links)
