"""Training programs in the style of functions, and odd ones; see `fuzz.bases` for guillemets."""

from __future__ import annotations

PROGRAMS: dict[str, str] = {}

PROGRAMS["helpers"] = """
import torch
from torch.nn.utils import clip_grad_norm_


def forward(model, batch, use_amp):
    with torch.autocast("cuda", enabled=use_amp):
        return model(batch)


def backward(loss, scaler):
    scaler.scale(loss).backward()


def clip(model, optimizer, scaler, norm):
    «scaler.unscale_(optimizer)|»
    return clip_grad_norm_(model.parameters(), norm)


def step(optimizer, scaler, model=None, norm=None):
    if norm:
        clip(model, optimizer, scaler, norm)
    scaler.step(optimizer)
    «scaler.update()|»
    optimizer.zero_grad()


def train(model, optimizer, loader):
    scaler = torch.amp.GradScaler("cuda")
    for batch in loader:
        loss = forward(model, batch, True)
        backward(loss, scaler)
        step(optimizer, scaler, model, norm=1.0)
"""

PROGRAMS["closures"] = """
import torch


def make_step(model, optimizer, criterion, clip=1.0):
    scaler = torch.cuda.amp.GradScaler()

    def clip_grads():
        «scaler.unscale_(optimizer)|»
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)

    def step(x, y):
        nonlocal clip
        optimizer.zero_grad()
        with torch.cuda.amp.autocast():
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        clip_grads()
        scaler.step(optimizer)
        scaler.update()
        clip *= 0.999
        return loss.item()

    return step
"""

PROGRAMS["decorators"] = """
import functools
import torch


def with_amp(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        with torch.autocast("cuda"):
            return function(*args, **kwargs)
    return wrapper


@with_amp
def compute(model, x):
    return model(x).mean()


@torch.«autocast("cuda")|cuda.amp.autocast()|autocast»
def compute_too(model, x):
    loss = model(x).mean()
    return loss


@torch.compile
@torch.autocast(device_type="cuda")
def step(model, x, scaler, optimizer):
    loss = compute(model, x)
    scaler.scale(loss).backward()
    «scaler.unscale_(optimizer)|»
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""

PROGRAMS["partials"] = """
from functools import partial
import torch

amp = partial(torch.«cuda.amp.autocast, dtype=torch.float16|autocast, "cuda"»)
make_scaler = partial(torch.cuda.amp.GradScaler, init_scale=2 ** 10)
clip = partial(torch.nn.utils.clip_grad_norm_, max_norm=1.0)


def train(model, opt, loader):
    scaler = make_scaler()
    for x in loader:
        with amp():
            loss = model(x).sum()
        scaler.scale(loss).backward()
        clip(model.parameters())
        scaler.step(opt)
        scaler.update()
"""

PROGRAMS["lambdas"] = """
import torch

scale = lambda loss: scaler.scale(loss)
soft = lambda z: torch.log(torch.softmax(z, dim=-1))
clip = lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
scaler = torch.amp.GradScaler("cuda")
for x in loader:
    with torch.autocast("cuda"):
        loss = -soft(model(x)).mean()
    scale(loss).backward()
    «scaler.unscale_(optimizer)|»
    clip()
    (lambda o: (scaler.step(o), scaler.update()))(optimizer)
"""

PROGRAMS["match"] = """
import torch


def train(model, optimizer, loader, config):
    match config:
        case {"precision": "fp16" | "half", **rest}:
            dtype = torch.float16
        case {"precision": "bf16"}:
            dtype = torch.bfloat16
        case [first, *_] if first:
            dtype = first
        case _:
            dtype = None
    scaler = torch.amp.GradScaler("cuda", enabled=dtype is torch.float16)
    for batch in loader:
        with torch.autocast("cuda", dtype=dtype, enabled=dtype is not None):
            loss = model(batch)
        match dtype:
            case torch.float16:
                scaler.scale(loss).backward()
                «scaler.unscale_(optimizer)|»
            case _:
                loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""

