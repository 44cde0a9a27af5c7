"""Losses of plain steps, traced back into float16 regions."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from tests.programs import model_of

if TYPE_CHECKING:  # where mypy finds what is installed below `amp_lint.rules`
    from rules.scaling._unscaled import Unscaled
else:
    from amp_lint.rules.scaling._unscaled import Unscaled

HEADER = """\
import torch
from torch import autocast
half = torch.autocast("cuda", dtype=torch.float16)
def train(net, opt, data, other):
    for x in data:
        BODY
        loss.backward()
        opt.step()
"""


def regions(body: str, old: str = "", new: str = "") -> list[str]:
    """The regions reported for a training loop with this body."""
    assert old in HEADER
    header = HEADER.replace(old, new) if old else HEADER
    model = model_of(header.replace("BODY", textwrap.indent(body, " " * 8).strip()))
    return [model.tree.source(forward.region.node) for forward in model.part(Unscaled).forwards]


REGION = "with autocast('cuda'): "


@pytest.mark.parametrize(
    "body",
    [
        REGION + "loss = net(x)",
        REGION + "y = net(x)\nloss = y.sum()",
        REGION + "y = net(x)\nz = y + 1\nloss = (z, x)[0]",
        REGION + "loss, more = net(x)",
        REGION + "loss: float = net(x)",
        REGION + "loss += net(x)",
        REGION + "y = net(x)\nloss = y.detach() + y",
        "if x:\n    " + REGION + "loss = net(x)\nelse:\n    loss = net(x)",
        "def f():\n    " + REGION + "return net(x)\nloss = f()",
        "def f():\n    " + REGION + "y = net(x)\n    return y\ndef g(): return f()\nloss = g()",
    ],
)
def test_found(body: str) -> None:
    assert regions(body) == ["autocast('cuda')"]


@pytest.mark.parametrize(
    "body",
    [
        "loss = net(x)",
        "loss = net(x)\n" + REGION + "y = net(x)",
        "loss = net(x)\n" + REGION + "other = loss",
        REGION + "loss = x",
        REGION + "y = net(x)\nloss = net(y.detach())",
        REGION + "y = net(x).detach()\nloss = net(y)",
        REGION + "y = net(x)\nloss = net(y.item())",
        REGION + "loss = net(x)\nloss = net(x)",
        REGION + "loss = net(x)\nwith torch.no_grad(): loss = loss",
        "with torch.no_grad():\n    " + REGION + "y = net(x)\nloss = net(y)",
        "@torch.no_grad()\ndef f():\n    " + REGION + "return net(x)\nloss = f()",
        "@torch.inference_mode\ndef f():\n    " + REGION + "return net(x)\nloss = f()",
        "if x:\n    " + REGION + "y = net(x)\nelse:\n    loss = net(x)",
    ],
)
def test_loss_from_elsewhere(body: str) -> None:
    assert regions(body) == []


@pytest.mark.parametrize(
    ("context", "found"),
    [
        ("half", True),
        ("autocast('cuda:1')", True),
        ("autocast(x.device.type)", True),
        ("autocast('cuda', torch.half)", True),
        ("autocast('cuda', torch.float16, enabled=other)", True),
        ("autocast('cuda', torch.float16) if other else y", True),
        ("torch.cuda.amp.autocast(other)", True),
        ("torch.cpu.amp.autocast()", False),
        ("autocast('cpu')", False),
        ("autocast('xpu')", False),
        ("autocast()", False),
        ("autocast(**other)", False),
        ("autocast('cuda', enabled=False)", False),
        ("autocast('cuda', torch.bfloat16)", False),
        ("autocast('cuda', other)", False),
        ("autocast('cuda', torch.half if other else torch.bfloat16)", True),
        ("autocast('cuda', torch.half if other else None, enabled=not other)", False),
        ("autocast('cuda', {'a': torch.half, 'b': torch.float32}[other])", True),
        ("autocast('cuda', {'a': torch.half, 'b': torch.float32}['b'])", False),
        ("autocast('cuda', getattr(torch, other))", False),
        ("autocast('cuda', torch.bfloat16), autocast('cuda')", False),
        ("autocast('cuda', torch.bfloat16), autocast('cuda', torch.half)", True),
        ("autocast('cuda', torch.half), autocast('cuda')", True),
        ("fabric.autocast()", False),
    ],
)
def test_region(context: str, found: bool) -> None:
    assert bool(regions(f"with {context}: loss = net(x)")) is found


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("import torch\n", "import torch, apex\napex.amp.initialize(net)\n"),
        ("import torch\n", "import torch\nfrom lightning.fabric import Fabric\nFabric()\n"),
        ("import torch\n", "import torch\nfrom deepspeed import *\n"),
        ("import torch\n", "import torch\ns = torch.amp.GradScaler()\nuse(s)\n"),
        ("import torch\n", "import torch\ncfg = {'loss_scale': 'dynamic'}\n"),
        ("import torch\n", "import torch\ntorch.set_autocast_dtype('cuda', torch.bfloat16)\n"),
        ("loss.backward()", "scale_loss(loss).backward()"),
        ("loss.backward()", "accelerator.backward(loss)"),
        ("opt.step()", "other.step()"),
        ("        opt.step()\n", ""),
        ("        loss.backward()\n", ""),
    ],
)
def test_not_a_plain_step(old: str, new: str) -> None:
    assert regions(REGION + "loss = net(x)", old, new) == []


METHODS = """\
import contextlib, torch
class Trainer:
    def __init__(self, net, data, amp):
        self.net, self.data, self.opt = net, data, torch.optim.SGD(net)
        self.context = torch.autocast("cuda") if amp else contextlib.nullcontext()
        if net.exact:
            self.context = contextlib.nullcontext()
    def learn(self, output):
        loss = output.loss
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
    def train(self):
        for x in self.data:
            with self.context:
                output = self.net(x)
            self.learn(output)
