"""Training programs in the style of classes; `fuzz.bases` says what the guillemets mean."""

from __future__ import annotations

PROGRAMS: dict[str, str] = {}

PROGRAMS["trainer"] = '''
import torch
from torch import nn
from torch.cuda.amp import GradScaler, autocast


class Trainer:
    """Trains a model."""

    def __init__(self, model: nn.Module, loader, lr: float = 1e-3, use_amp: bool = True):
        self.model = model
        self.loader = loader
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.scaler = GradScaler(enabled=use_amp)
        self.use_amp = use_amp

    def train_step(self, batch):
        self.optimizer.zero_grad()
        with autocast(enabled=self.use_amp):
            loss = self.model(**batch)
            «self.scaler.scale(loss).backward()|»
        «|self.scaler.scale(loss).backward()»
        «self.scaler.unscale_(self.optimizer)|»
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.item()

    def fit(self, epochs):
        for _ in range(epochs):
            for batch in self.loader:
                self.train_step(batch)
'''

PROGRAMS["base class and override"] = """
import torch


class Base:
    scaler = None

    def __init__(self, model):
        self.model = model
        self.optimizer = self.configure()
        self.scaler = torch.amp.GradScaler("cuda")

    def configure(self):
        return torch.optim.SGD(self.model.parameters(), lr=0.1)

    def backward(self, loss):
        self.scaler.scale(loss).backward()

    def step(self):
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def clip(self):
        pass


class Clipping(Base):
    def clip(self):
        «self.scaler.unscale_(self.optimizer)|»
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)

    def run(self, batch):
        with torch.autocast("cuda"):
            loss = self.model(batch)
        self.backward(loss)
        self.clip()
        «self.step()|super().step()|self.optimizer.step()»
"""

PROGRAMS["configuration by dataclass"] = """
from __future__ import annotations

from dataclasses import dataclass, field
import torch


@dataclass(frozen=True)
class Config:
    amp: bool = True
    dtype: torch.dtype = torch.«float16|bfloat16»
    clip: float | None = 1.0
    betas: tuple[float, float] = field(default=(0.9, 0.999))


@dataclass
class State:
    scaler: torch.amp.GradScaler
    optimizer: torch.optim.Optimizer
    step: int = 0


def train(cfg: Config, model, loader):
    optimizer = torch.optim.AdamW(model.parameters())
    state = State(torch.amp.GradScaler("cuda", enabled=cfg.amp), optimizer)
    for batch in loader:
        with torch.autocast("cuda", dtype=cfg.dtype, enabled=cfg.amp):
            loss = model(batch)
        state.scaler.scale(loss).backward()
        if cfg.clip is not None:
            «state.scaler.unscale_(state.optimizer)|»
            torch.nn.utils.clip_grad_norm_(model.parameters(), cfg.clip)
        state.scaler.step(state.optimizer)
        state.scaler.update()
        state.step += 1
"""

PROGRAMS["properties"] = """
import functools
import torch


class Engine(object):
    def __init__(self, net):
        self._net = net

    @property
    def params(self):
        return [p for p in self._net.parameters() if p.requires_grad]

    @functools.cached_property
    def scaler(self):
        return torch.cuda.amp.GradScaler()

    @functools.cached_property
    def opt(self):
        return torch.optim.SGD(self.params, lr=0.1)

    def __call__(self, x, y):
        with torch.cuda.amp.autocast():
            loss = torch.nn.functional.mse_loss(self._net(x), y)
        self.scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(self.params, 1.0)
        self.scaler.step(self.opt)
        self.scaler.update()
"""

PROGRAMS["optional scaler"] = """
import torch


class Learner:
    def __init__(self, model, optimizer, fp16=False):
        self.model, self.optimizer = model, optimizer
        self.fp16 = fp16
        self.scaler = torch.amp.GradScaler("cuda") if fp16 else None

    def optimize(self, loss):
        if self.fp16:
            self.scaler.scale(loss).backward()
        else:
            loss.backward()
        if self.max_norm:
            if «self.fp16|self.scaler is not None|self.scaler»:
                «self.scaler.unscale_(self.optimizer)|pass»
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            «self.scaler.update()|»
        self.optimizer.zero_grad()

    def state_dict(self):
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        if «self.scaler is not None|False»:
            state["scaler"] = self.scaler.state_dict()
        return state

    def save(self, path):
        torch.save(self.state_dict(), path)
"""