PROGRAMS["async"] = """
import asyncio
import torch


async def batches(queue):
    while (batch := await queue.get()) is not None:
        yield batch


async def train(model, optimizer, queue):
    scaler = torch.amp.GradScaler("cuda")
    async with asyncio.Lock(), lock:
        async for x, y in batches(queue):
            with torch.autocast("cuda"):
                loss = criterion(model(x), y)
                «await asyncio.sleep(0)|»
            scaler.scale(loss).backward()
            await log(loss)
            «scaler.unscale_(optimizer)|»
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()


asyncio.run(train(model, optimizer, asyncio.Queue()))
"""

PROGRAMS["walrus"] = """
import torch


def train(model, optimizer, loader, it=None):
    it = iter(loader)
    scaler = torch.cuda.amp.GradScaler()
    while (batch := next(it, None)) is not None:
        optimizer.zero_grad()
        with torch.cuda.amp.autocast():
            if not torch.isfinite(loss := model(batch)):
                «continue|break»
        (scaled := scaler.scale(loss)).backward()
        if (norm := torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)) > 100:
            print(f"{norm=:.2f}", scaled)
        scaler.step(optimizer)
        scaler.update()
    return [y for x in loader if (y := torch.softmax(x, 0).log()) is not None]
"""

PROGRAMS["type comments"] = """
# -*- coding: utf-8 -*-
from __future__ import print_function, division
import torch
from torch.cuda.amp import autocast, GradScaler


def train(model, optimizer, loader, clip=None, scaler=None):
    # type: (torch.nn.Module, torch.optim.Optimizer, object, float, GradScaler) -> None
    losses = []  # type: list[float]
    for x in loader:  # type: torch.Tensor
        with autocast():  # type: ignore
            loss = model(x)  # type: torch.Tensor
        scaler.scale(loss).backward()
        if clip:
            «scaler.unscale_(optimizer)  # noqa: E501|pass»
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)  # noqa
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    print('%d losses, %.3f' % (len(losses), sum(losses)))
"""

PROGRAMS["deep nesting"] = """
import torch


def train(cfg, model, optimizer, loader):
    scaler = torch.amp.GradScaler("cuda")
    for epoch in range(cfg.epochs):
        try:
            for i, batch in enumerate(loader):
                if batch is not None:
                    if cfg.amp:
                        with torch.autocast("cuda"):
                            with torch.set_grad_enabled(True):
                                if cfg.checkpoint:
                                    loss = torch.utils.checkpoint.checkpoint(model, batch)
                                else:
                                    loss = model(batch)
                                «scaler.scale(loss).backward()|»
                        «|scaler.scale(loss).backward()»
                        if (i + 1) % cfg.accumulate == 0:
                            if cfg.clip:
                                if cfg.clip > 0:
                                    torch.nn.utils.clip_grad_norm_(model.parameters(), cfg.clip)
                            while True:
                                scaler.step(optimizer)
                                scaler.update()
                                break
        except (RuntimeError, KeyboardInterrupt) as error:
            if "out of memory" in str(error):
                torch.cuda.empty_cache()
                continue
            raise
        else:
            print("epoch", epoch)
        finally:
            optimizer.zero_grad()
"""

PROGRAMS["while loops"] = """
import torch

step = 0
scaler = torch.amp.GradScaler("cuda")
data = iter(loader)
while step < max_steps:
    try:
        x, y = next(data)
    except StopIteration:
        data = iter(loader)
        continue
    with torch.autocast("cuda", cache_enabled=False):
        loss = criterion(model(x), y)
    scaler.scale(loss).backward()
    step += 1
    if step % accumulate:
        continue
    «scaler.unscale_(optimizer)|»
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
else:
    print("done")
"""

PROGRAMS["comprehensions and lists of optimizers"] = """
import torch

models = [Net().cuda() for _ in range(3)]
optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in models]
scaler = torch.cuda.amp.GradScaler()
for x in loader:
    with torch.cuda.amp.autocast():
        losses = [m(x).mean() for m in models]
    «scaler.scale(sum(losses)).backward()|[scaler.scale(loss).backward() for loss in losses]»
    for model, optimizer in zip(models, optimizers):
        «scaler.unscale_(optimizer)|»
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimizer in optimizers:
        scaler.step(optimizer)
        «|scaler.update()»
    scaler.update()
    _ = [o.zero_grad() for o in optimizers]
"""