"""


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("self.learn(output)", "self.learn(output)", True),
        ("self.learn(output)", "self.learn(output=output)", True),
        ("self.learn(output)", "self.learn(output.detach())", False),
        ("self.learn(output)", "self.learn(self.net(x))", False),
        ("self.learn(output)", "self.net.learn(output)", False),
    ],
)
def test_a_loss_that_is_handed_to_a_method(old: str, new: str, found: bool) -> None:
    assert bool(model_of(METHODS.replace(old, new)).part(Unscaled).forwards) is found


KEPT = """\
import torch
class Gan:
    def forward(self, x):
        with torch.cuda.amp.autocast():
            self.fake = self.net(x)
    def learn(self, x):
        self.forward(x)
        self.loss = None
        self.loss = self.fake.mean()
        self.opt.zero_grad()
        self.loss.backward()
        self.opt.step()
"""
MODULE = """\
import torch
class Net(torch.nn.Module):
    @torch.cuda.amp.autocast()
    def forward(self, x):
        return self.lin(x)
def train(data):
    net = Net()
    opt = torch.optim.SGD(net.parameters())
    for x in data:
        loss = net(x).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
"""


@pytest.mark.parametrize(
    ("program", "old", "new", "found"),
    [
        (KEPT, "", "", True),
        (
            KEPT,
            "    def learn",
            "    def whole(self, x): self.fake = self.net(x)\n    def learn",
            False,
        ),
        (KEPT, "self.fake.mean()", "self.net(self.fake.detach())", False),
        (KEPT, "self.fake.mean()", "self.fake(x)", False),
        (MODULE, "", "", True),
        (MODULE, "autocast()", "autocast(dtype=torch.bfloat16)", False),
        (MODULE, "net = Net()", "net = make(Net)", False),
    ],
)
def test_a_loss_that_is_kept_or_that_a_module_gives(
    program: str, old: str, new: str, found: bool
) -> None:
    assert old in program
    changed = program.replace(old, new) if old else program
    assert bool(model_of(changed).part(Unscaled).forwards) is found


HEIR = """\
class Gan(Trainer):
    def learn(self, output):
        loss = output.d_loss
        loss.backward()
        self.d_opt.step()
