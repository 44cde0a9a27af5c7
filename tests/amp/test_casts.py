"""Products of explicit casts to float32."""

from __future__ import annotations

import pytest

from tests.programs import model_of


def products(text: str) -> list[str]:
    """The products found, as they are written."""
    found = model_of(f"import torch\nimport torch.nn.functional as F\n{text}\n")
    return [found.tree.source(product.node) for product in found.casts.products]


@pytest.mark.parametrize(
    "product",
    [
        "x.float() @ y.float()",
        "(x.float()) @ y.t().float().t()",
        "torch.mm(x.to(torch.float32), y.to(dtype=torch.float))",
        "torch.bmm(x.to('cuda', dtype=torch.float32), y.type(torch.float32))",
        "x.float().transpose(0, 1).matmul(y.float())",
        "torch.einsum('ij,jk,kl->il', x.float(), y.float(), z.float())",
        "F.linear(x.float(), w.float(), b)",
        "F.conv2d(x.float(), w.float(), stride=2)",
        "F.scaled_dot_product_attention(q.float(), k.float(), v.float())",
        "(x.float() * m.float()) @ (-y.float())",
        "(1 - x.float()[0]) @ (2 * y.float())",
    ],
)
def test_products(product: str) -> None:
    assert products(product) == [product]


@pytest.mark.parametrize(
    "text",
    [
        "x.float() @ y",
        "x.float() * y.float()",
        "(x.float() @ z) @ y.float()",
        "(x * m.float()) @ y.float()",
        "(x.float() ** 2) @ y.float()",
        "x.half() @ y.float()",
        "x.to(torch.float64) @ y.to(torch.float64)",
        "x.to(device) @ y.float()",
        "x.float().relu() @ y.float()",
        "float(x) @ y.float()",
        "torch.einsum('ii', x.float())",
        "F.scaled_dot_product_attention(q.float(), k.float(), v)",
        "torch.matmul(*factors)",
        "torch.add(x.float(), y.float())",
        "numpy_like.dot(x.float(), y.float())",
    ],
)
def test_others(text: str) -> None:
    assert products(text) == []


@pytest.mark.parametrize(
    ("test", "otherwise", "found"),
    [
        ("y is not None", "", True),
        ("(y is not None)", "", True),
        ("y is None", "", False),
        ("x is not None", "", False),
        ("y is not other", "", False),
        ("y.is_cuda", "", False),
        ("y is not None", "    else:\n        y = z\n", False),
    ],
)
def test_cast_where_it_is_not_none(test: str, otherwise: str, found: bool) -> None:
    text = f"""\
def scores(x, y, z, other):
    x = x.float()
    if {test}:
        y = y.float()
{otherwise}    return torch.matmul(x, y.transpose(-2, -1))
"""
    assert bool(products(text)) == found


def test_held_in_a_name() -> None:
    held = "def f(x, y):\n    a = x.float()\n    return a @ y.float()"
    assert products(held) == ["a @ y.float()"]
    assert products(held.replace("return", "a = g(a)\n    return")) == []
    assert products(held.replace("return", "a.half_()\n    return")) == []


@pytest.mark.parametrize(
    ("product", "made", "found"),
    [
        ("x.float() @ self.w", "nn.Parameter(torch.ones(2, 2))", True),
        ("torch.einsum('ij,jk->ik', x.float(), self.w.t())", "nn.Parameter(y)", True),
        ("x.float() @ self.w", "nn.Parameter(torch.ones(2, 2, dtype=torch.half))", False),
        ("x.float() @ self.w", "torch.ones(2, 2)", False),
        ("x @ self.w", "nn.Parameter(y)", False),
        ("attention_mask.float() @ self.w", "nn.Parameter(y)", False),
    ],
)
def test_parameters(product: str, made: str, found: bool) -> None:
    text = (
        "from torch import nn\nclass Net(nn.Module):\n"
        f"    def __init__(self, y):\n        self.w = {made}\n"
        f"    def forward(self, x, attention_mask):\n        return {product}"
    )
    assert products(text) == [product] * found