PROGRAMS["dict of optimizers"] = """
import torch

sparse = torch.optim.SparseAdam(emb.parameters())
opts = {"net": torch.optim.SGD(net.parameters(), 0.1), "emb": sparse}
state = {"scaler": torch.amp.GradScaler("cuda"), "step": 0}
for x in loader:
    with torch.autocast("cuda"):
        loss = net(emb(x)).mean()
    state["scaler"].scale(loss).backward()
    state["scaler"].unscale_(opts["net"])
    torch.nn.utils.clip_grad_norm_(«net|emb».parameters(), 1.0)
    for name, opt in opts.items():
        state["scaler"].step(opt)
    state["scaler"].update()
    state["step"] += 1
"""

PROGRAMS["unpacking"] = """
import torch
from torch import amp

(model, optimizer), *rest = setup()
scaler, clip = amp.GradScaler("cuda"), 1.0
for (x, (y, *_)), weight in zip(loader, weights):
    with amp.autocast("cuda") as region, torch.enable_grad():
        loss, aux = model(x, y), 0.0
        total = loss * weight + aux
    scaler.scale(total).backward(); scaler.unscale_(«optimizer|optimizer); (»)
    norm, _ = torch.nn.utils.clip_grad_norm_(model.parameters(), clip), None
    scaler.step(optimizer)
    scaler.update()
"""

PROGRAMS["keyword arguments"] = """
import torch


def step(loss, *, optimizer, scaler=None, clip=None, params=(), **kwargs):
    if scaler is None:
        loss.backward(**kwargs)
        optimizer.step()
        return
    scaler.scale(outputs=loss).backward(**kwargs)
    if clip is not None:
        «scaler.unscale_(optimizer=optimizer)|»
        torch.nn.utils.clip_grad_norm_(parameters=params, max_norm=clip, norm_type=2.0)
    scaler.step(optimizer=optimizer)
    scaler.update()


options = {"device": "cuda", "enabled": True}
scaler = torch.amp.GradScaler(**options)
for x in loader:
    with torch.autocast(**{"device_type": "cuda"}):
        loss = model(x)
    step(loss, optimizer=optimizer, scaler=scaler, clip=1.0, params=model.parameters())
"""

PROGRAMS["try and finally"] = """
import torch


def train(model, opt, loader):
    scaler = torch.cuda.amp.GradScaler()
    for x in loader:
        try:
            with torch.cuda.amp.autocast():
                loss = model(x)
            scaler.scale(loss).backward()
        except torch.cuda.OutOfMemoryError:
            opt.zero_grad()
            continue
        else:
            «scaler.unscale_(opt)|»
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(opt)
        finally:
            «scaler.update()|pass»
"""

PROGRAMS["early returns"] = """
import torch


def train_step(model, optimizer, scaler, batch, dry_run=False):
    optimizer.zero_grad()
    with torch.autocast("cuda"):
        loss = model(batch)
    if dry_run:
        return loss
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    if torch.isnan(loss):
        «return None|scaler.update(); return None»
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    if loss < 0:
        return loss
    scaler.update()
    return loss


scaler = torch.amp.GradScaler("cuda")
for batch in loader:
    train_step(model, optimizer, scaler, batch)
"""

PROGRAMS["global state"] = """
import torch

scaler = None
step = 0


def init():
    global scaler
    scaler = torch.cuda.amp.GradScaler()


def update(model, optimizer, loss):
    global step
    scaler.scale(loss).backward()
    step += 1
    if step % 2:
        return
    «scaler.unscale_(optimizer)|»
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()


init()
for x in loader:
    update(model, optimizer, model(x))
"""

