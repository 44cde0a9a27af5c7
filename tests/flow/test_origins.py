"""Which expressions are one object, wherever it is made and whatever it is called."""

from __future__ import annotations

import libcst as cst
import pytest

from amp_lint.model import Model
from tests.programs import model_of

CLASSES = """\
class Base:
    def __init__(self, first):
        self.kept = first
    def seen(self):
        return self.made
class Heir(Base):
    def __init__(self, first):
        super().__init__(first)
        self.made = make()
class Owner:
    def __init__(self, held):
        self.held = held
@dataclass
class Record:
    first: object
    second: object = None
@dataclass
class More(Record):
    third: object = None
"""
CALLED = """\
a = make()
class Runner:
    def __call__(self, x):
        same(a, x)
"""


def given(model: Model) -> list[cst.BaseExpression]:
    """The arguments of the only call of ``same``."""
    (call,) = (c for c in model.tree.nodes(cst.Call) if model.tree.source(c.func) == "same")
    return [arg.value for arg in call.args]


@pytest.mark.parametrize(
    "body",
    [
        "a = make(); b = a; same(a, b)",
        "a = make()\ndef f(x):\n    same(a, x)\nf(a)",
        "a = make()\ndef f(x=None):\n    same(a, x)\ndef g(y):\n    f(x=y)\ng(a)",
        "a, b = make()\ndef f(x):\n    same(a, x)\nf(a)",
        "a = make()\nb = [a, 1]\nsame(a, b[0])",
        "a = make()\nfor x in {'a': a}.values():\n    same(a, x)",
        "a = make()\nh = Heir(a)\nsame(a, h.kept)",
        "a = make()\nb = []\nb.append(a)\nfor i, x in enumerate(b):\n    same(a, x)",
        "a = make()\nb = {}\nb['x'] = a\nfor k, x in b.items():\n    same(a, x)",
        "a = make()\nb = {}\nb['x'] = a\nsame(a, b.get('x', None))",
        "a = make()\no = Owner(Heir(a))\nsame(a, o.held.kept)",
        "h = Heir(1)\ndef f(x):\n    same(h.made, x.made)\nf(h)",
        "o = Owner(1)\nsame(o.x.y, o.x.y)",
        "a = make()\nr = Record(1, a)\nsame(a, r.second)",
        "a = make()\nr = Record(second=a)\nsame(a, r.second)",
        "a = make()\nr = More(1, 2, a)\nsame(a, r.third)",
        "a = make()\nr = Record(Owner(a))\nsame(a, r.first.held)",
        "a = make()\ndef f(r):\n    same(a, r.second)\nf(Record(1, a))",
        "def f(x):\n    same(x.a, x.a)",
        "same(unknown.x, unknown.x)",
        "a = make()\nb = a.to('cuda').eval()\nsame(a, b)",
        "import torch\na = make()\nsame(a, torch.nn.DataParallel(a.cuda()).module)",
        "import torch\na = make()\nb = torch.nn.ModuleList([a])\nfor x in b:\n    same(a, x)",
        "a = make()\nboth = [1, a]\nb, c = both\nsame(a, c)",
        "a = make()\ndef f(all):\n    b, c = all\n    same(a, c)\nf((make(), a))",
        "a = make()\ndef f(all):\n    b, = all\n    same(a, b)\ndef g(some):\n    f(some)\ng([a])",
        "a = make()\ndef f():\n    return 1, a\nb, c = f()\nsame(a, c)",
        "a = make()\nboth = a, a\n[b, c] = both\nsame(b, c)",
        "a = make()\nsame(a, framework.unwrap_model(a))",
        CALLED + "def g(run):\n    run(a)\ng(Runner())",
        CALLED.replace("__call__", "now") + "def g(run):\n    run.now(a)\ng(Runner())",
    ],
)
def test_same(body: str) -> None:
    model = model_of(CLASSES + body)
    assert model.origins.same(*given(model))