PROGRAMS["context manager method"] = """
import contextlib
import torch


class Runner:
    def __init__(self, model, optimizer):
        self.model = model
        self.optimizer = optimizer
        self.scaler = torch.amp.GradScaler("cuda")

    @contextlib.contextmanager
    def autocast(self):
        with torch.autocast("cuda", dtype=torch.float16):
            yield

    @contextlib.contextmanager
    def stepping(self):
        self.optimizer.zero_grad()
        yield self
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def run(self, batches):
        for batch in batches:
            with self.stepping():
                with self.autocast():
                    loss = self.model(batch)
                    «self.scaler.scale(loss).backward()|»
                «|self.scaler.scale(loss).backward()»
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
"""

PROGRAMS["mixins"] = """
import torch
from torch.cuda import amp


class AmpMixin:
    def setup_amp(self):
        self.scaler = amp.GradScaler()

    def amp_backward(self, loss, optimizer, clip=None):
        self.scaler.scale(loss).backward()
        if clip:
            «self.scaler.unscale_(optimizer)|»
            torch.nn.utils.clip_grad_norm_(self.parameters(), clip)
        self.scaler.step(optimizer)
        self.scaler.update()


class Net(AmpMixin, torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)
        self.norm = torch.nn.LayerNorm(3, eps=«1e-12|1e-8|1e-6»)
        self.setup_amp()

    @amp.autocast()
    def forward(self, x):
        return self.norm(self.fc(x)).softmax(-1).«log()|clamp(min=1e-9).log()|argmax(-1)»
"""

PROGRAMS["native scaler"] = """
import torch


class NativeScaler:
    state_dict_key = "amp_scaler"

    def __init__(self):
        self._scaler = torch.cuda.amp.GradScaler()

    def __call__(self, loss, optimizer, clip_grad=None, parameters=None, create_graph=False):
        self._scaler.scale(loss).backward(create_graph=create_graph)
        if clip_grad is not None:
            assert parameters is not None
            «self._scaler.unscale_(optimizer)|»
            norm = torch.nn.utils.clip_grad_norm_(parameters, clip_grad)
        else:
            self._scaler.unscale_(optimizer)
            norm = grad_norm(parameters)
        self._scaler.step(optimizer)
        self._scaler.update()
        return norm

    def state_dict(self):
        return self._scaler.state_dict()

    def load_state_dict(self, state_dict):
        self._scaler.load_state_dict(state_dict)


def train_one_epoch(model, loader, optimizer, loss_scaler: NativeScaler):
    for samples, targets in loader:
        with torch.cuda.amp.autocast():
            loss = criterion(model(samples), targets)
        optimizer.zero_grad()
        loss_scaler(loss, optimizer, clip_grad=1.0, parameters=model.parameters())
"""

PROGRAMS["callbacks"] = """
import torch
from torch.amp import GradScaler


class Callback:
    def before_step(self, trainer): ...
    def after_step(self, trainer): ...


class Clip(Callback):
    def __init__(self, norm): self.norm = norm

    def before_step(self, trainer):
        «trainer.scaler.unscale_(trainer.optimizer)|»
        torch.nn.utils.clip_grad_norm_(trainer.model.parameters(), self.norm)


class Loop:
    def __init__(self, model, optimizer, callbacks=()):
        self.model, self.optimizer, self.callbacks = model, optimizer, list(callbacks)
        self.scaler = GradScaler("cuda")

    def call(self, name):
        for callback in self.callbacks:
            getattr(callback, name)(self)

    def one(self, batch):
        with torch.autocast("cuda"):
            self.loss = self.model(batch)
        self.scaler.scale(self.loss).backward()
        self.call("before_step")
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.call("after_step")
        self.optimizer.zero_grad()
"""

PROGRAMS["static and class methods"] = """
import torch


class Steps:
    scaler = torch.cuda.amp.GradScaler()
    amp_dtype = torch.float16

    @staticmethod
    def clip(params, limit=1.0):
        torch.nn.utils.clip_grad_norm_(params, limit)

    @classmethod
    def forward_backward(cls, model, x):
        with torch.cuda.amp.autocast(dtype=cls.amp_dtype):
            loss = model(x).sum()
        cls.scaler.scale(loss).backward()

    @classmethod
    def step(cls, model, optimizer, x):
        cls.forward_backward(model, x)
        «cls.scaler.unscale_(optimizer)|»
        cls.clip(model.parameters())
        cls.scaler.step(optimizer)
        cls.scaler.update()
"""

