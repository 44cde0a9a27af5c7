"""What leads nowhere is told without looking at all that it leads to."""

from __future__ import annotations

import ast
from collections.abc import Iterable

import pytest

from amp_lint.syntax import links as linking
from amp_lint.syntax.links import attachments, leads
from amp_lint.syntax.project import Links

STEP = "def step(loss):\n    loss.backward()\n"
PLAIN = "def step(loss):\n    return loss + 1\n"
CASES = {
    "what trains": ("from a import step\nstep(x)\n", (STEP,), True),
    "what does not": ("from a import step\nstep(x)\n", (PLAIN,), False),
    "beside it": ("from a import other\nother(x)\n", (f"def other(): ...\n{STEP}",), False),
    "a module": ("import a\na.step(x)\n", (STEP,), True),
    "beside it in a module": ("import a\na.other(x)\n", (f"def other(): 1\n{STEP}",), False),
    "all of a module": ("from a import *\nstep(x)\n", (STEP,), True),
    "within its file": ("from a import run\nrun(x)\n", (f"def run(x): step(x)\n{STEP}",), True),
    "passed on": ("from b import step\nstep(x)\n", (STEP, "from a import step\n"), True),
    "all passed on": ("from b import step\nstep(x)\n", (STEP, "from a import *\n"), True),
    "read on the way": (
        "from b import run\nrun(x)\n",
        (STEP, "import a\ndef run(x):\n    a.step(x)\n"),
        True,
    ),
    "imported on the way": (
        "from b import run\nrun(x)\n",
        (STEP, "def run(x):\n    from a import step\n    step(x)\n"),
        True,
    ),
    "called after a scaler": ("import a\na.MyGradScaler()\n", ("MyGradScaler = 1\n",), True),
    "the default of a setting": (
        "from a import Config\nConfig().dtype\n",
        ("import torch\nclass Config:\n    dtype: torch.dtype = torch.bfloat16\n",),
        True,
    ),
    "a setting of another dtype": (
        "from a import Config\nConfig().dtype\n",
        ("import torch\nclass Config:\n    dtype: torch.dtype = torch.float32\n",),
        False,
    ),
    "a class that reads gradients": (
        "from a import Meter\nMeter().read(p)\n",
        ("class Meter:\n    def read(self, p):\n        return p.grad.norm()\n",),
        True,
    ),
    "a class whose heirs train": (
        "from a import Base\nclass Heir(Base):\n    pass\n",
        ("import pytorch_lightning as pl\nclass Base(pl.LightningModule):\n    pass\n",),
        True,
    ),
    "in a circle": ("from b import run\nrun(x)\n", (PLAIN, "import a\nrun = a.step\n"), False),
}


@pytest.mark.parametrize("case", CASES)
def test_leads_where_something_is_attached(case: str) -> None:
    data, files, expected = CASES[case]
    table = {(at, name): to for to, name in ((1, "a"), (2, "b")) for at in range(3) if at != to}
    table = {key: to for key, to in table.items() if to <= len(files)}
    links = Links(tuple(text.encode() for text in files), table)
    assert leads(data.encode(), links) is expected
    assert any(attachments(data.encode(), links).texts) is expected


def test_what_is_left_where_nothing_matters() -> None:
    links = Links((b"x = 1\n",), {(0, "a"): 1})
    assert links.narrowed() is None
    links = Links((b"",), {}, frozenset({1}), trainers=(("t.py", b""),), models=True)
    assert links.narrowed() == Links((), {}, trainers=(("t.py", b""),))


@pytest.mark.parametrize("docstring", ['"""Steps."""', "'''\n        Steps.\n        '''"])
def test_a_large_class_is_attached_without_docstrings(docstring: str) -> None:
    long = docstring.replace("Steps.", "Steps. " * 4_000)
    method = f"    def step(self, loss):\n        {long}\n        loss.backward()\n"
    only = '    def other(self):\n        """Nothing."""\n'
    owner = f'class Trainer:\n    """Trains."""\n{method}{only}'
    (text,) = attachments(
        b"from a import Trainer\nTrainer().step(x)\n", Links((owner.encode(),), {(0, "a"): 1})
    ).texts
    assert "loss.backward()" in text
    assert '"""Nothing."""' in text  # which is all that it does
    assert "Steps." not in text and "Trains." not in text


SAID = "from a import Trainer\ndef save(run: Trainer):\n    return run.{}.state_dict()\n"


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (SAID.format("optimizer"), True),
        (SAID.format("model"), False),
        (SAID.format("optimizer").replace("run:", "self:").replace("run.", "self."), False),
        (SAID.format("optimizer").replace("run: Trainer", "run: [Trainer]"), False),
    ],
)
def test_the_class_of_what_a_parameter_is_said_to_be(program: str, expected: bool) -> None:
    owner = b"class Trainer:\n    def step(self, loss):\n        loss.backward()\n"
    links = Links((owner,), {(0, "a"): 1})
    assert leads(program.encode(), links) is expected


def test_what_imports_nothing_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    matters = linking._matters

    def counted(node: ast.AST, parts: Iterable[ast.AST]) -> bool:
        asked.append(getattr(node, "name", ""))
        return matters(node, parts)

    monkeypatch.setattr(linking, "_matters", counted)
    helper = "def helper(x):\n    return x.that_no_other_file_has\n"
    data = b"from a import step\nstep(x)\n"
    files = (f"{STEP}    helper(loss)\n{helper}".encode(),)
    assert leads(data, Links(files, {(0, "a"): 1}))
    assert asked == ["step"]
