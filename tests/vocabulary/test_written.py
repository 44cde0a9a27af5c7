"""A look finds what its patterns find, however it goes about it."""

from __future__ import annotations

import random
import re

import pytest

from amp_lint.registry import all_rules
from amp_lint.vocabulary import written
from amp_lint.vocabulary.identifiers import core, identifiers
from amp_lint.vocabulary.written import Look

OF_RULES = [look for rule in all_rules() for look in (rule.pattern, *rule.asks_callers) if look]
OF_TEXTS = [value for value in vars(written).values() if isinstance(value, Look)]
ALTERNATIVES = sorted({each for look in (*OF_RULES, *OF_TEXTS) for each in look.alternatives})
TEXT = """\
scaler.unscale_(optimizer)  # a scaler
loss.backward()
self.optimizer
    .step()
optim.load_state_dict(saved["scaler"])
torch.save({k: v.state_dict() for k, v in self.kept.items()}, "x.pt")
model.half()
backbone.to(torch
    .float16)
x = torch.log(1 - p) * 1e-9 * p * p, log1p(torch.exp(-x)), y ** -2
m[mask] = (q @ k.transpose(1, 2)).masked_fill(mask, -1e9)
parser.add_argument("--amp", type=bool, default=True, action="store_true")
p.grad.data.mul_(2); p.grad = None; p.grad *= 2
if device == "cuda" or kind in ("cpu",): getattr(torch, name)
with torch.autocast("cuda", torch.bfloat16): einsum(a, b).svd(); fft.rfft(x)
"""


@pytest.mark.parametrize("alternative", ALTERNATIVES, ids=lambda each: each[0][:40])
def test_a_look_finds_what_its_pattern_finds(alternative: tuple[str, frozenset[str]]) -> None:
    pattern = re.compile(alternative[0].encode())
    chosen = random.Random(0)
    found = 0
    for _ in range(200):
        pieces = re.split(r"(\W)", TEXT)
        start = chosen.randrange(len(pieces))
        kept = pieces[start : start + chosen.randrange(1, 120)]
        data = "".join(piece for piece in kept if chosen.random() > 0.05).encode()
        found += pattern.search(data) is not None
        assert Look((alternative,)).found_in(data) is (pattern.search(data) is not None), data
    assert found < 200 or alternative[1] == {""}


def test_identifiers_are_listed_once() -> None:
    data = "a.b_c(a, 'd-e', é2) # a".encode()
    assert sorted(identifiers(data).split()) == [b"2", b"a", b"b_c", b"d", b"e"]
    assert core("torch.save(") == b"torch"
    assert core(".grad") == b"grad"
    assert core("**") == b""
