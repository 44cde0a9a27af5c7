"""Mistakes that take several files: each is where its line is, whichever file knows the rest."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.conftest import Result

Run = Callable[..., Result]

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n"
STEP = """\
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
NET = f"""\
{HEAD}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)

    def forward(self, x):
        return self.body(x)
"""
PROBABLE = NET.replace("self.body(x)", "self.body(x).sigmoid()")
TRAIN = f"""\
{HEAD}from net import Net
from losses import compare


def train(loader, optimizer):
    net, scaler = Net().cuda(), torch.amp.GradScaler()
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = compare(net(x), y)
{STEP}"""
OUTSIDE = TRAIN.replace("            loss =", "            out = net(x)\n        loss =").replace(
    "compare(net(x), y)", "F.cross_entropy(out, y)"
)
OWN_REGION = NET.replace(
    "        return self.body(x)",
    "        with torch.cuda.amp.autocast(enabled=self.training):\n            return self.body(x)",
)
BRAIN = TRAIN.replace("torch.float16", "torch.bfloat16 if loader.brain else torch.float16")
ENGINE = """\
import torch


class Engine:
    def __init__(self, net, rate):
        self.net = net
        self.optimizer = torch.optim.Adam(net.parameters(), lr=rate)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 9000)
        self.scaler = torch.amp.GradScaler("cuda")

    def fit(self, x):
        self.optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = self.net(x).mean()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)

    def adapt_rate(self):
        if self.schedule is not None:
            self.schedule.step()
"""
SCRIPT = """import torch
from data import loader
from engine import Engine

engine = Engine(torch.nn.Linear(3, 1).cuda(), 0.1)
for epoch in range(9):
    for x in loader():
        engine.fit(x)
        engine.scaler.update()
        engine.adapt_rate()
"""
UNKNOWN_NET = "from timm import Net\n"
BASE = """\
import torch


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, 0.1, 100)

    def fit(self, loader):
        for batch in loader:
            if self.is_done():
                break
            self.step(batch)
            self.scheduler.step()

    def step(self, batch):
        raise NotImplementedError
"""


def heir(name: str) -> str:
    """A class that fills in what the base leaves to it."""
    return f"""\
import torch
from base import Trainer


class {name}(Trainer):
    def __init__(self, model):
        super().__init__(model)
        self.scaler = torch.amp.GradScaler()

    def step(self, batch):
        self.optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = self.model(*batch)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
"""


BUILD = f"""\
{HEAD}

def build(cfg):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    if cfg.fp16:
        model = model.half()
    return model
"""
PLAIN = """\
import torch
from build import build


def main(cfg, loader):
    model = build(cfg)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
"""
LOADED = """\
import importlib


def build(name):
    return getattr(importlib.import_module(f"parts.{name}"), "Net")()
"""
RUNS = f"""\
import torch
from tools.build import build


def main(loader, optimizer):
    model, scaler = build("spectral"), torch.amp.GradScaler()
    for x in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = model(x).mean()
{STEP}"""
SPECTRAL = f"""\
{HEAD}

class Inner(nn.Module):
    def forward(self, q):
        return torch.fft.rfft(q).abs()


class Layer(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        layers = [nn.Linear(8, 8)]
        for _ in range(3):
            layers.append(nn.ReLU())
        layers += [nn.Linear(8, 8)]
        self.project = nn.Sequential(*layers)

    def forward(self, x):
        return self.inner(self.project(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Layer(Inner())

    def forward(self, x):
        return self.layer(x)
"""
ATTENTION = f"""\
{HEAD}

class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.scale = width**-0.5

    def forward(self, x):
        query = self.query(x)
        scores = query @ query.transpose(-2, -1) * self.scale
        return F.softmax(scores, dim=-1) @ x
"""
SCALED = """\
        self.optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = (self.net(self.x) - self.y).abs().mean()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
"""
PARTS = "".join(f"from parts.part{number} import Part as Part{number}\n" for number in range(9))
TASK = """\
import torch
from trainer import Trainer


class Task(torch.nn.Module):
    def on_before_step(self):
        torch.nn.utils.clip_grad_norm_(self.parameters(), 1.0)

    @classmethod
    def start(cls):
        Trainer(cls).fit()
"""
OTHER = """

class Other:
    def on_before_step(self):
        self.steps = 1
"""
TABLE = 'import torch\n\nDTYPES = {"half": torch.float16, "brain": torch.bfloat16}\n'
LOOP = """\
import torch


class Trainer:
    def __init__(self, make):
        self.task = make()
        self.scaler = torch.amp.GradScaler()

    def fit(self):
        for batch in self.task.loader():
            self.optimizer.zero_grad()
            with torch.autocast("cuda"):
                loss = self.task.loss(batch)
            self.scaler.scale(loss).backward()
            self.task.on_before_step()
            self.scaler.step(self.optimizer)
            self.scaler.update()
"""
FILLING = "\n".join(f"    def other_{n}(self):\n        return '{'x' * 500}'\n" for n in range(30))
AGENT = f"""\
import torch


class Agent:
    def __init__(self, net):
        self.net = net
        self.scaler = torch.amp.GradScaler()

{FILLING}
    def build(self):
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def update(self, x):
        self.optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = self.net(x)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
"""
SAVES = """\
import torch
import agent as agents


def save(agent, path):
    optimizer = agent.optimizer
    torch.save({"net": agent.net.state_dict(), "optimizer": optimizer.state_dict()}, path)


def load(agent, path):
    state = torch.load(path)
    agent.optimizer.load_state_dict(state["optimizer"])


def main(net, loader, path):
    agent = agents.Agent(net)
    agent.build()
    load(agent, path)
    for x in loader:
        agent.update(x)
        save(agent, path)
"""
SAID = """\
import torch
from agent import Agent


class Files:
    def save(self, run: Agent, epoch, path):
        state = {"epoch": epoch, "optimizer": run.optimizer.state_dict()}
        torch.save(state, path)

    def load(self, run: Agent, path):
        run.optimizer.load_state_dict(torch.load(path)["optimizer"])
"""
STATIC = """\
import torch


class Driver:
    @staticmethod
    def save(path, optimizer):
        Driver._write(path, optimizer)

    @staticmethod
    def _write(path, optimizer):
        torch.save({"optimizer": optimizer.state_dict()}, path)

    @staticmethod
    def load(path, optimizer):
        optimizer.load_state_dict(torch.load(path)["optimizer"])
"""
DRIVES = f"""\
import torch
from driver import Driver


def main(model, loader, path):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler()
    Driver.load(path, optimizer)
    for x in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = model(x)
{STEP}        Driver.save(path, optimizer)
"""
FORCES = f"""\
{HEAD}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 1)

    def forward(self, x):
        energy = self.body(x)
        return torch.autograd.grad(energy.sum(), x, create_graph=True)[0]
"""