PROGRAMS["several statements on a line"] = """
import torch; from torch.cuda.amp import *; import torch.nn.utils as U
scaler = GradScaler(); n = 0
for x in loader:
    opt.zero_grad(); n += 1
    with autocast(): loss = model(x); scaler.scale(loss).backward()
    if n % 2: continue
    «scaler.unscale_(opt); |»U.clip_grad_norm_(model.parameters(), 1.0); scaler.step(opt)
    scaler.update(); n += 0
    if n > 10: break
else: print("end"); pass
"""

PROGRAMS["continuation lines"] = """
import torch
from torch.amp import \\
    GradScaler, \\
    autocast

scaler = \\
    GradScaler("cuda")
for x in loader:
    with autocast("cuda"), \\
         torch.profiler.record_function("forward"):
        loss = model(x) \\
            .mean()
        scaler \\
            .scale(loss) \\
            .backward()
    torch.nn.utils \\
        .clip_grad_norm_(
            model.parameters(),  # all
            max_norm=(
                1.0
                # not more
            ),
        )
    scaler.step(
        optimizer
    ), scaler \\
        .update()
"""

PROGRAMS["comments everywhere"] = """
# start
import torch  # torch
# before
from torch.cuda.amp import (  # open
    # first
    GradScaler,  # the scaler
    # second
    autocast,  # the region
    # last
)  # close


def train(  # define
    model,  # a model
    # an optimizer
    optimizer,
):  # body
    # the scaler
    scaler = GradScaler(  # make
        # nothing
    )  # made
    for x in loader:  # loop
        # region
        with autocast(  # on
            # really
        ):  # body of the region
            # forward
            loss = model(x)  # loss
            # backward
            scaler.scale(  # scale
                loss  # the loss
            ).backward()  # back
            # after backward
        # clip
        torch.nn.utils.clip_grad_norm_(  # clip
            model.parameters(),  # parameters
            1.0,  # norm
        )  # clipped
        # step
        scaler.step(optimizer)  # step
        # update
        scaler.update()  # update
        # end of loop
    # end of function
# end of file
"""

PROGRAMS["typed"] = """
from __future__ import annotations
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, Literal, Optional, Protocol, overload
import torch
from torch.optim import Optimizer

if TYPE_CHECKING:
    from torch.amp import GradScaler

Precision = Literal["fp16", "bf16", "fp32"]
CLIP: Final[float] = 1.0


class Loss(Protocol):
    def __call__(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor: ...


@overload
def train(loader: None, model: torch.nn.Module, optimizer: Optimizer) -> None: ...
@overload
def train(loader: Iterable[torch.Tensor], model: object, optimizer: Optimizer) -> float: ...
def train(loader, model, optimizer, precision: Precision = "fp16", scaler: Optional[object] = 0):
    total: float = 0.0
    scaler: GradScaler = scaler or torch.amp.GradScaler("cuda", enabled=precision == "fp16")
    for x in loader or ():
        loss: torch.Tensor
        with torch.autocast("cuda", dtype=torch.float16 if precision == "fp16" else torch.bfloat16):
            loss = model(x)
        scaler.scale(loss).backward()
        «scaler.unscale_(optimizer)|»
        norm: torch.Tensor | float = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        scaler.step(optimizer)
        scaler.update()
        total += loss.item()
    return total
"""

PROGRAMS["non-ASCII"] = '''
"""Trainiert ein Netz — größer, schöner. 訓練プログラム."""
import torch
from torch.cuda.amp import autocast, GradScaler

λ = 1e-3
größe = 32
scaler = GradScaler()  # Skalierer
for 批次, y in loader:
    with autocast():  # “Anführungszeichen”
        verlust = modell(批次) + λ * sum(p.norm() for p in modell.parameters())
    scaler.scale(verlust).backward()
    print("Größe: ", größe, "😀 é̀")
    torch.nn.utils.clip_grad_norm_(modell.parameters(), 1.0)  # ← hier
    scaler.step(optimierer)
    scaler.update()
    wahrscheinlichkeit = torch.softmax(modell(批次), 1).log()  # 确率
'''

