"""Each rule that is a pair finds its expression in every spelling, and stays silent beside it."""

from __future__ import annotations

import pytest

from amp_lint import engine, registry
from amp_lint.selection import Selection
from amp_lint.text.source import Source
from amp_lint.vocabulary.expressions import Apply, parsed

PRELUDE = """\
import torch, torch as th
import torch.nn as nn
import torch.nn.functional as F
from torch import exp as e, log as ln, sigmoid as squash, softmax
from torch.nn.functional import binary_cross_entropy as bce


def log(t):
    return torch.log(t)


def root(t):
    return torch.sqrt(t)


"""
SPELLINGS = {
    "AMP301": """
        torch.log(F.softmax(x, 1)) | x.softmax(1).log() | torch.log(nn.Softmax(dim=1)(x))
        ln(softmax(x, dim=1)) | th.log(th.softmax(x, -1)) | (x.softmax(dim=-1)).log()
        log(x.softmax(1))
        torch.log(input=torch.softmax(input=x, dim=1)) | f"{x.softmax(1).log()}"
        (lambda: x.softmax(1).log()) | (x.softmax(1) / y).log() | torch.log(softmax(x, 1) * y)
    """,
    "AMP302": """
        torch.log(torch.sigmoid(x)) | x.sigmoid().log() | torch.log(nn.Sigmoid()(x)) | ln(squash(x))
        th.log(1 - F.sigmoid(x)) | (1. - (x.sigmoid())).log() | log(x.sigmoid())
        torch.log1p(-x.sigmoid())
        torch.log(input=torch.special.expit(x) + 1e-8) | f"{x.sigmoid().log()}"
        (lambda: x.sigmoid().log())
    """,
    "AMP303": """
        torch.log(torch.sum(torch.exp(x), 1)) | x.exp().sum(1).log() | ln(e(x).sum(-1))
        log(x.exp().sum(1))
        th.log(th.exp(x).sum(dim=-1, keepdim=True)) | (x.exp()).sum(axis=1).log()
        torch.log(e(x) + e(y))
        torch.log(input=torch.sum(input=e(x), dim=(0, 1))) | f"{x.exp().sum(1).log()}"
        (1 + e(x).sum(1)).log()
        (lambda: x.exp().sum(1).log()) | torch.log(1 + torch.sum(e(x))) | torch.log(e(x).sum())
        torch.log2(e(x).sum(1)) | x.exp().sum(-1).log10()
        torch.log(torch.mean(e(x))) | x.exp().mean(1).log() | ln(e(x).sum(1) / y)
        torch.log(e(x).sum() / len(x))
    """,
    "AMP304": """
        torch.exp(x) / torch.exp(x).sum(1, keepdim=True) | x.exp() / x.exp().sum(-1, True)
        e(x) / e(x).sum(1, True)
        torch.div(e(x), e(x).sum(1, True)) | x.exp().div(x.exp().sum(dim=-1, keepdim=True))
        th.exp(x) / torch.sum(th.exp(x), dim=1, keepdim=True)
        (x.exp()) / (x.exp().sum(1).unsqueeze(1))
        e(x) / torch.unsqueeze(e(x).sum(-1), -1) | f"{x.exp() / x.exp().sum(1, True)}"
        (lambda: x.exp() / x.exp().sum(1, True))
    """,
    "AMP305": """
        torch.log(1 + torch.exp(x)) | x.exp().log1p() | (1.0 + e(x)).log() | ln(e(x) + 1)
        log(1 + x.exp())
        th.log1p(th.exp(x)) | torch.log(torch.add(x.exp(), 1)) | torch.log(input=(1 + (x.exp())))
        f"{x.exp().log1p()}" | (lambda: x.exp().log1p())
    """,
    "AMP306": """
        F.binary_cross_entropy(torch.sigmoid(x), y) | bce(x.sigmoid(), y)
        nn.BCELoss()(squash(x), y)
        F.binary_cross_entropy(nn.Sigmoid()(x), y) | bce(input=F.sigmoid(x), target=y)
        bce((x.sigmoid()), y)
        F.binary_cross_entropy(torch.special.expit(x), y, reduction="sum") | f"{bce(squash(x), y)}"
        nn.BCELoss(reduction="none")(x.sigmoid(), y) | (lambda: bce(squash(x), y))
    """,
    "AMP308": """
        torch.sqrt(torch.sum(x**2, dim=1)) | x.pow(2).sum(-1).sqrt() | (x * x).sum(1).sqrt()
        root((x**2).sum(1))
        torch.sum(torch.square(x), 1) ** 0.5 | x.square().sum(1).pow(0.5)
        th.sqrt(((x - y) ** 2.0).sum(axis=1))
        torch.pow(torch.sum(x.pow(2), 1), 0.5) | f"{x.square().sum(1).sqrt()}"
        (lambda: x.square().sum(1).sqrt()) | (x**2).sum(1) ** 0.5
        torch.sqrt(torch.sum(x**2 * y, 1) / 3) | ((x - y) ** 2).sum(1).div(len(x)).sqrt()
    """,
}
STATEMENTS = {
    "AMP301": "p = x.softmax(1); z = p.log()",
    "AMP302": "p = x.sigmoid(); q = 1 - p; z = q.log()",
    "AMP303": "a = x.exp(); b = a.sum(1); z = b.log()",
    "AMP304": "a = x.exp(); b = a.sum(1, keepdim=True); z = a / b",
    "AMP305": "a = x.exp(); b = 1 + a; z = torch.log(b)",
    "AMP306": "p = x.sigmoid(); z = F.binary_cross_entropy(p, y)",
    "AMP308": "a = x**2; b = torch.sum(a, 1); z = b.sqrt()",
}
SILENT = {
    "AMP301": "x.log().softmax(1) | x.softmax(1) | math.log(x.softmax(1))",
    "AMP302": """
        x.log().sigmoid() | torch.log(2 - x.sigmoid()) | np.log(x.sigmoid())
        (x.sigmoid() - 1).log()
    """,
    "AMP303": """
        x.exp().log().sum(1) | torch.log(x.sum(1)) | np.log(np.exp(x).sum(1))
        e(x - x.max()).sum(1).log() | torch.log(x.mean(1)) | e(x).mean(1)
    """,
    "AMP304": """
        x.exp() / y.exp().sum(1, True) | x.exp() / x.exp().sum(1)
        np.exp(x) / np.exp(x).sum(1, True)
    """,
    "AMP305": """
        torch.log(2 + x.exp()) | torch.log(1 - x.exp()) | np.log1p(np.exp(x))
        torch.log1p(e(-x.abs()))
    """,
    "AMP306": """
        bce(x, y) | F.binary_cross_entropy_with_logits(x.sigmoid(), y)
        F.mse_loss(x.sigmoid(), y)
    """,
    "AMP308": """
        (x**3).sum(1).sqrt() | np.sqrt((x**2).sum(1)) | (x**3 * y).sum(1) ** 0.5
        (x * y).sum(1).sqrt()
    """,
}