def losses(line: str) -> str:
    """The file of a loss."""
    return f"{HEAD}\n\ndef compare(a, b):\n    {line}\n"


KEEPS = """\
import torch


class Agent:
    def __init__(self):
        self.kept = {}

    def save(self, path):
        DOCS
        torch.save({name: part.state_dict() for name, part in self.kept.items()}, path)

    def load(self, path):
        DOCS
        for name, state in torch.load(path).items():
            part = self.kept.get(name)
            part.load_state_dict(state)

    def describe(self):
        DOCS
        return len(self.kept)
""".replace("DOCS", repr(80 * "what it says at length, as in a docstring "))
KEPT = """\
import torch
from base import Agent


class PPO(Agent):
    def __init__(self, net):
        super().__init__()
        self.scaler = torch.amp.GradScaler("cuda")
        self.adam = torch.optim.Adam(net.parameters())
        self.kept["adam"] = self.adam

    def update(self, loss):
        self.scaler.scale(loss).backward()
        self.scaler.step(self.adam)
        self.scaler.update()
"""
ASKED = """\
import torch
from trainer import Trainer


def test_trainer(net, loader):
    trainer = Trainer(net)
    trainer.train(loader)
    assert isinstance(trainer.scaler, torch.amp.GradScaler)
"""
OWNED = f"""\
{HEAD}

class Trainer:
    def __init__(self, net):
        self.net = net
        self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cuda")

    def train(self, loader):
        for x in loader:
            self.scaler.scale(self.net(x).mean()).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
        torch.save({{"optimizer": self.optimizer.state_dict()}}, "last.pt")

    def resume(self):
        self.optimizer.load_state_dict(torch.load("last.pt")["optimizer"])
"""
LONG = f"""\
{HEAD}

def evaluate(model, loader):
    with torch.autocast("cuda", dtype=torch.float16):
        print({24_800 * "."!r})
"""
RESUMES = """\
import torch


def resume(path, optimizer):
    optimizer.load_state_dict(torch.load(path)["optimizer"])
"""
SAVED = f"""\
{HEAD}from long import evaluate
from resumes import resume


def train(net, optimizer, loader, path):
    scaler = torch.amp.GradScaler()
    resume(path, optimizer)
    for x in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(x).square().mean()
{STEP}    torch.save({{"optimizer": optimizer.state_dict()}}, path)
    evaluate(net, loader)
"""
SAVER = """\
import torch


class Saver:
    def __init__(self, net, optim):
        self.net, self.optim = net, optim

    def save(self, path, info=None):
        state = {"net": self.net.state_dict(), "optim": self.optim.state_dict()}
        if info is not None:
            state.update(info)
        torch.save(state, path)

    def load(self, path):
        self.optim.load_state_dict(torch.load(path)["optim"])
"""
HANDS_ON = f"""\
import torch
from saver import Saver


class Trainer:
    def __init__(self, net):
        self.net = net
        self.optimizer = torch.optim.Adam(net.parameters())
        self.scaler = torch.amp.GradScaler("cuda")

{FILLING}
    def prepare(self):
        print("{"to be saved " * 40}")
        self.saver = Saver(self.net, optim=self.optimizer)

    def round(self, x):
        self.scaler.scale(self.net(x).mean()).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.saver.save("x.pt")
"""
LEAST = """\
import torch
from torch import nn
from parts.common import LEAST
class Scores(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.project = nn.Linear(n, n)
    def forward(self, x, mask):
        return self.project(x).masked_fill_(~mask.unsqueeze(1), LEAST).softmax(-1)
"""
LAST = """\
from torch import nn
class Head(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.last = nn.Linear(n, n)
    def forward(self, x):
        return self.last(x)
"""
STEPS = {
    f"step_{number}": f"def step_{number}(opt):\n    opt.step()\n" + "    print(opt)\n" * 200
    for number in range(20)
}
RUNS_SCORES = """\
import torch
from parts.scores import Scores
def train(loader, opt):
    net, scaler = Scores(4), torch.amp.GradScaler()
    for x, mask in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(x, mask).mean()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
"""
SCALES = """\
import torch
class Whole:
    def __init__(self):
        self.inner = torch.amp.GradScaler()
    def __call__(self, loss, opt):
        self.inner.scale(loss).backward()
        self.inner.step(opt)
        self.inner.update()
class Plain:
    def __call__(self, loss, opt):
        loss.backward()
        opt.step()
"""
WATCHES = """\
import torch
import wandb
from parts.scales import Plain, Whole
from parts.rounds import rounds
def main(net, opt, loader):
    loss_scaler = Whole()
    wandb.watch(net)
    rounds(net, opt, loss_scaler, loader)
"""
ROUNDS = """\
def rounds(net, opt, takes, loader):
    for x in loader:
        opt.zero_grad()
        takes(net(x).mean(), opt)
"""
OF_LIGHTNING = {
    "pkg/__init__.py": "",
    "pkg/base.py": """\
import lightning.pytorch as pl


class Base(pl.LightningModule):
    def __init__(self, config):
        super().__init__()
        self.config = config
""",
    "pkg/manual.py": """\
import torch
from pkg.base import Base


class Manual(Base):
    def __init__(self, config):
        super().__init__(config)
        self.automatic_optimization = False

    def training_step(self, batch, index):
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(self(batch).mean())
        torch.nn.utils.clip_grad_norm_(self.parameters(), 1.0)
        optimizer.step()
""",
    "train.py": """\
import lightning.pytorch as pl
from pkg.manual import Manual


def main(config, loader):
    trainer = pl.Trainer(precision=config.precision)
    trainer.fit(Manual(config), loader)
""",
}
MISTAKES = {
    "a step of a framework, which a base class has": (OF_LIGHTNING, "manual.py:14:9: AMP502"),
    "a module that a package passes on, beside much else": (
        {
            "main.py": RUNS_SCORES,
            "parts/scores.py": LEAST.replace("nn.Linear(n, n)", "Head(n)").replace(
                "from torch import nn\n",
                f"from torch import nn\nfrom parts.steps import {', '.join(STEPS)}\n"
                "from parts.heads import Head\n",
            )
            + f"def others(opt):\n    return {'(opt), '.join(STEPS)}(opt)\n",
            "parts/common.py": "LEAST = -1e32\n",
            "parts/steps.py": "".join(STEPS.values()),
            "parts/heads/__init__.py": "from .one import Head\n",
            "parts/heads/one.py": LAST.replace("Module):\n", f"Module):\n    {'#' * 3000}\n"),
        },
        "scores.py:11:65: AMP313",
    ),
    "what is watched while another class scales": (
        {"main.py": WATCHES, "parts/scales.py": SCALES, "parts/rounds.py": ROUNDS},
        "main.py:7:5: AMP102",
    ),
    "a number of a third file": (
        {
            "main.py": RUNS_SCORES,
            "parts/scores.py": LEAST,
            "parts/common.py": "import os\n\nLEAST: float = -1e32\n",
        },
        "scores.py:9:65: AMP313",
    ),
    "a region of a network in a region of bfloat16": (
        {"train.py": BRAIN, "net.py": OWN_REGION, "losses.py": "compare = print\n"},
        "net.py:12:14: AMP210",
    ),
    "an eps of a loss": (
        {
            "train.py": TRAIN,
            "net.py": NET,
            "losses.py": losses("return (a / (a.amax() + 1e-8) - b).abs().mean()"),
        },
        "losses.py:7:29: AMP312",
    ),
    "an eps of probabilities of a loss, which nobody has cast": (
        {
            "train.py": TRAIN,
            "net.py": UNKNOWN_NET,
            "losses.py": losses(
                "p = a['out'].sigmoid()\n    return -(1 - p + 1e-8).log()[b].mean()"
            ),
        },
        "losses.py:8:22: AMP312",
    ),
    "an upper bound of such probabilities": (
        {
            "train.py": TRAIN,
            "net.py": UNKNOWN_NET,
            "losses.py": losses(
                "p = torch.sigmoid(a).clamp(1e-5, 1 - 1e-5)\n    return b * p.log()"
            ),
        },
        "losses.py:7:38: AMP312",
    ),
    "an eps of one of two kinds of probabilities": (
        {
            "train.py": TRAIN,
            "net.py": UNKNOWN_NET,
            "losses.py": losses(
                "p = a.softmax(-1) if b is None else a.sigmoid()\n    return (p + 1e-8).log()"
            ),
        },
        "losses.py:8:17: AMP312",
    ),
    "a transform of a loss": (
        {
            "train.py": TRAIN,
            "net.py": NET,
            "losses.py": losses("return (torch.fft.rfft(a) - b).abs().mean()"),
        },
        "losses.py:7:13: AMP319",
    ),
    "logits of a model": (
        {"train.py": OUTSIDE, "net.py": NET, "losses.py": losses("return a")},
        "train.py:14:16: AMP318",
    ),
    "a loss that a factory gives": (
        {
            "train.py": TRAIN.replace("compare(net", "compare()(net"),
            "net.py": NET,
            "losses.py": f"{HEAD}\n\ndef compare():\n    return nn.BCELoss()\n",
        },
        "train.py:13:20: AMP204",
    ),
    "a model that a builder casts": (
        {"build.py": BUILD, "main.py": PLAIN},
        "build.py:9:17: AMP203",
    ),
    "a scheduler of a base class": (
        {"base.py": BASE, "one.py": heir("One"), "two.py": heir("Two")},
        "base.py:15:13: AMP112",
    ),
    "a dtype of a table": (
        {
            "config.py": TABLE,
            "train.py": TRAIN.replace("from losses import compare", "from config import DTYPES")
            .replace("dtype=torch.float16", "dtype=DTYPES['brain']")
            .replace("compare(net(x), y)", "net(x).mean()"),
            "net.py": NET,
        },
        "train.py:9:33: AMP109",
    ),
    "parameters that a function of a third file casts, and another one trains": (
        {
            "parts.py": f"""\
{HEAD}

def halve(layer):
    if isinstance(layer, nn.Linear):
        layer.weight.data = layer.weight.data.half()


def convert_weights(model):
    model.apply(halve)
""",
            "build.py": f"""\
{HEAD}from parts import convert_weights


def build(cfg):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    convert_weights(model)
    return model
""",
            "solver.py": """\
import torch


def make_optimizer(cfg, model):
    groups = []
    for name, p in model.named_parameters():
        if p.requires_grad:
            groups += [{"params": [p], "lr": cfg.lr}]
    return torch.optim.SGD(groups, lr=cfg.lr)
""",
            "main.py": """\
import torch
from build import build
from solver import make_optimizer


def main(cfg, loader):
    model = build(cfg)
    optimizer = make_optimizer(cfg, model)
    for x, y in loader:
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
""",
        },
        "build.py:9:5: AMP203",
    ),
    "a step of a long class that a long one is derived from": (
        {
            "first.py": f"""\
import torch


class First:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, 0.1, 100)
        self.scaler = torch.amp.GradScaler()

    def finish(self, loss):
        '{"what it does " * 1_000}'
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
""",
            "second.py": f"""\
from first import First


class Second(First):
    def clip(self):
        '{"what it does " * 1_000}'
        self.scaler.unscale_(self.optimizer)
""",
            "last.py": """\
import torch
from second import Second


class Last(Second):
    def fit(self, loader):
        for batch in loader:
            with torch.autocast("cuda"):
                loss = self.model(*batch).mean()
            self.finish(loss)
            self.scheduler.step()
""",
        },
        "last.py:11:13: AMP112",
    ),
    "a checkpoint of a helper in a folder that is added to the path": (
        {
            "tools/train.py": f"""\
import torch
import _paths
from utils.files import resume, save


def main(cfg, model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    resume(model, optimizer, cfg.path)
    scaler = torch.amp.GradScaler()
    for x in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = model(x).mean()
{STEP}    save(model, optimizer, cfg.path)
""",
            "lib/utils/files.py": """\
import torch


def resume(model, optimizer, path):
    state = torch.load(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])


def save(model, optimizer, path):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
""",
        },
        "lib/utils/files.py:11:16: AMP111",
    ),
    "a scheduler of a model that a registry gives": (
        {
            "registry.py": """\
class Registry:
    def __init__(self):
        self.known = {}

    def add(self, one):
        self.known[one.__name__] = one
        return one

    def get(self, name):
        return self.known[name]


MODELS = Registry()
""",
            "parts/base.py": """\
class Base:
    def __init__(self):
        self.schedulers = []

    def take_step(self, count):
        pass

    def update_rate(self, count):
        if count > 1:
            for scheduler in self.schedulers:
                scheduler.step()
""",
            "parts/mixed.py": f"""\
import torch
from parts.base import Base
from registry import MODELS


@MODELS.add
class Mixed(Base):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.optimizer = torch.optim.Adam(net.parameters())
        self.scaler = torch.amp.GradScaler()

    def get_data(self, data):
        self.x, self.y = data

    def take_step(self, count):
{SCALED}""",
            "main.py": """\
from registry import MODELS


def main(loader, name="Mixed"):
    model = MODELS.get(name)()
    count = 0
    for data in loader:
        count += 1
        model.update_rate(count)
        model.get_data(data)
        model.take_step(count)


if __name__ == "__main__":
    main([])
""",
        },
        "parts/base.py:11:17: AMP112",
    ),
    "a scheduler of what a script trains, in no function": (
        {"engine.py": ENGINE, "run.py": SCRIPT},
        "engine.py:20:13: AMP112",
    ),
    "a checkpoint of what functions step that other functions make": (
        {
            "steps.py": """\
import torch


def manager(cfg):
    def optimize(optimizer, scaler, params, count):
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(params, cfg.limit)
        scaler.step(optimizer)
        scaler.update()

    return optimize


def get_step(optimize):
    def step(state, batch):
        optimizer, scaler = state["optimizer"], state["scaler"]
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = state["model"](batch).mean()
        scaler.scale(loss).backward()
        state["count"] += 1
        optimize(optimizer, scaler, state["model"].parameters(), count=state["count"])
        return loss

    return step
""",
            "files.py": """\
import torch


def restore(path, state):
    found = torch.load(path)
    state["model"].load_state_dict(found["model"])
    state["optimizer"].load_state_dict(found["optimizer"])
    state["count"] = found["count"]
    return state


def save(path, state):
    saved = {
        "model": state["model"].state_dict(),
        "optimizer": state["optimizer"].state_dict(),
        "count": state["count"],
    }
    torch.save(saved, path)
""",
            "main.py": """\
import files
import steps
import torch


def main(cfg, model, loader):
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler()
    state = dict(model=model, optimizer=optimizer, scaler=scaler, count=0)
    state = files.restore(cfg.path, state)
    step = steps.get_step(steps.manager(cfg))
    for batch in loader:
        step(state, batch)
        files.save(cfg.path, state)
""",
        },
        "files.py:13:13: AMP111",
    ),
    "a model whose trainer is further away than tests of its parts": (
        {
            **{
                f"parts/part{number}.py": """\
import torch
from torch import nn


class Part(nn.Linear):
    pass


if __name__ == "__main__":
    with torch.autocast("cuda", dtype=torch.bfloat16):
        print(Part(3, 3)(torch.ones(3, 3)))
    torch.ones(3, requires_grad=True).sum().backward()
"""
                for number in range(9)
            },
            "parts/net.py": f"""\
{HEAD}{PARTS}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)

    def forward(self, x):
        return F.binary_cross_entropy(self.body(x).sigmoid(), x)
""",
            "training/loop.py": f"""\
import torch


def train(model, loader, optimizer):
    scaler = torch.amp.GradScaler()
    for x in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = model(x).mean()
{STEP}""",
            "main.py": """\
import torch
from parts.net import Net
from training.loop import train

net = Net()
train(net, [], torch.optim.SGD(net.parameters(), lr=0.1))
""",
        },
        "parts/net.py:21:16: AMP204",
    ),
    "a layer of a module that is loaded by name": (
        {
            "tools/build.py": LOADED,
            "tools/__init__.py": "",
            "main.py": RUNS,
            "parts/net.py": "from layers import attention\n",
            "layers/attention.py": ATTENTION,
        },
        "layers/attention.py:14:18: AMP314",
    ),
    "a module that is loaded by its name": (
        {
            "tools/build.py": LOADED,
            "tools/__init__.py": "",
            "main.py": RUNS,
            "parts/spectral.py": SPECTRAL,
        },
        "parts/spectral.py:8:16: AMP319",
    ),
    "a module of a library's base that is loaded by its name": (
        {
            "tools/build.py": LOADED,
            "tools/__init__.py": "",
            "main.py": RUNS,
            "parts/spectral.py": SPECTRAL.replace("nn.Module", "library.Base"),
        },
        "parts/spectral.py:8:16: AMP319",
    ),
    "a gradient of a model that is loaded by its name": (
        {
            "tools/build.py": LOADED,
            "tools/__init__.py": "",
            "main.py": RUNS,
            "parts/spectral.py": FORCES,
        },
        "parts/spectral.py:13:16: AMP321",
    ),
    "a hook of what a trainer is given": (
        {"task.py": TASK, "trainer.py": LOOP},
        "task.py:7:9: AMP101",
    ),
    "an optimizer that a method of a large class hands on": (
        {"saver.py": SAVER, "train.py": HANDS_ON},
        "saver.py:9:17: AMP111",
    ),
    "an optimizer of an object of a large class": (
        {"agent.py": AGENT, "main.py": SAVES},
        "main.py:7:16: AMP111",
    ),
    "an optimizer of what a parameter is said to be": (
        {"agent.py": AGENT, "files.py": SAID},
        "files.py:7:17: AMP111",
    ),
    "an optimizer in what a base class saves": (
        {"base.py": KEEPS, "ppo.py": KEPT},
        "ppo.py:10:9: AMP111",
    ),
    "a trainer whose scaler a test asks for": (
        {"trainer.py": OWNED, "test_trainer.py": ASKED},
        "trainer.py:17:20: AMP111",
    ),
    "a short helper after a long function": (
        {"long.py": LONG, "resumes.py": RESUMES, "train.py": SAVED},
        "train.py:18:16: AMP111",
    ),
    "a loss of the probabilities that a model gives": (
        {
            "train.py": TRAIN,
            "net.py": PROBABLE,
            "losses.py": losses("return F.binary_cross_entropy(a, b)"),
        },
        "losses.py:7:12: AMP306",
    ),
    "a loss where a model is run that gives probabilities": (
        {
            "train.py": TRAIN.replace("compare(net(x), y)", "nn.BCELoss()(net(x).squeeze(1), y)"),
            "net.py": PROBABLE,
            "losses.py": losses("return a"),
        },
        "train.py:13:20: AMP306",
    ),
    "a static method of a class": (
        {"driver.py": STATIC, "main.py": DRIVES},
        "driver.py:11:20: AMP111",
    ),
}
RIGHT = {
    "a loss of probabilities that one of two models gives": (
        {
            "train.py": TRAIN.replace("Net().cuda()", "(Net() if optimizer else Raw())").replace(
                "import Net", "import Net, Raw"
            ),
            "net.py": PROBABLE + NET.removeprefix(HEAD).replace("Net", "Raw"),
            "losses.py": losses("return F.binary_cross_entropy(a, b)"),
        },
        "AMP306",
    ),
    "what is watched where nothing scales": (
        {
            "main.py": WATCHES.replace("= Whole()", "= Plain()"),
            "parts/scales.py": SCALES,
            "parts/rounds.py": ROUNDS,
        },
        "AMP102",
    ),
    "a number of a third file that float16 has": (
        {
            "main.py": RUNS_SCORES,
            "parts/scores.py": LEAST,
            "parts/common.py": "LEAST = -1e4\n",
        },
        "AMP313",
    ),
    "a number of a third file that is one of two": (
        {
            "main.py": RUNS_SCORES,
            "parts/scores.py": LEAST,
            "parts/common.py": "import os\nLEAST = -1e32\nif os.name:\n    LEAST = -1e4\n",
        },
        "AMP313",
    ),
    "a loss in float32": (
        {
            "train.py": TRAIN.replace("net(x), y", "net(x).float(), y"),
            "net.py": NET,
            "losses.py": losses("return (torch.fft.rfft(a) - b).abs().mean()"),
        },
        "AMP319",
    ),
    "a region of a network in a region of float16": (
        {"train.py": TRAIN, "net.py": OWN_REGION, "losses.py": "compare = print\n"},
        "AMP210",
    ),
    "a region of a network that keeps the dtype around it": (
        {
            "train.py": BRAIN,
            "net.py": OWN_REGION.replace("torch.cuda.amp.autocast(", 'torch.autocast("cuda", '),
            "losses.py": "from torch.cuda.amp import autocast\ncompare = print\n",
        },
        "AMP210",
    ),
    "a region of a network before one of bfloat16": (
        {
            "train.py": BRAIN.replace("        with", "        y = net(x)\n        with").replace(
                "compare(net(x), y)", "compare(x, y)"
            ),
            "net.py": OWN_REGION,
            "losses.py": "compare = print\n",
        },
        "AMP210",
    ),
    "an eps of probabilities in float32": (
        {
            "train.py": TRAIN,
            "net.py": UNKNOWN_NET,
            "losses.py": losses(
                "p, q = a.float().sigmoid(), b.softmax(-1)\n"
                "    return torch.log(p + 1e-8) - torch.log(q + 1e-8) - torch.log(a + 1e-8)"
            ),
        },
        "AMP312",
    ),
    "an eps of probabilities that nothing computes in half": (
        {
            "train.py": TRAIN.replace("torch.float16", "torch.bfloat16"),
            "net.py": UNKNOWN_NET,
            "losses.py": losses("return torch.log(a.sigmoid() + 1e-8).mean()"),
        },
        "AMP312",
    ),
    "an eps of probabilities that are computed after the region": (
        {
            "train.py": TRAIN.replace("compare(net(x), y)", "net(x)") + "        compare(x, y)\n",
            "net.py": UNKNOWN_NET,
            "losses.py": losses("return torch.log(a.sigmoid() + 1e-8).mean()"),
        },
        "AMP312",
    ),
    "logits in a context that nobody knows": (
        {
            "train.py": OUTSIDE.replace("optimizer):", "optimizer, precision):").replace(
                "        loss = F", "        with precision.context():\n            loss = F"
            ),
            "net.py": NET,
            "losses.py": losses("return a"),
        },
        "AMP318",
    ),
    "a base class whose heir does not scale": (
        {
            "base.py": BASE,
            "one.py": heir("One")
            .replace("self.scaler.scale(loss).backward()", "loss.backward()")
            .replace("self.scaler.step(self.optimizer)", "self.optimizer.step()")
            .replace("        self.scaler.update()\n", ""),
        },
        "AMP112",
    ),
    "a hook of two classes that are not related": (
        {
            "task.py": f"{TASK}{OTHER}",
            "trainer.py": LOOP,
        },
        "AMP101",
    ),
    "a model that a builder casts, and nobody trains": (
        {
            "build.py": BUILD,
            "main.py": PLAIN.replace("torch.optim.SGD(model.parameters(),", "dict("),
        },
        "AMP203",
    ),
    "a layer of a module that another package's loader loads": (
        {
            "tools/build.py": LOADED,
            "tools/__init__.py": "",
            "main.py": RUNS,
            "others/net.py": "from layers import attention\n",
            "layers/attention.py": ATTENTION,
        },
        "AMP314",
    ),
    "a scheduler of what a script trains, by the epoch": (
        {
            "engine.py": ENGINE,
            "run.py": SCRIPT.replace("        engine.adapt", "    engine.adapt"),
        },
        "AMP112",
    ),
    "an update in a script, in no function": ({"engine.py": ENGINE, "run.py": SCRIPT}, "AMP105"),
    "a scheduler of a model that a registry gives, by the epoch": (
        {
            "parts/base.py": """\
class Base:
    def take_step(self, data):
        pass

    def update_rate(self):
        for scheduler in self.schedulers:
            scheduler.step()
""",
            "parts/mixed.py": f"""\
import torch
from parts.base import Base


class Mixed(Base):
    def __init__(self, net, optimizer):
        self.net, self.optimizer = net, optimizer
        self.scaler = torch.amp.GradScaler()

    def take_step(self, data):
        self.x, self.y = data
{SCALED}""",
            "main.py": """\
from registry import MODELS


def main(loader, name="Mixed"):
    model = MODELS.get(name)()
    for epoch in range(9):
        for data in loader:
            model.take_step(data)
        model.update_rate()


main([])
""",
        },
        "AMP112",
    ),
    "a state that is kept where the scaler is, in a function that nobody names": (
        {
            "lessons.py": """\
import torch


def learn(net, optimizer, loader, path):
    scaler = torch.amp.GradScaler()

    def state(epoch):
        return {
            "epoch": epoch,
            "optimizer": optimizer.state_dict(),
            "scaler_state": scaler.state_dict() if scaler is not None else None,
        }

    known = torch.load(path)
    optimizer.load_state_dict(known["optimizer"])
    scaler.load_state_dict(known["scaler_state"])
    for epoch in range(9):
        for x, y in loader:
            optimizer.zero_grad()
            scaler.scale(net(x, y)).backward()
            scaler.step(optimizer)
            scaler.update()
        torch.save(state(epoch), path)


def settings(rate):
    optimizer = torch.optim.SGD([], lr=rate)
    return {"optimizer": optimizer.state_dict()}
""",
            "main.py": "from lessons import settings\n\nprint(settings(0.1))\n",
        },
        "AMP111",
    ),
    "a module that nobody loads": (
        {
            "tools/build.py": LOADED.replace('f"parts.{name}"', '"parts.other"'),
            "tools/__init__.py": "",
            "main.py": RUNS,
            "parts/spectral.py": FORCES,
        },
        "AMP321",
    ),
}