"""


def test_a_method_stands_for_the_one_that_it_overrides() -> None:
    stub = METHODS.replace("self.opt.step()", "pass")
    (found,) = model_of(stub + HEIR).part(Unscaled).forwards
    assert found.place is found.region.node
    assert not model_of(stub + HEIR.replace("learn(", "other(")).part(Unscaled).forwards


@pytest.mark.parametrize(
    "more",
    [
        "import fairscale.nn.model_parallel.initialize as ranks\nranks.get_model_parallel_rank()",
        "from apex.normalization import FusedLayerNorm\nFusedLayerNorm(8)",
        "import apex",
        "from torch.amp import GradScaler",
        "from accelerate.utils import set_seed\nset_seed(1)",
        "import pytorch_lightning as pl\npl.seed_everything(1)",
        "# GradScaler",
        "'loss_scale'",
        "s = torch.amp.GradScaler()\nsave({'scaler': s.state_dict()})",
        "s = torch.amp.GradScaler()\ns.load_state_dict(f['scaler'])",
    ],
)
def test_what_scales_nothing(more: str) -> None:
    assert regions(REGION + "loss = net(x)", "import torch\n", f"import torch\n{more}\n") != []


IN_AN_ARM = """\
        if args.fp16:
            s.scale(loss).backward()
            s.step(opt)
            s.update()
        else:
            loss.backward()
            opt.step()
"""
IN_THE_LOSS = """\
        (s.scale(loss) if args.fp16 else loss).backward()
        if args.fp16:
            s.step(opt)
            s.update()
        else:
            opt.step()
"""
SWITCHED = (
    """\
import torch
def train(net, opt, data, args):
    s = torch.amp.GradScaler("cuda")
    for x in data:
        if not x:
            break
        with torch.autocast("cuda"):
            loss = net(x)
"""
    + IN_AN_ARM
)


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("", "", 1),
        ("    s = ", "    args.fp16 = True\n    s = ", 0),
        ("args.fp16", "args.gpu", 0),
        ("args.fp16", "args.use_scaler", 1),
        ("if args.fp16:", "if args.use_gradient_scaling and s is not None:", 1),
        ("if args.fp16:", "if s is not None and (args.gpu and args.fp16):", 1),
        ("if args.fp16:", "if args.gpu and s is not None:", 0),
        ("if args.fp16:", "if args.fp16 or s is not None:", 0),
        ("if args.fp16:", "if x and not args.use_gradient_scaling:", 0),
        (IN_AN_ARM, IN_THE_LOSS, 1),
        (
            IN_AN_ARM,
            IN_THE_LOSS.replace("s.scale(loss) if args.fp16 else loss", "s.scale(loss)"),
            0,
        ),
        ("args.fp16", "args.no_amp", 0),
        ('autocast("cuda")', 'autocast("cuda", enabled=args.fp16)', 0),
        ('autocast("cuda")', 'autocast("cuda", torch.bfloat16)', 0),
        ('autocast("cuda")', 'autocast("cuda", args.dtype)', 0),
        ("with torch", "with args.context if x else torch", 0),
        (
            "        with torch.autocast",
            "        make = torch.autocast if args.fp16 else args.none\n        with make",
            0,
        ),
        ("import torch\n", "import torch, deepspeed\ndeepspeed.initialize()\n", 0),
    ],
)
def test_an_option_turns_the_scaler_off_alone(old: str, new: str, found: int) -> None:
    assert old in SWITCHED
    program = SWITCHED.replace(old, new) if old else SWITCHED
    forwards = model_of(program).part(Unscaled).forwards
    assert len(forwards) == found
    assert all(forward.option is not None for forward in forwards)


@pytest.mark.parametrize(("option", "found"), [("use_gradient_scaling", 1), ("fp16", 0)])
def test_a_region_under_an_option_and_a_scaler_under_another(option: str, found: int) -> None:
    """Where the scaler goes by what the region goes by, only what it is made for may be off."""
    arm = IN_AN_ARM.replace("args.fp16", f"args.{option} and s is not None")
    region = SWITCHED.partition("        with ")[2].partition(IN_AN_ARM)[0]
    inside = textwrap.indent(f"        with {region}{arm}", "    ")
    head = SWITCHED.partition("        with ")[0]
    forwards = model_of(f"{head}        if args.fp16:\n{inside}").part(Unscaled).forwards
    assert len(forwards) == found


_SCALED = "s.scale(loss).backward(); s.step(opt); s.update()"
_PLAIN = "loss.backward(); opt.step()"


@pytest.mark.parametrize(
    "written",
    [
        f"""
        if not args.fp16:
            {_PLAIN}
        else:
            {_SCALED}
