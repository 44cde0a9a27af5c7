"""Functions that are read before their file is: what they show, and what they leave open."""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_lint import engine
from amp_lint.registry import find
from amp_lint.run import job as jobs
from amp_lint.run.job import Action, Job, looked_into
from amp_lint.selection import Selection
from amp_lint.sieve import Sieve
from amp_lint.syntax import excerpts as cut
from amp_lint.syntax import parse as parser
from amp_lint.syntax.facts import Facts
from amp_lint.syntax.project import Project
from amp_lint.vocabulary.written import look

HEAD = "import torch\nfrom torch import nn\nfrom .a import init\n"
MODULE = """\
class Net(nn.Module):
    def __init__(self, n, p):
{}
    def forward(self, x, scale=1.0):
        return torch.softmax(x, 1) * scale

    def helper(self):
        return self.forward(0)
"""


def may(lines: str, more: str = "") -> bool:
    """Whether a logarithm in a constructor may be one of a softmax."""
    rule = find("AMP301")
    assert rule is not None
    body = "".join(f"        {line}\n" for line in lines.splitlines())
    return rule.may_in((HEAD + MODULE.format(body) + more).encode(), preview=False)


@pytest.mark.parametrize(
    "lines",
    [
        "self.a = torch.log(torch.arange(1, 9))",
        "a = torch.arange(1, n + 1)\nself.a = nn.Parameter(torch.log(a))",
        "a = x.uniform_(0, 16)\ninit.copy_(self.a, a.log())",
        "a = torch.empty(n).unknown(1)\na.log()",
        "torch.log(torch.clamp(torch.rand(n), min=1e-9))",
        "torch.log(self.limit.max())",
        "torch.log(x.count())",
    ],
)
def test_a_function_shows_what_its_logarithm_is_of(lines: str) -> None:
    assert not may(lines)


@pytest.mark.parametrize(
    "lines",
    [
        "torch.log(p)",  # a parameter
        "p = p + 1\ntorch.log(p)",
        "torch.log(torch.softmax(n, 0))",
        "a = torch.softmax(n, 0)\na.log()",
        "torch.log(self.forward(n))",
        "torch.log(helper(n))",
        "torch.log(n.helper())",  # there is a method of that name
        "torch.log(n.scale())",  # and something that is assigned
        "torch.log(q)",  # from outside of the function
        "for q in n:\n    torch.log(q)",
        "a, b = helper(n)\nb.log()",
        "global a\na = 1\ntorch.log(a)",
        "torch.log(n.größe())",  # in whatever encoding
        "f = torch.log",  # that is called elsewhere
        "f = lambda q: torch.log(q)",
    ],
)
def test_what_is_from_outside_of_a_function_is_unknown(lines: str) -> None:
    assert may(lines)


@pytest.mark.parametrize(
    ("more", "open_"),
    [
        ("y = torch.log(torch.ones(1))\n", True),  # in no function
        ("def f():\n    return 1\ny = torch.log(torch.ones(1))\n", True),
        ("def f():\n    return torch.log(torch.ones(1))\n", False),
        ("async def f(\n    a,\n):\n    if a:\n        torch.log(torch.ones(1))\n", False),
        ("def f():\n    print 1\n    torch.log(torch.ones(1))\n", True),  # cannot be read
    ],
)
def test_where_a_function_begins_and_ends(more: str, open_: bool) -> None:
    assert may("torch.log(torch.ones(1))", more) is open_


def test_an_encoding_that_is_not_read_is_no_error() -> None:
    rule = find("AMP301")
    assert rule is not None
    code = b"from caf\xe9 import caf\xe9\nimport caf\xe9\ndef f(x):\n    torch.log(caf)\n"
    assert rule.may_in(code, preview=False)


def test_each_function_is_read_once() -> None:
    code = b"def f():\n    log(1)\n    log(2)\n\ndef g():\n    log(3)\n"
    found = cut.excerpts(code, look({"log"}))
    assert found is not None
    assert [[*each.functions] for each in found] == [["f"], ["g"]]
    assert all(isinstance(each, Facts) and each.whole is code for each in found)


def test_a_file_that_is_dismissed_so_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    parse = parser.parse

    def counted(data: bytes | str) -> object:
        sizes.append(len(data))
        return parse(data)

    monkeypatch.setattr(cut, "parse", counted)
    monkeypatch.setattr("amp_lint.sieve.parse", counted)
    rule = find("AMP301")
    assert rule is not None
    body = "        a = torch.arange(n)\n        self.a = torch.log(a)\n"
    data = (HEAD + MODULE.format(body) + "# end\n" * 99).encode()
    sieve = Sieve([rule])
    assert sieve.by_bytes(data) == (rule,)
    assert sieve.by_syntax(data, (rule,)) == ()
    assert len(sizes) == 1 and sizes[0] < 150
    assert sieve.by_syntax(data.replace(b"arange(n)", b"softmax(n, 0)"), (rule,)) == (rule,)
    assert sizes[2:] == [len(data) + len("softmax(n, 0)") - len("arange(n)")]


def test_a_file_that_sees_others_is_looked_into_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the process that knows what it sees; where nothing may be found, there is no job."""
    helper = "def run(loss):\n    loss.backward()\n"
    clip = "    torch.nn.utils.clip_grad_norm_(p, 1)\n    scaler.step(opt)\n    scaler.update()\n"
    train = (
        "import torch\nfrom helper import run\nscaler = torch.amp.GradScaler('cuda')\n\n\n"
        f"def step(loss, p, opt):\n    run(scaler.scale(loss))\n{clip}"
    )
    other = "import torch\nfrom helper import run\nscaler = None\nrun(0)\n"
    made = {"helper.py": helper, "train.py": train, "other.py": other}
    for name, text in made.items():
        (tmp_path / name).write_text(text, "utf-8")
    paths = [tmp_path / name for name in made]
    rule = find("AMP101")
    assert rule is not None
    selection, project = Selection((rule,)), Project(paths)

    def job(path: Path) -> Job | None:
        data = path.read_bytes()
        links = project.links(path, data, selection.sieve)
        assert links is not None and links.files == (helper.encode(),)
        return looked_into(Job(str(path), data, False, selection, Action.FIND, links=links))

    assert job(tmp_path / "other.py") is None
    known = job(tmp_path / "train.py")
    assert known is not None and known.groups is not None

    def survivors(*_: object) -> None:
        raise AssertionError("it is known")

    monkeypatch.setattr(engine, "survivors", survivors)
    assert [found.code for found in jobs.lint(known).findings] == ["AMP101"]