def found(folder: Path, main: Run, files: Mapping[str, str], code: str) -> list[str]:
    """What a rule reports for a project, a line for each finding."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)
    options = "--select", code, "--preview", "--output-format", "concise", "-q"
    return main(*options, str(folder)).out.splitlines()


@pytest.mark.parametrize("name", MISTAKES)
def test_what_takes_several_files(name: str, tmp_path: Path, main: Run) -> None:
    files, place = MISTAKES[name]
    lines = found(tmp_path, main, files, place.rpartition(" ")[2])
    assert len(lines) == 1, lines
    assert place in lines[0]


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_in_several_files(name: str, tmp_path: Path, main: Run) -> None:
    files, code = RIGHT[name]
    assert found(tmp_path, main, files, code) == []


FAR = {
    "write.py": "import torch\n\n\ndef write(path, optimizer):\n"
    '    torch.save({"optimizer": optimizer.state_dict()}, path)\n',
    "keep.py": "from write import write\n\n\ndef keep(path, optimizer):\n"
    "    write(path, optimizer)\n",
    "train.py": f"""\
import torch
from keep import keep


def main(model, loader, path):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler()
    for x in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = model(x)
{STEP}        keep(path, optimizer)
""",
}


@pytest.mark.parametrize("loads", [False, True])
def test_what_nothing_loads_is_a_preview(loads: bool, tmp_path: Path, main: Run) -> None:
    load = '    optimizer.load_state_dict(torch.load(path)["optimizer"])\n    for x in'
    train = FAR["train.py"].replace("    for x in", load) if loads else FAR["train.py"]
    (line,) = found(tmp_path, main, FAR | {"train.py": train}, "AMP111")
    assert "train.py:" in line
    stable = main("--select", "AMP111", "--output-format", "concise", "-q", str(tmp_path)).out
    assert stable.splitlines() == ([line] if loads else [])


OPTIMIZER = """\
import torch


