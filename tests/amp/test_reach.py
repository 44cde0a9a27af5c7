"""Inside which regions a place may run, through calls within the file."""

from __future__ import annotations

import textwrap

import libcst as cst
import pytest

from amp_lint.model import Model
from tests.programs import model_of

HEADER = """\
import contextlib
import torch
from torch import nn
from torch.amp import autocast, custom_fwd
"""


def model(text: str) -> Model:
    return model_of(HEADER + textwrap.dedent(text))


def place(found: Model) -> cst.Call:
    """The call of ``here``."""
    calls = found.tree.nodes(cst.Call)
    (call,) = (c for c in calls if isinstance(c.func, cst.Name) and c.func.value == "here")
    return call


def ways(text: str) -> list[str]:
    """What is entered on each way, innermost first."""
    found = model(text)
    return [
        " < ".join(found.tree.source(entered.context) for entered in chain.entered)
        for chain in found.reach.chains(place(found))
    ]


def is_on(text: str) -> bool:
    found = model(text)
    return next(found.reach.running(place(found)), None) is not None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("here()", [""]),
        ("with autocast('cuda'):\n    here()", ["autocast('cuda')"]),
        (
            "with autocast('cuda'), autocast('cpu'):\n    here()",
            ["autocast('cpu') < autocast('cuda')"],
        ),
        (
            """
            def f():
                with autocast("cpu"):
                    here()
            def g():
                f()
            def h():
                with autocast("cuda"):
                    f()
            """,
            ['autocast("cpu")', 'autocast("cpu") < autocast("cuda")'],
        ),
        (
            """
            class Loss(nn.Module):
                def forward(self):
                    here()
            class Net(nn.Module):
                def __init__(self):
                    self.loss = Loss()
                @autocast("cuda")
                def forward(self):
                    return self.loss()
                def other(self):
                    return self()
            """,
            ['autocast("cuda")'],
        ),
        (
            """
            @autocast("cuda")
            def f(n):
                here()
                f(n - 1)
            """,
            ['autocast("cuda") < autocast("cuda")'],
        ),
        (
            """
            def f():
                here()
                yield
            async def g():
                f()
            with autocast("cuda"):
                f()
                g()
            """,
            [""],
        ),
        (
            """
            @custom_fwd(device_type="cuda", cast_inputs=torch.float32)
            def f():
                here()
            with autocast("cuda"):
                f()
            """,
            [""],
        ),
        (
            """
            class Net(nn.Module):
                def forward(self, x):
                    return self.encode(x)
            class Heir(Net):
                def encode(self, x):
                    here()
            class Twice(Heir):
                def forward(self, x):
                    return super().forward(x)
            class Engine:
                def __init__(self, model):
                    self.model = model.cuda()
                def run(self, x):
                    with autocast("cuda"):
                        self.model(x)
            Engine(nn.DataParallel(Twice())).run(1)
            """,
            ['autocast("cuda")'],
        ),
        (
            """
            class Net(nn.Module):
                def forward(self, x):
                    here()
            net = Net().cuda() if big else Unknown()
            with autocast("cuda"):
                net(1)
            with autocast("cpu"):
                nn.Sequential(Unknown(), Net())(1)
            """,
            ['autocast("cuda")', 'autocast("cpu")'],
        ),
        ("with autocast('cuda'):\n    x = lambda: here()", [""]),
        ("with autocast('cuda'):\n    def f():\n        here()", [""]),
    ],
)
def test_chains(text: str, expected: list[str]) -> None:
    assert ways(text) == expected


@pytest.mark.parametrize(
    ("contexts", "expected"),
    [
        ("autocast('cuda')", True),
        ("autocast('cuda:1', torch.bfloat16, True)", True),
        ("autocast(device)", True),
        ("autocast('cuda', enabled=amp)", True),
        ("autocast('cuda') if amp else contextlib.nullcontext()", True),
        ("torch.cuda.amp.autocast()", True),
        ("accelerator.autocast()", True),
        ("autocast('cuda', enabled=False), autocast('cuda')", True),
        ("autocast('cuda'), autocast('cpu', enabled=False)", True),
        ("autocast('cuda', enabled=amp), autocast('cuda')", True),
        ("autocast('cuda', enabled=False)", False),
        ("autocast('cuda', enabled=off)", False),
        ("autocast('cuda', enabled=not amp)", False),
        ("autocast('cuda', enabled=disable_amp)", False),
        ("autocast('cuda', enabled=args.no_amp)", False),
        ("autocast('cuda', enabled=not args.no_amp)", True),
        ("autocast('cuda', enabled=not disable_amp)", True),
        ("autocast('cuda', enabled=not args.now)", False),
        ("autocast('cuda', **options)", False),
        ("autocast('cpu')", False),
        ("autocast('mps')", False),
        ("torch.cpu.amp.autocast()", False),
        ("autocast('cuda'), autocast('cuda', enabled=False)", False),
        ("autocast('cuda'), autocast('cuda', enabled=amp)", False),
        ("open(path)", False),
    ],
)
def test_running(contexts: str, expected: bool) -> None:
    assert is_on(f"off = False\nwith {contexts}:\n    here()") is expected
    assert is_on(f"off = False\ndef f():\n    here()\nwith {contexts}:\n    f()\nf()") is expected


def test_calls_are_told() -> None:
    found = model("def f():\n    here()\nwith autocast('cuda'):\n    f()")
    (chain,) = found.reach.running(place(found))
    assert [found.tree.source(call) for call in chain.calls] == ["f()"]


def test_many_callers_end() -> None:
    functions = "".join(f"def f{i}():\n    f{i + 1}()\n    f{i + 1}()\n" for i in range(30))
    text = f"{functions}def f30():\n    here()\n"
    assert len(ways(text)) <= 64


NET = """\
class Net(nn.Module):
    def forward(self, x):
        return x
class State:
    def __init__(self, net):
        self._net = net
    @property
    def net(self):
        return self._net
"""


@pytest.mark.parametrize(
    "body",
    [
        "def step(state, x):\n    state.net(x)\nstep(State(Net()), 1)",
        "def step(net: Net, x):\n    net(x)",
        "def step(net, x):\n    net(x)\nstep(Net(), 1)",
        "def step(state: State, x):\n    state.net(x)\nmade = State(net=Net())",
    ],
)
def test_a_module_by_a_property_or_an_annotation(body: str) -> None:
    """What a property gives is called; a parameter is of the class that it is said to be."""
    found = model(NET + body)
    (call,) = (c for c in found.tree.nodes(cst.Call) if found.tree.source(c).endswith("net(x)"))
    assert [target.name.value for target in found.reach.targets(call)] == ["forward"]


@pytest.mark.parametrize("said", ["nn.Module", "object", "list", "Unknown", "Above"])
def test_a_module_that_may_be_any(said: str) -> None:
    above = "class Above(nn.Module): ...\nclass Below(Above):\n    def forward(self, y): ...\n"
    found = model(NET + above + f"def step(net: {said}, x):\n    net(x)")
    (call,) = (c for c in found.tree.nodes(cst.Call) if found.tree.source(c) == "net(x)")
    assert not found.reach.targets(call)


def test_what_calls_give_comes_before_the_annotation() -> None:
    text = NET + "class Other(Net):\n    def forward(self, y):\n        return y\n"
    found = model(text + "def step(net: Net, x):\n    net(x)\nstep(Other(), 1)")
    (call,) = (c for c in found.tree.nodes(cst.Call) if found.tree.source(c) == "net(x)")
    (target,) = found.reach.targets(call)
    assert target.params.params[1].name.value == "y"