@pytest.mark.parametrize(
    "body",
    [
        "same(make(), make())",
        "a = make(); b = make(); same(a, b)",
        "a, b = make(); same(a, b)",
        "def f(x):\n    pass\ndef g(y):\n    pass\nf(1); same(x, y)",
        "def f(x, y):\n    same(x, y)",
        "h = Heir(make())\nsame(h.kept, h.made)",
        "a = None\nb = None\nsame(a, b)",
        "a = make()\nb = []\nc = []\nb.append(a)\nfor x in c:\n    same(a, x)",
        "a = [make()]\nb = [make()]\nfor x, y in zip(a, b):\n    same(x, y)",
        "a = make()\nr = Record(1, a)\nsame(a, r.first)",
        "a = make()\nr = Record(*[1], a)\nsame(a, r.second)",
        "a = make()\nr = More(1, a)\nsame(a, r.third)",
        "a = make()\ndef f(all):\n    b, c = all\n    same(a, b)\nf((make(), a))",
        "a = make()\nboth = [1, *a]\nb, c = both\nsame(a, c)",
        "a = make()\nboth = [1, 2, a]\nb, *c = both\nsame(a, c)",
        "a = make()\nboth = [1, 2, a]\nb, c = both\nsame(a, c)",
        "a = make()\nboth = [1, a]\n(b, d), c = both\nsame(a, d)",
        "a = make()\ndef f(n):\n    return f(n - 1)\nb, c = f(2)\nsame(a, c)",
    ],
)
def test_not_the_same(body: str) -> None:
    model = model_of(CLASSES + body)
    assert not model.origins.same(*given(model))


def test_an_attribute_that_an_heir_assigns() -> None:
    model = model_of(
        CLASSES + "class Other(Heir):\n    def f(self):\n        same(self.made, self)"
    )
    made, itself = given(model)
    (returned,) = (r.value for r in model.tree.nodes(cst.Return) if r.value is not None)
    assert model.origins.same(made, returned)
    assert not model.origins.same(made, itself)


def test_what_is_made_from_itself_ends() -> None:
    model = model_of("def f(x):\n    x = g(x)\n    f(x)\n    same(x, x)\na = [a]\n")
    assert model.origins.same(*given(model))


MODULES = """\
import copy
import torch
from torch import nn
class Net(nn.Module):
    def forward(self, x):
        return x
class Other(Net):
    pass
NETS = {"net": Net, "other": Other}
def build(name="net"):
    return NETS[name]().to("cuda")
def choose(name):
    if name:
        return Net()
    return build(name)
def called_for(kind=Net):
    return kind()
class Holder:
    def __init__(self, held):
        self.held = held
    @classmethod
    def of(cls, held):
        return cls(held)
def again(times):
    return again(times - 1) if times else Other()
"""


@pytest.mark.parametrize(
    ("made", "classes"),
    [
        ("Net()", {"Net"}),
        ("Net().cuda().half().train()", {"Net"}),
        ("torch.compile(nn.parallel.DistributedDataParallel(Net().to(0)))", {"Net"}),
        ("nn.DataParallel(Net()).module", {"Net"}),
        ("nn.SyncBatchNorm.convert_sync_batchnorm(Net())", {"Net"}),
        ("copy.deepcopy(Net()).eval()", {"Net"}),
        ("Net.from_pretrained('x')", {"Net"}),
        ("nn.Sequential(Net(), Other())", {"Net", "Other"}),
        ("nn.ModuleList([Other() for _ in range(3)])[0]", {"Other"}),
        ("nn.Sequential(*[Other()])", {"Other"}),
        ("NETS['other']()", {"Net", "Other"}),
        ("build()", {"Net", "Other"}),
        ("choose(1)", {"Net", "Other"}),
        ("called_for()", {"Net"}),
        ("called_for(Other)", {"Net", "Other"}),
        ("Holder.of(Net()).held", {"Net"}),
        ("again(3)", {"Other"}),
        ("Net()\nnet = copy.deepcopy(net)", {"Net"}),
        ("make().cuda()", set()),
        ("Net.build('x')", set()),
    ],
)
def test_classes_of_modules(made: str, classes: set[str]) -> None:
    model = model_of(f"{MODULES}net = {made}\nsame(net)")
    (node,) = given(model)
    assert {owner.name.value for owner in model.origins.classes(node)} == classes


def test_makers_are_counted_once() -> None:
    """Helpers that call each other do not multiply what they make."""
    names = [f"f{number}" for number in range(30)]
    calls = ", ".join(f"{name}(x)" for name in names)
    helpers = "".join(f"def {name}(x):\n    return [{calls}, Net()]\n" for name in names)
    model = model_of(f"{MODULES}{helpers}same(f0(1))")
    assert len(model.origins.makers(*given(model))) == len(names)