class Optimizer:
    def __init__(self, parameters):
        self.inner = torch.optim.Adam(parameters)
        self.scaler = torch.amp.GradScaler("cuda")

    def __call__(self, loss):
        self.inner.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.inner)
        self.scaler.update()
"""
AGENT = """\
import torch
from optimizer import Optimizer


class Agent:
    def __init__(self, model):
        self.model = model
        self.step = Optimizer(model.parameters())

    def update(self, x):
        with torch.autocast("cuda"):
            loss = self.model(x).mean()
            self.step(loss)
"""
SCALING = "        self.scaler.scale(loss).backward()\n"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (OPTIMIZER, ":11"),
        (OPTIMIZER + "\n    def accumulate(self, loss):\n" + SCALING, ""),
    ],
)
def test_places_in_other_files_are_told(text: str, place: str, tmp_path: Path, main: Run) -> None:
    (tmp_path / "optimizer.py").write_text(text)
    (tmp_path / "agent.py").write_text(AGENT)
    line = f"{tmp_path / 'optimizer.py'}{place}: `backward` is called here: `{SCALING.strip()}`"
    full = main("--select", "AMP201", "-q", str(tmp_path)).out
    assert f"note: {line}\n" in full
    (finding,) = json.loads(main("--select", "AMP201", "--output-format=json", str(tmp_path)).out)
    assert finding["elsewhere"] == [line]
    assert len(finding["related"]) == 1


def test_places_in_files_that_were_not_named_are_told(tmp_path: Path, main: Run) -> None:
    (tmp_path / "optimizer.py").write_text(OPTIMIZER)
    (tmp_path / "agent.py").write_text(AGENT)
    full = main("--select", "AMP201", "-q", str(tmp_path / "agent.py")).out
    assert "optimizer.py:11: `backward` is called here" in full


PYRAMID = f"""\
{HEAD}