PROGRAMS["generator of steps"] = """
import torch


class Steps:
    def __init__(self, model, opt):
        self.model, self.opt = model, opt
        self.scaler = torch.amp.GradScaler("cuda")

    def __iter__(self):
        for batch in self.loader:
            self.opt.zero_grad()
            with torch.autocast("cuda"):
                loss = self.model(batch)
                «yield loss|»
            self.scaler.scale(loss).backward()
            yield loss
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1)
            self.scaler.step(self.opt)
            self.scaler.update()

    def run(self):
        return [loss.item() for loss in self]
"""

PROGRAMS["custom function"] = """
import torch
from torch.cuda.amp import custom_bwd, custom_fwd


class Exp(torch.autograd.Function):
    @staticmethod
    @custom_fwd«|(cast_inputs=torch.float32)»
    def forward(ctx, i):
        result = i.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    @custom_bwd
    def backward(ctx, grad_output):
        (result,) = ctx.saved_tensors
        return grad_output * result


exp = Exp.apply
"""

PROGRAMS["losses as modules"] = """
import torch
import torch.nn as nn
import torch.nn.functional as F


class Focal(nn.Module):
    def __init__(self, gamma=2.0, reduction="mean"):
        super().__init__()
        self.gamma = gamma
        self.reduction = reduction
        self.bce = nn.BCELoss(reduction="none")

    def forward(self, logits, target):
        p = torch.sigmoid(logits)
        with torch.autocast("cuda"):
            ce = «self.bce(p, target)|F.binary_cross_entropy(p, target, reduction="none")»
        loss = ce * (1 - p) ** self.gamma
        return loss.mean() if self.reduction == "mean" else loss.sum()


class Contrastive(nn.Module):
    def forward(self, a, b, temperature: float = 0.1):
        sim = F.normalize(a) @ F.normalize(b).T / temperature
        probabilities = F.softmax(sim, dim=«1|-1»)
        return -torch.log(probabilities.diag() «+ 1e-8|»).mean()


class Distill(nn.Module):
    def __init__(self): super().__init__(); self.soft = nn.Softmax(dim=1)

    def forward(self, s, t, T=2):
        student = «torch.log(self.soft(s / T))|F.softmax(s / T, dim=1).log()»
        return F.kl_div(student, self.soft(t / T))
"""

PROGRAMS["network with norms"] = """
from collections import OrderedDict
import torch
from torch import nn, Tensor


class Block(nn.Module):
    def __init__(self, dim: int, heads: int = 4, *, eps: float = «1e-12|1e-5»):
        super().__init__()
        self.ln_1 = nn.LayerNorm(dim, eps=eps)
        self.ln_2 = nn.LayerNorm(dim, 1e-12)
        self.attn = nn.MultiheadAttention(dim, heads)
        self.mlp = nn.Sequential(OrderedDict([("fc", nn.Linear(dim, 4 * dim)), ("act", nn.GELU())]))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(*[self.ln_1(x)] * 3, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


def main():
    model = Block(64).cuda()«.half()|»
    optimizer = torch.optim.Adam(model.parameters(), eps=1e-8)
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        with torch.autocast("cuda", torch.float16):
            loss = model(x).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""

PROGRAMS["abstract base class"] = '''
import abc
import typing as t
import torch

T = t.TypeVar("T", bound=torch.nn.Module)


class Algorithm(abc.ABC, t.Generic[T]):
    def __init__(self, model: T, /, *optimizers, amp: bool = False, **options: t.Any) -> None:
        self.model, self.optimizers = model, optimizers
        self.scaler = torch.cuda.amp.GradScaler(enabled=amp)
        self.amp = amp

    @abc.abstractmethod
    def loss(self, batch) -> torch.Tensor:
        """The loss of a batch."""

    def update(self, batch) -> float:
        with torch.cuda.amp.autocast(self.amp):
            loss = self.loss(batch)
        self.scaler.scale(loss).backward()
        for optimizer in self.optimizers:
            «self.scaler.unscale_(optimizer)|»
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.scaler.step(optimizer)
            «|self.scaler.update()»
        «self.scaler.update()|»
        return float(loss)


class Regression(Algorithm[torch.nn.Linear]):
    def loss(self, batch):
        x, y = batch
        return (self.model(x) - y).abs().mean()
'''

PROGRAMS["slots and nested classes"] = """
import torch