""",
        f"""
        if args.fp16:
            {_SCALED}
            continue
        {_PLAIN}
""",
    ],
)
def test_an_option_in_other_words(written: str) -> None:
    before = SWITCHED.partition("        if args.fp16")[0].rstrip()
    (forward,) = model_of(before + written).part(Unscaled).forwards
    assert forward.option is not None


METHOD = """\
import torch
class Trainer:
    def __init__(self, net, opt, amp):
        self.net, self.opt, self.amp = net, opt, amp
        self.s = torch.amp.GradScaler("cuda")
    def loss(self, y):
        z = y.mean()
        return z
    def step(self, x):
        if self.amp:
            with torch.autocast("cuda"):
                y = self.net(x)
                loss = self.loss(y)
                self.s.scale(loss).backward()
                self.s.step(self.opt)
                self.s.update()
        else:
            y = self.net(x)
            loss = self.loss(y)
            loss.backward()
            self.opt.step()
"""


@pytest.mark.parametrize(
    "before", ["", "        with torch.autocast('cuda'): self.loss(self.net(x))\n"]
)
def test_a_region_around_another_call_of_the_same_method_is_not_the_one(before: str) -> None:
    program = METHOD.replace("        if self.amp:\n", f"{before}        if self.amp:\n")
    assert not model_of(program).part(Unscaled).forwards


AROUND = """\
import torch
class Base:
    def iterate(self, x):
        with torch.autocast("cuda", dtype=torch.float16):
            self.step(x)
class Trainer(Base):
    def step(self, x):
        loss = self.net(x).sum()
        loss.backward()
        self.optimizer.step()
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 1),
        ("torch.float16", "torch.bfloat16", 0),
        ("            self.step(x)", "            y = x\n        self.step(x)", 0),
        (
            "    def step(self, x):\n        loss = self.net(x).sum()",
            "    def step(self, loss):",
            0,
        ),
    ],
)
def test_a_region_in_which_a_step_is_called(old: str, new: str, count: int) -> None:
    assert old in AROUND
    program = AROUND.replace(old, new) if old else AROUND
    assert len(model_of(program).part(Unscaled).forwards) == count