PROGRAMS["strings of many kinds"] = '''
import torch
from torch.amp import GradScaler, autocast
TEXT = """
    with autocast():
        scaler.scale(loss).backward()
"""
RAW = (r'\\d+\\s' '' if False else r"""x\\ """)


def train(model, optimizer, loader, kind='cuda'):
    \'\'\'One epoch.

        scaler.unscale_(optimizer)
    \'\'\'
    scaler = GradScaler(f"{kind}")
    for i, x in enumerate(loader):
        with autocast("cu" "da"):
            loss = model(x)
            scaler.scale(loss).backward()
            message = f"""
step {i:>{8}} {loss.item()!r:.3} {{literal}} {'nested' if i else "other"}
  text at the margin
"""
            print(message % () if '%' in message else message, end='')
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
'''

PROGRAMS["parenthesised with"] = """
import torch

scaler = torch.amp.GradScaler("cuda")
for x in loader:
    with (
        torch.autocast("cuda", dtype=torch.float16) as region,
        torch.profiler.profile() as prof,
    ):
        loss = model(x)
        scaler.scale(loss).backward()
        prof.step()
    (torch.nn.utils.clip_grad_norm_((model.parameters()), (1.0)))
    scaler.step((optimizer))
    (scaler).update()
"""

PROGRAMS["one autocast object"] = """
import torch

cast = torch.«autocast("cuda")|cuda.amp.autocast()|autocast»
scaler = torch.amp.GradScaler("cuda")


def loss_of(model, x):
    with cast:
        return model(x).mean()


for x in loader:
    with cast:
        loss = «loss_of(model, x)|model(x).mean()»
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""

PROGRAMS["step inside the region"] = """
import torch
from torch.amp import autocast, GradScaler


def train(model, optimizer, loader, n_inner=3):
    scaler = GradScaler("cuda")
    with autocast("cuda"):
        for x, y in loader:
            for _ in range(n_inner):
                loss = (model(x) - y).abs().mean()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
        # the end
        torch.save(model.state_dict(), "model.pt")
"""

PROGRAMS["no scaler"] = """
import torch


def train(model, loader, lr=1e-3):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.«float16|bfloat16»):
            loss = torch.nn.functional.cross_entropy(model(x), y)
            «loss.backward()|»
        «|loss.backward()»
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
"""

PROGRAMS["metric learning with many logs"] = """
import torch
import torch.nn.functional as F
from torch import log, softmax


def losses(z, y, T=1.0, eps=1e-7):
    a = torch.log(F.softmax(z / T, dim=1))
    b = F.softmax(z, 1).log()
    c = log(softmax(z, -1) + eps)
    p = z.softmax(dim=-1)
    d = p.log()
    q = torch.nn.Softmax(-1)(z); e = torch.log(input=q)
    entropy = -(p * torch.log(p)).sum(-1)
    f = F.nll_loss(torch.log(torch.clamp(p, min=eps)), y)
    g = torch.log2(softmax(z, 0)), torch.log1p(-p)
    return a, b, c, d, e, entropy, f, g


with torch.autocast("cuda"):
    losses(model(x), y)
"""

PROGRAMS["recursion"] = """
import torch


def descend(tree, scaler, optimizer, depth=0):
    if depth > 5:
        return step(tree, scaler, optimizer, depth)
    for child in tree:
        descend(child, scaler, optimizer, depth + 1)