class Outer:
    class Inner:
        __slots__ = ("opt", "scaler", "net")

        def __init__(self, net):
            self.net = net
            self.opt = torch.optim.SGD(net.parameters(), 1e-2)
            self.scaler = torch.amp.GradScaler("cuda", init_scale=2.**16)

        def go(self, x):
            with torch.amp.autocast("cuda"): loss = self.net(x).mean()
            self.scaler.scale(loss).backward()
            «|self.scaler.unscale_(self.opt)»
            torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
            self.scaler.step(self.opt)
            self.scaler.update()

    def __enter__(self):
        self._amp = torch.autocast("cuda")
        self._amp.__enter__()
        return self

    def __exit__(self, *error):
        self._amp.__exit__(*error)
"""

PROGRAMS["reinforcement learning"] = """
import torch
from torch.amp import autocast, GradScaler
from torch.distributions import Categorical


class Agent:
    def __init__(self, actor, critic):
        self.actor, self.critic = actor, critic
        self.actor_opt = torch.optim.Adam(actor.parameters())
        self.critic_opt = torch.optim.Adam(critic.parameters())
        self.scaler = GradScaler("cuda")

    def learn(self, obs, action, ret):
        with autocast("cuda"):
            value = self.critic(obs)
            advantage = (ret - value).detach()
            logits = self.actor(obs)
            log_prob = torch.«log(torch.softmax(logits, -1))|log_softmax(logits, -1)»
            actor_loss = -(log_prob.gather(-1, action[:, None]).squeeze() * advantage).mean()
            critic_loss = (ret - value).pow(2).mean()
        self.actor_opt.zero_grad()
        self.critic_opt.zero_grad()
        self.scaler.scale(actor_loss).backward()
        «self.scaler.scale(critic_loss).backward()|critic_loss.backward()»
        self.scaler.unscale_(self.actor_opt)
        torch.nn.utils.clip_grad_norm_(self.actor.parameters(), 0.5)
        torch.nn.utils.clip_grad_norm_(self.critic.parameters(), 0.5)
        self.scaler.step(self.actor_opt)
        «self.scaler.update()|»
        self.scaler.step(self.critic_opt)
        self.scaler.update()
"""

PROGRAMS["checkpoints in a class"] = """
import torch
from pathlib import Path


class Experiment:
    def __init__(self, folder: Path, model, optimizer, scheduler):
        self.folder = folder
        self.model = model
        self.optimizer = optimizer
        self.scheduler = scheduler
        self.scaler = torch.amp.GradScaler("cuda")
        self.epoch = 0

    def save(self, name="last.pt"):
        state = dict(
            model=self.model.state_dict(),
            optimizer=self.optimizer.state_dict(),
            scheduler=self.scheduler.state_dict(),
            «scaler=self.scaler.state_dict(),|»
            epoch=self.epoch,
        )
        torch.save(state, self.folder / name)

    def load(self, name="last.pt"):
        state = torch.load(self.folder / name)
        for key in ("model", "optimizer", "scheduler"«, "scaler"|»):
            getattr(self, key).load_state_dict(state[key])
        self.epoch = state["epoch"]

    def train(self, loader):
        for batch in loader:
            with torch.autocast("cuda"):
                loss = self.model(batch)
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.scheduler.step()
"""

PROGRAMS["trainer with hooks of a framework"] = """
import torch
import pytorch_lightning as pl


class Lit(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.scaler = torch.cuda.amp.GradScaler()
        self.net = torch.nn.Linear(2, 2)

    def training_step(self, batch, batch_idx):
        opt = self.optimizers()
        opt.zero_grad()
        with torch.cuda.amp.autocast():
            loss = self.net(batch).sum()
        self.manual_backward(self.scaler.scale(loss))
        self.clip_gradients(opt, gradient_clip_val=1.0)
        self.scaler.step(opt)
        self.scaler.update()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())
"""