DECORATED = """\
import torch
class Net(torch.nn.Module):
    @torch.cuda.amp.autocast()
    def forward(self, x):
        return self.layer(x).sum()
def train(data, amp):
    net = Net()
    opt = torch.optim.SGD(net.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x in data:
        loss = net(x)
        if amp:
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
        else:
            loss.backward()
            opt.step()
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 1),
        ("autocast()", "autocast(enabled=False)", 0),
        ("autocast()", "autocast(dtype=torch.bfloat16)", 0),
        ("loss = net(x)", "loss = net(x) if amp else net.layer(x).sum()", 0),
        ("        if amp:", "        loss = net.layer(x).sum()\n        if amp:", 0),
    ],
)
def test_a_decorated_forward_where_an_option_scales(old: str, new: str, count: int) -> None:
    assert old in DECORATED
    program = DECORATED.replace(old, new) if old else DECORATED
    forwards = model_of(program).part(Unscaled).forwards
    assert len(forwards) == count
    assert all(each.place is each.backward and each.option for each in forwards)


MAKER = """\
import contextlib, torch
def get_autocast(precision):
    if precision == "amp":
        return torch.cuda.amp.autocast
    if precision == "bf16":
        return lambda: torch.cuda.amp.autocast(dtype=torch.bfloat16)
    return contextlib.suppress
def train(net, opt, data, args):
    context = get_autocast(args.precision)
    for x in data:
        with context():
            loss = net(x).loss
        loss.backward()
        opt.step()
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 1),
        ("return torch.cuda.amp.autocast\n", "return contextlib.suppress\n", 0),
        ("return torch.cuda.amp.autocast\n", "return torch.cpu.amp.autocast\n", 0),
        ("(dtype=torch.bfloat16)", "(dtype=torch.float16)", 1),
        ("(dtype=torch.bfloat16)", "(enabled=False)", 1),
    ],
)
def test_what_a_function_gives_that_makes_one_of_several_regions(
    old: str, new: str, count: int
) -> None:
    assert old in MAKER
    assert len(model_of(MAKER.replace(old, new)).part(Unscaled).forwards) == count


APART = """\
import torch
class Takes:
    def __init__(self):
        self._scaler = torch.amp.GradScaler("cuda")
    def __call__(self, loss, opt):
        self._scaler.scale(loss).backward()
        self._scaler.step(opt)
        self._scaler.update()
class Trainer:
    def takes(self):
        grad_scaler = Takes()
        return grad_scaler
    def epoch(self, data, grad_scaler=None):
        for x in data:
            self.opt.zero_grad()
            with torch.autocast("cuda"):
                loss = self.net(x).sum()
            loss.backward()
            self.opt.step()
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 1),
        (
            "            loss.backward",
            "            self.grad_scaler = None\n            loss.backward",
            0,
        ),
        (
            "            loss.backward",
            "            if grad_scaler: break\n            loss.backward",
            0,
        ),
        ("loss.backward()", "self.back(loss)", 0),
        ("loss.backward()", "Takes()(loss, self.opt)", 0),
        ('autocast("cuda")', 'autocast("cuda", enabled=self.amp)', 0),
        ('autocast("cuda")', 'autocast("cuda", torch.bfloat16)', 0),
        ('autocast("cuda")', 'autocast("cuda", self.dtype)', 0),
        ("            with torch", "            with self.near if x else torch", 0),
        ("import torch\n", "import torch\ntorch.set_autocast_dtype('cuda', torch.bfloat16)\n", 0),
        ("    def epoch", "    def run(self):\n        self.epoch(self.data)\n    def epoch", 1),
        (
            "    def epoch",
            "    def run(self):\n        if not self.scaler: self.epoch(self.data)\n    def epoch",
            0,
        ),
        (
            "    def epoch",
            "    def log(self, x): Takes()(self.other(x), self.opt)\n    def epoch",
            1,
        ),
        (
            "            loss.backward()",
            "            self.log(x)\n            loss.backward()\n"
            "    def log(self, x): Takes()(self.other(x), self.opt)\n"
            "    def more(self):\n        for x in self.data:",
            0,
        ),
    ],
)
def test_a_scaler_of_the_program_that_has_nothing_to_do_with_a_step(
    old: str, new: str, count: int
) -> None:
    assert old in APART
    program = APART.replace(old, new) if old else APART
    assert len(model_of(program).part(Unscaled).forwards) == count
