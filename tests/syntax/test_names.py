"""What names stand for: imports, aliases, scopes, conditional imports."""

from __future__ import annotations

import textwrap

import libcst as cst
import pytest

from amp_lint.syntax.names import Binding, Names, canonical, dotted
from amp_lint.syntax.tree import Tree
from tests.programs import model_of

AUTOCAST = "torch.cuda.amp.autocast"


def qualified(text: str) -> set[str]:
    """What the function of the only call of the form ``X(use)`` stands for."""
    model = model_of(textwrap.dedent(text))
    (call,) = (
        call
        for call in model.tree.nodes(cst.Call)
        if any(isinstance(a.value, cst.Name) and a.value.value == "use" for a in call.args)
    )
    return set(model.names.qualified(call.func))


@pytest.mark.parametrize(
    "text",
    [
        "import torch\ntorch.cuda.amp.autocast(use)",
        "import torch as t\nt.cuda.amp.autocast(use)",
        "import torch.cuda.amp\ntorch.cuda.amp.autocast(use)",
        "import torch.nn\ntorch.cuda.amp.autocast(use)",
        "import torch.cuda.amp as amp\namp.autocast(use)",
        "from torch import cuda\ncuda.amp.autocast(use)",
        "from torch.cuda import amp\namp.autocast(use)",
        "from torch.cuda import amp as a\na.autocast(use)",
        "from torch.cuda.amp import autocast\nautocast(use)",
        "from torch.cuda.amp import autocast as cast\ncast(use)",
        "from torch.cuda.amp.autocast_mode import autocast\nautocast(use)",
        "from torch.cuda.amp import *\nautocast(use)",
        "from torch.cuda.amp import autocast\ncast = autocast\ncast(use)",
        "from torch.cuda import amp\na = amp\nb = a.autocast\nb(use)",
        "import torch\ndef f():\n    torch.cuda.amp.autocast(use)",
        "def f():\n    from torch.cuda.amp import autocast\n    autocast(use)",
        "def f():\n    from torch.cuda.amp import autocast\n    def g():\n        autocast(use)",
        "def f():\n    autocast(use)\nfrom torch.cuda.amp import autocast",
        "from torch.cuda.amp import autocast\nclass A:\n    def f(self):\n        autocast(use)",
        "def f():\n    global autocast\n    from torch.cuda.amp import autocast\nautocast(use)",
        "from torch.cuda.amp import autocast\n[autocast(use) for x in y]",
        "from torch.cuda.amp import autocast\nf = lambda: autocast(use)",
        "from torch.cuda.amp import autocast\ndef f(x=autocast(use)):\n    autocast = x",
        "torch.cuda.amp.autocast(use)",
    ],
)
def test_one_meaning(text: str) -> None:
    assert qualified(text) == {AUTOCAST}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "try:\n    from torch.amp import autocast\nexcept ImportError:\n"
            "    from torch.cuda.amp import autocast\nautocast(use)",
            {"torch.amp.autocast", AUTOCAST},
        ),
        (
            "import torch\nfrom contextlib import nullcontext\n"
            "f = torch.autocast if a else nullcontext\nf(use)",
            {"torch.autocast", "contextlib.nullcontext"},
        ),
        (
            "import torch\nif a:\n    f = torch.autocast\nelse:\n    f = b\nf(use)",
            {"torch.autocast"},
        ),
        ("import a.b.c\na.b.c.d(use)", {"a.b.c.d"}),
        ("from . import amp\namp.autocast(use)", {".amp.autocast"}),
        ("getattr(use)", {"builtins.getattr"}),
    ],
)
def test_several_and_other_meanings(text: str, expected: set[str]) -> None:
    assert {name.lstrip(".") for name in qualified(text)} == {n.lstrip(".") for n in expected}


@pytest.mark.parametrize(
    "text",
    [
        "autocast(use)",
        "from torch.cuda.amp import autocast\ndef f(autocast):\n    autocast(use)",
        "from torch.cuda.amp import autocast\ndef f():\n    autocast = g()\n    autocast(use)",
        "from torch.cuda.amp import autocast\ndef f():\n    for autocast in g():\n"
        "        autocast(use)",
        "from torch.cuda.amp import autocast\ndef f():\n    with g() as autocast:\n"
        "        autocast(use)",
        "from torch.cuda.amp import autocast\n[autocast(use) for autocast in x]",
        "from torch.cuda.amp import autocast\n(lambda autocast: autocast(use))",
        "from torch.cuda.amp import autocast\ndef f():\n    def autocast():\n        pass\n"
        "    autocast(use)",
        "class A:\n    from torch.cuda.amp import autocast\n    def f(s):\n        autocast(use)",
        "def f():\n    from torch.cuda.amp import autocast\ndef g():\n    autocast(use)",
        "import torch\nself.torch.cuda.amp.autocast(use)",
        "import torch\nf().cuda.amp.autocast(use)",
        "autocast = autocast\nautocast(use)",
        "a = b\nb = a\na.autocast(use)",
    ],
)
def test_no_meaning(text: str) -> None:
    assert qualified(text) == set()


def test_is_any_and_is_only() -> None:
    model = model_of("import torch\nf = torch.a if x else torch.b\nf\ng")
    *_, f, g = (n for n in model.tree.nodes(cst.Name) if n.value in "fg")
    assert model.names.is_any(f, {"torch.a"}) and not model.names.is_only(f, {"torch.a"})
    assert model.names.is_only(f, {"torch.a", "torch.b", "torch.c"})
    assert not model.names.is_any(g, {"torch.a"}) and not model.names.is_only(g, {"torch.a"})


def test_definition() -> None:
    model = model_of(
        """
        def one(): pass
        class Two: pass
        three = one
        def four(): pass
        def four(): pass
        five = five
        [one, Two, three, four, five, six]
        """
    )
    (shown,) = model.tree.nodes(cst.List)
    found = [model.names.definition(element.value) for element in shown.elements]
    assert [d.name.value if d else None for d in found] == ["one", "Two", "one", None, None, None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a", "a"), ("a.b.c", "a.b.c"), ("a().b", None), ("a[0].b", None), ("1", None)],
)
def test_dotted(text: str, expected: str | None) -> None:
    assert dotted(cst.parse_expression(text)) == expected


def test_canonical() -> None:
    assert canonical("torch.nn.utils.clip_grad.clip_grad_norm_") == "torch.nn.utils.clip_grad_norm_"
    assert canonical("torch.cuda.amp.grad_scaler.GradScaler") == "torch.cuda.amp.GradScaler"
    assert canonical("mine.clip_grad.f") == "mine.clip_grad.f"


def test_a_definition_in_another_text_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    visible = Names.visible

    def counted(self: Names, node: cst.CSTNode, name: str) -> list[Binding]:
        asked.append(name)
        return visible(self, node, name)

    monkeypatch.setattr(Names, "visible", counted)
    tree = Tree("from b import f\nf(1)", ("x = 1\n", "def f(y):\n    return y\n")).linked
    names = Names(tree, links={(0, "b"): 2})
    (call,) = tree.nodes(cst.Call)
    found = [names.definition(call.func) for _ in range(5)]
    assert found == [tree.nodes(cst.FunctionDef)[0]] * 5
    assert found[0] is not None and names.part(found[0]) == 2
    assert len(asked) == 2