def codes(rule: str, code: str) -> list[str]:
    """What one rule reports in the method of a module."""
    body = "".join(f"        {line.strip()}\n" for line in code.split(";"))
    text = f"{PRELUDE}class M(nn.Module):\n    def forward(self, x, y):\n{body}"
    found = registry.find(rule)
    assert found is not None
    selection = Selection((found,), preview=True)
    return [each.code for each in engine.check(Source(text.encode(), "m.py"), selection)]


def each(table: dict[str, str]) -> list[tuple[str, str]]:
    lines = [(rule, line) for rule, text in table.items() for line in text.strip().split("\n")]
    return [(rule, code.strip()) for rule, line in lines for code in line.split(" | ")]


@pytest.mark.parametrize(("rule", "code"), each(SPELLINGS))
def test_spellings(rule: str, code: str) -> None:
    assert codes(rule, f"return {code}") == [rule]


@pytest.mark.parametrize(("rule", "code"), STATEMENTS.items())
def test_statements(rule: str, code: str) -> None:
    assert codes(rule, code) == [rule]


@pytest.mark.parametrize(("rule", "code"), each(SILENT))
def test_what_is_another_expression(rule: str, code: str) -> None:
    assert codes(rule, f"return {code}") == []


def test_operators_alone_are_of_tensors_in_a_module() -> None:
    text = "class M(nn.Module):\n    def {}(self, x):\n        return (x**2).sum(1) ** 0.5\n"
    found = registry.find("AMP308")
    assert found is not None
    for name, count in (("forward", 1), ("table", 0)):
        source = Source((PRELUDE + text.format(name)).encode(), "m.py")
        assert len(engine.check(source, Selection((found,), preview=True))) == count


def test_the_table_has_all_rules_that_are_pairs() -> None:
    pairs = {rule.code for rule in registry.all_rules() if hasattr(rule, "pairs")}
    assert pairs == {*SPELLINGS} == {*STATEMENTS} == {*SILENT}


def test_an_expression_is_parsed() -> None:
    assert parsed("log(1 - sigmoid(x))") == Apply("log", Apply("rsub", Apply("sigmoid", "x"), (1,)))
    with pytest.raises(ValueError, match="lambda"):
        parsed("lambda: x")


CRITIC = """\
class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Sequential(nn.Conv2d(8, 1, 1), nn.Sigmoid())

    def forward(self, faces, real):
        return {}
"""


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ("AMP306", "F.binary_cross_entropy(self.head(faces).view(len(faces), -1), real)"),
        ("AMP306", "F.binary_cross_entropy(self.head(faces), real)"),
        ("AMP302", "torch.log(self.head(faces).squeeze(1))"),
    ],
)
def test_what_a_module_ends_with_has_no_name(rule: str, code: str) -> None:
    looked_for = registry.find(rule)
    assert looked_for is not None
    source = Source((PRELUDE + CRITIC.format(code)).encode(), "critic.py")
    (found,) = engine.check(source, Selection((looked_for,), preview=True))
    assert (found.code, found.fix) == (rule, None)