class Pyramid(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.steps = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        with torch.cuda.amp.autocast(enabled=self.cfg.mixed):
            for step in self.steps:
                x = step(x)
        return x.float()
"""
MEASURED = f"""\
{HEAD}

def measure(net, loader):
    with torch.autocast("cuda"):
{chr(10).join(f"        total_{n} = '{'x' * 500}'" for n in range(60))}
        return [net(x) for x in loader]
"""
FITTED = f"""\
import torch
from measured import measure
from pyramid import Pyramid


def main(cfg, loader, path):
    net = Pyramid(cfg).cuda()
    optimizer = torch.optim.AdamW(net.parameters())
    scaler = torch.amp.GradScaler("cuda")
    optimizer.load_state_dict(torch.load(path)["optimizer"])
    for x in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = net(x).mean()
{STEP}    torch.save({{"optimizer": optimizer.state_dict()}}, path)
    measure(net, loader)
"""
INNER = "torch.cuda.amp.autocast(enabled=self.cfg.mixed)"


@pytest.mark.parametrize(
    ("inner", "codes"),
    [
        (INNER, ["AMP111"]),  # which is float16, if nothing else is said, whatever is around it
        ('torch.autocast("cuda", torch.float16)', ["AMP111"]),
        ('torch.autocast("cuda", enabled=self.cfg.mixed)', ["AMP109"]),  # as what is around it
        ("torch.cuda.amp.autocast(enabled=False)", ["AMP109"]),
    ],
)
def test_a_module_of_another_file_opens_a_region_of_its_own(
    inner: str, codes: list[str], tmp_path: Path, main: Run
) -> None:
    files = {"pyramid.py": PYRAMID.replace(INNER, inner), "measured.py": MEASURED}
    lines = found(tmp_path, main, files | {"fit.py": FITTED}, "AMP109,AMP111")
    assert [line.split()[1].strip(":") for line in lines] == codes


def test_a_region_in_which_no_gradient_is_taken_needs_no_scaler(tmp_path: Path, main: Run) -> None:
    inner = "with torch.cuda.amp.autocast(enabled=self.cfg.mixed):"
    frozen = PYRAMID.replace(inner, f"with torch.no_grad(), {inner.removeprefix('with ')}")
    files = {"pyramid.py": frozen, "measured.py": MEASURED, "fit.py": FITTED}
    (line,) = found(tmp_path, main, files, "AMP109,AMP111")
    assert "AMP109" in line


HEADS = f"""\
{HEAD}

class Heads(nn.Module):
    def __init__(self, width, actions):
        super().__init__()
        self.shared = nn.Linear(width, width)
        self.choice = nn.Sequential(nn.Linear(width, actions), nn.Softmax(dim=1))
        self.worth = nn.Linear(width, 1)

    def forward(self, state):
        shared = self.shared(state)
        return self.choice(shared), self.worth(shared)


class World(nn.Module):
    def __init__(self, width, actions):
        super().__init__()
        self.encode = nn.Linear(width, width)
        self.heads = Heads(width, actions)

    def begin(self, seen):
        state = self.encode(seen)
        choice, worth = self.heads(state)
        return state, choice, worth
"""
PLAYER = """\
from nets.world import World


class Player:
    def __init__(self, config, device):
        self.world = World(config.width, config.actions).to(device)
"""
PLAYED = f"""\
{HEAD}from player import Player


def train(config, loader):
    player = Player(config, "cuda")
    for seen, wanted in loader:
        state, logits, worth = player.world.begin(seen)
        p = F.softmax(logits, dim=1)
        loss = -(wanted * torch.log(p + 1e-8)).sum() + worth.square().mean()
        loss.backward()
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 0),  # a softmax of a softmax is never near 0
        ("nn.Softmax(dim=1)", "nn.Tanh()", 0),
        ("nn.Softmax(dim=1)", "nn.ReLU()", 1),
        (", nn.Softmax(dim=1)", "", 1),
        ("return state, choice, worth", "return state, 20 * choice, worth", 1),
        ("return self.choice(shared), ", "return shared, ", 1),
    ],
)
def test_what_a_module_of_another_file_gives_is_small(
    old: str, new: str, count: int, tmp_path: Path, main: Run
) -> None:
    world = HEADS.replace(old, new) if old else HEADS
    files = {"nets/__init__.py": "", "nets/world.py": world, "player.py": PLAYER}
    assert len(found(tmp_path, main, files | {"play.py": PLAYED}, "AMP301")) == count