def step(tree, scaler, optimizer, depth):
    with torch.autocast("cuda"):
        loss = tree.loss()
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(tree.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    return descend(tree, scaler, optimizer, depth - 1) if depth else None


descend(tree, torch.amp.GradScaler("cuda"), torch.optim.SGD(tree.parameters(), 0.1))
"""

PROGRAMS["half precision by hand"] = """
import torch

model = Model()«.half()|.to(torch.float16)|.cuda()»
«model = model.half()|model.to(dtype=torch.half)|»
optimizer = torch.optim.«Adam|SGD»(model.parameters(), lr=1e-3)
master = [p.detach().clone().float() for p in model.parameters()]
for x, y in loader:
    loss = model(x.half()).float().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

PROGRAMS["functions merged"] = """
import torch
from torch.cuda.amp import GradScaler, autocast


def train_a(m, o, l, s):
    for x in l:
        with autocast():
            loss = m(x)
        s.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        s.step(o)
        s.update()


def train_b(m, o, l, s):
    for x in l:
        with autocast():
            loss = m(x)
        s.scale(loss).backward()
        s.unscale_(o)
        torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        s.step(o)
        s.update()


def main(kind):
    args = build(), torch.optim.SGD(build().parameters(), 0.1), data(), GradScaler()
    train = {"a": train_a, "b": train_b}[kind]
    train(*args)
    (train_a if kind else train_b)(*args)
"""

PROGRAMS["nested tests"] = """
import torch


def train(model, optimizer, scaler, loader, cfg):
    step = 0
    for batch in loader:
        step = step + 1
        with torch.autocast("cuda", enabled=cfg.amp):
            loss = model(batch)
        if cfg.amp:
            scaler.scale(loss).backward()
        else:
            loss.backward()
        if step % cfg.accumulate == 0:
            if cfg.clip is not None:
                if cfg.amp:
                    «scaler.unscale_(optimizer)|pass»
                torch.nn.utils.clip_grad_norm_(model.parameters(), cfg.clip)
            if cfg.amp:
                scaler.step(optimizer)
                scaler.update()
            else:
                optimizer.step()
            optimizer.zero_grad()
"""

PROGRAMS["tests with and"] = """
import torch
from torch.amp import GradScaler, autocast


def train(model, optimizer, loader, amp=True, clip=1.0, log=None):
    scaler = GradScaler("cuda", enabled=amp)
    seen = 0
    for x, y in loader:
        if x is not None and len(x) > 0:
            optimizer.zero_grad()
            with autocast("cuda", enabled=amp):
                loss = (model(x) - y).abs().mean()
            scaler.scale(loss).backward()
            if amp and clip:
                «scaler.unscale_(optimizer)|»
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            if log is not None and seen % 10 == 0 and not torch.isnan(loss):
                log(loss)
            scaler.step(optimizer)
            scaler.update()
            seen = seen + 1
"""

PROGRAMS["chains of elif"] = """
import torch


def train(model, optimizer, loader, precision):
    if precision == "fp16":
        dtype = torch.float16
        scaler = torch.amp.GradScaler("cuda")
    elif precision == "bf16":
        dtype = torch.bfloat16
        scaler = «None|torch.amp.GradScaler("cuda")»
    elif precision != "fp32":
        raise ValueError(precision)
    else:
        dtype = None
        scaler = None
    for x in loader:
        if dtype is None:
            loss = model(x)
        else:
            with torch.autocast("cuda", dtype=dtype):
                loss = model(x)
        if scaler is not None:
            scaler.scale(loss).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
        elif precision == "bf16":
            loss.backward()
            optimizer.step()
        else:
            loss.backward()
            optimizer.step()
        if scaler is not None:
            scaler.update()
"""

PROGRAMS["choices"] = """
import contextlib
import torch


class Loop:
    def __init__(self, model, optimizer, amp):
        self.model = model
        self.optimizer = optimizer
        self.scaler = torch.cuda.amp.GradScaler() if amp else None
        if amp:
            self.context = torch.cuda.amp.autocast
        else:
            self.context = contextlib.nullcontext

    def step(self, batch, last=True):
        with self.context():
            loss = self.model(batch)
        scaled = self.scaler.scale(loss) if self.scaler else loss
        scaled.backward()
        if not last:
            return loss
        if self.scaler is not None:
            «self.scaler.unscale_(self.optimizer)|»
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        else:
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 2.0)
        step = self.scaler.step if self.scaler else None
        if step:
            step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        return loss, norm
"""

PROGRAMS["left out by tests"] = """
import math
import torch


def train(model, optimizer, loader, skip_bad=True):
    scaler = torch.amp.GradScaler("cuda")
    bad = 0
    for x in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = model(x)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if not math.isfinite(norm):
            bad = bad + 1
            «|scaler.update()»
            continue
        scaler.step(optimizer)
        scaler.update()
    return bad
"""
