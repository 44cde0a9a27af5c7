"""Which functions of other files run with the modules of a file, or in its regions."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from amp_lint.syntax.callees import MODULES, Callees, callees
from tests.conftest import Result

Run = Callable[..., Result]

HELPERS = """\
    import torch

    def rays(n, k):
        places = torch.arange(n, device=k.device).float()
        return torch.matmul(k, places[None])
    """
NET = """\
    from torch import nn
    from geometry import rays

    class Net(nn.Module):
        def forward(self, x, k):
            return x + rays(x.shape[1], k)
    """
TRAIN = """\
    import torch
    from net import Net

    def train(optimizer, scaler, batches):
        model = Net()
        for x, k in batches:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(x, k).mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    """
FILES = {"geometry.py": HELPERS, "net.py": NET, "train.py": TRAIN}


def called(text: str, *functions: str) -> list[tuple[str, str]]:
    """What functions, or modules and regions, call of other files."""
    return sorted(set(callees(textwrap.dedent(text).encode()).run_by(functions or (MODULES,))))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("from a import f\nclass N(nn.Module):\n    def forward(self): f()\n", [("a", "f")]),
        ("from .a import f as g\nclass N(B):\n    def forward(self): g()\n", [("..a", "f")]),
        ("from . import a\nclass N(nn.Module):\n    def run(self): a.f()\n", [("..a", "f")]),
        ("import a.b\nclass N(nn.Module):\n    def run(self): a.b.f()\n", [("a.b", "f")]),
        ("import a.b as c\nclass N(nn.Module):\n    def run(self): c.f()\n", [("a.b", "f")]),
        ("from a import *\nclass N(nn.Module):\n    def run(self): f()\n", [("a", "f")]),
        ("from a import f\nclass N(nn.Module):\n    def __init__(self): f()\n", []),
        ("from a import f\nclass N:\n    def run(self): f()\n", []),
        ("from a import f\ndef g(): f()\nclass N(nn.Module):\n    def run(self): g()\n",
         [("a", "f")]),
        ("from a import f\ndef g(): f()\n", []),
        ("from a import f\nclass N(nn.Module):\n    @amp_off\n    def run(self): f()\n", []),
        ("from a import f\nclass N(nn.Module):\n    @no_grad\n    def run(self): f()\n",
         [("a", "f")]),
        ("from a import f\ndef g():\n    with torch.autocast('cuda'):\n        f()\n",
         [("a", "f")]),
        ("from a import f\ndef g():\n    with torch.autocast('cpu'):\n        f()\n", []),
        ("from a import f\nclass N(nn.Module):\n    def forward(self):\n"
         "        with torch.autocast('cuda', enabled=False):\n            f()\n", []),
        ("from a import f\nclass N(nn.Module):\n    def forward(self):\n"
         "        with self.maybe_fp16():\n            f()\n", []),
        ("from a import f\nclass N(nn.Module):\n    def forward(self):\n"
         "        with open('x'):\n            f()\n", [("a", "f")]),
        ("def f(:\n", []),
    ],
)  # fmt: skip
def test_what_modules_and_regions_run(body: str, expected: list[tuple[str, str]]) -> None:
    assert called(body) == expected


def test_what_a_function_runs_is_followed_in_its_file() -> None:
    text = "from a import f\ndef g(): h()\ndef h(): f(g())\n"
    assert called(text, "g") == [("a", "f")]
    assert called(text) == []


def test_what_nests_too_deeply_calls_nothing() -> None:
    assert callees(b"f(" * 500 + b")" * 500) == Callees()


def found(folder: Path, main: Run, **changed: str) -> list[str]:
    """What AMP315 says of the project, in which some files are others."""
    for name, text in (FILES | {f"{name}.py": text for name, text in changed.items()}).items():
        path = folder / name.replace("__init__", "geometry/__init__")
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text))
    options = "--preview", "--select", "AMP315", "--output-format", "concise", "-q"
    return main(*options, str(folder)).out.splitlines()


def test_a_helper_runs_in_the_region_of_the_module_that_calls_it(tmp_path: Path, main: Run) -> None:
    (line,) = found(tmp_path, main)
    assert "geometry.py:5:12: AMP315" in line
    assert "train.py:8 runs it so" in line


def test_a_helper_of_a_helper(tmp_path: Path, main: Run) -> None:
    between = "from geometry import rays\n\ndef cast(x, k):\n    return rays(len(x), k)\n"
    net = NET.replace("geometry import rays", "between import cast").replace("rays(x", "cast(x")
    assert len(found(tmp_path, main, between=between, net=net)) == 1


def test_a_helper_that_a_package_passes_on(tmp_path: Path, main: Run) -> None:
    (tmp_path / "helpers").mkdir()
    (tmp_path / "helpers" / "__init__.py").write_text("from .geometry import rays\n")
    (tmp_path / "helpers" / "geometry.py").write_text(textwrap.dedent(HELPERS))
    lines = found(tmp_path, main, net=NET.replace("geometry", "helpers"), geometry="x = 1\n")
    assert len(lines) == 1
    assert "helpers" in lines[0]


def test_a_helper_that_a_region_calls(tmp_path: Path, main: Run) -> None:
    train = TRAIN.replace("from net", "from geometry import rays\n    from net")
    train = train.replace("model(x, k).mean()", "(model(x, k) + rays(8, k)).mean()")
    lines = found(tmp_path, main, train=train, net=NET.replace("rays(", "abs("))
    assert len(lines) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x + rays(x.shape[1], k)", "x"),
        ("rays(x.shape[1], k)", "self.rays(x.shape[1], k)"),
        ("def forward", "@torch.amp.custom_fwd\n        def forward"),
        ("nn.Module", "dict"),
    ],
)
def test_a_helper_that_no_module_runs(old: str, new: str, tmp_path: Path, main: Run) -> None:
    net = NET.replace(old, new)
    net = net.replace("def forward", "def get") if new == "dict" else net
    assert net != NET
    assert found(tmp_path, main, net=net) == []
