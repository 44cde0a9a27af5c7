"""Training programs in the style of scripts; `fuzz.bases` says what the guillemets mean."""

from __future__ import annotations

PROGRAMS: dict[str, str] = {}

PROGRAMS["plain script"] = """
import torch
from torch import nn
from torch.amp import «GradScaler, autocast|autocast, GradScaler»

device = "cuda"
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
optimizer = torch.optim.«SGD(model.parameters(), lr=0.1)|AdamW(model.parameters())»
scaler = GradScaler(«"cuda"|device|»)
for step in range(1000):
    x = torch.randn(8, 16, device=device)
    y = torch.randint(4, (8,), device=device)
    optimizer.zero_grad()
    with autocast(«"cuda"|"cuda", dtype=torch.float16|device_type="cuda"»):
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    «scaler.unscale_(optimizer)|»
    nn.utils.clip_grad_norm_(model.parameters(), «1.0|max_norm=0.5»)
    scaler.step(optimizer)
    «scaler.update()|»
"""

PROGRAMS["script with arguments"] = '''
"""Train a small classifier."""
import argparse
import torch
import torch.nn.functional as F
from torch.cuda import amp

parser = argparse.ArgumentParser()
parser.add_argument("--amp", action="store_true")
parser.add_argument("--clip", type=float, default=0.0)
args = parser.parse_args()

model = torch.nn.Linear(10, 2).cuda()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
scaler = amp.GradScaler(enabled=args.amp)
for x, y in loader:
    with amp.autocast(enabled=args.amp):
        out = model(x)
        loss = F.cross_entropy(out, y)
    «scaler.scale(loss).backward()|loss.backward()»
    if args.clip «> 0|»:
        «scaler.unscale_(opt)|»
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
    «scaler.step(opt)|opt.step()»
    scaler.update()
    opt.zero_grad(set_to_none=True)
'''

PROGRAMS["old names"] = """
import torch
from torch.cuda.amp import «autocast, GradScaler|GradScaler as Scaler, autocast as amp_on»

model = build_model()
optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
scaler = «GradScaler|torch.cuda.amp.GradScaler»(«|init_scale=2.0**12|1024.0»)

for epoch in range(10):
    for images, target in train_loader:
        images = images.cuda(non_blocking=True)
        with «autocast|torch.cuda.amp.autocast»(«|True|enabled=True, dtype=torch.float16»):
            output = model(images)
            loss = criterion(output, target)
            «scaler.scale(loss).backward()|loss = loss.mean()»
        «scaler.scale(loss).backward()|»
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""

PROGRAMS["accumulation by remainder"] = """
import torch
from torch.nn.utils import clip_grad_norm_

accumulate = 4
scaler = torch.amp.GradScaler("cuda")
optimizer.zero_grad()
for i, batch in enumerate(loader):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(**batch).loss «/ accumulate|»
    scaler.scale(loss).backward()
    «scaler.unscale_(optimizer)|»
    if (i + 1) % accumulate == 0 «or i + 1 == len(loader)|»:
        «scaler.unscale_(optimizer)|»
        clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""

PROGRAMS["accumulation with a counter"] = """
import torch

count = 0
scaler = torch.cuda.amp.GradScaler()
for batch in loader:
    count += 1
    do_step = count % steps == 0
    with torch.cuda.amp.autocast():
        loss = model(batch) / steps
    scaler.scale(loss).backward()
    if not do_step:
        continue
    if max_norm is not None:
        «scaler.unscale_(optimizer)|»
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimizer)
    «scaler.update()|»
    scheduler.step()
    optimizer.zero_grad()
    count = 0
"""

PROGRAMS["two optimizers of a GAN"] = """
import torch
from torch import autocast
from torch.amp import GradScaler

opt_g = torch.optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
scaler = GradScaler("cuda")
for real, _ in loader:
    # discriminator
    opt_d.zero_grad()
    with autocast("cuda"):
        fake = netG(torch.randn(len(real), 100, 1, 1, device="cuda"))
        loss_d = criterion(netD(real), 1.0) + criterion(netD(fake.detach()), 0.0)
    scaler.scale(loss_d).backward()
    «scaler.unscale_(opt_d)|scaler.unscale_(opt_g)|»
    torch.nn.utils.clip_grad_norm_(netD.parameters(), 10)
    scaler.step(opt_d)
    «scaler.update()|»

    # generator
    opt_g.zero_grad()
    with autocast("cuda"):
        loss_g = criterion(netD(fake), 1.0)
    scaler.scale(loss_g).backward()
    scaler.step(opt_g)
    scaler.update()
"""

PROGRAMS["two scalers"] = """
import torch
from torch.cuda.amp import GradScaler, autocast

scaler_a, scaler_b = GradScaler(), GradScaler()
for x in data:
    with autocast():
        loss_a = encoder(x).mean()
        loss_b = decoder(x).mean()
    scaler_a.scale(loss_a).backward(retain_graph=True)
    «scaler_b|scaler_a».scale(loss_b).backward()
    scaler_a.unscale_(opt_a)
    torch.nn.utils.clip_grad_value_(encoder.parameters(), 0.5)
    scaler_a.step(opt_a)
    scaler_b.step(opt_b)
    scaler_a.update()
    scaler_b.update()
"""

PROGRAMS["evaluation between epochs"] = """
import torch
from torch.amp import GradScaler, autocast


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    right = total = 0
    for x, y in loader:
        with autocast("cuda"):
            probs = torch.«softmax(model(x), dim=1)|log(torch.softmax(model(x), dim=-1))»
        right += (probs.argmax(1) == y).sum().item()
        total += len(y)
    return right / total


scaler = GradScaler("cuda")
best = 0
for epoch in range(epochs):
    model.train()
    for x, y in train_loader:
        optimizer.zero_grad()
        with autocast("cuda"):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    accuracy = evaluate(model, test_loader)
    if accuracy > best:
        best = accuracy
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "best.pt")
"""

PROGRAMS["resume"] = """
import os
import torch
from torch.amp import GradScaler, autocast

model = Net().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
scaler = GradScaler("cuda")
start = 0
if os.path.exists(path):
    checkpoint = torch.load(path, map_location="cpu")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    «scaler.load_state_dict(checkpoint["scaler"])|»
    start = checkpoint["epoch"] + 1
for epoch in range(start, epochs):
    for x, y in loader:
        with autocast("cuda", torch.float16):
            loss = model(x, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
    torch.save(
        {
            "epoch": epoch,
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            «"scaler": scaler.state_dict(),|»
        },
        path,
    )
"""

PROGRAMS["distributed"] = """
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

local_rank = int(os.environ["LOCAL_RANK"])
dist.init_process_group("nccl")
torch.cuda.set_device(local_rank)
model = DDP(Net().to(local_rank), device_ids=[local_rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * dist.get_world_size())
scaler = torch.«amp.GradScaler("cuda")|cuda.amp.GradScaler()»
for i, (x, y) in enumerate(loader):
    last = i % 8 == 7
    context = nullcontext() if last else model.no_sync()
    with context, torch.autocast("cuda"):
        loss = criterion(model(x.to(local_rank)), y.to(local_rank)) / 8
        «scaler.scale(loss).backward()|pass»
    «|scaler.scale(loss).backward()»
    if last:
        «scaler.unscale_(optimizer)|»
        norm = torch.nn.utils.clip_grad_norm_(model.module.parameters(), 1.0)
        if dist.get_rank() == 0:
            print(i, loss.item(), norm)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
dist.destroy_process_group()
"""

PROGRAMS["notebook exported as a script"] = """
#!/usr/bin/env python
# coding: utf-8

# # Training
# Some words about the data.

# In[1]:


get_ipython().run_line_magic('matplotlib', 'inline')
import torch
from torch import nn, optim
from torch.cuda.amp import autocast, GradScaler


# In[2]:


model = nn.Linear(4, 2).cuda()
optimizer = optim.Adam(model.parameters())
scaler = GradScaler()
model


# In[3]:


losses = []
for x, y in loader:
    optimizer.zero_grad()
    with autocast():
        loss = nn.functional.mse_loss(model(x), y)
        «scaler.scale(loss).backward()|»
    «|scaler.scale(loss).backward()»
    nn.utils.clip_grad_norm_(model.parameters(), 1.)
    scaler.step(optimizer)
    scaler.update()
    losses.append(loss.item())


# In[4]:


torch.softmax(model(x), 1).log()


# In[ ]:




"""

PROGRAMS["cells"] = """
# %% [markdown]
# # Fine-tuning
# %%
import torch, torch.nn as nn
from torch.amp import autocast, GradScaler
# %%
net = nn.TransformerEncoderLayer(64, 4)
net.norm = nn.LayerNorm(64, eps=«1e-12|1e-5»)
net = net.«cuda()|half().cuda()|cuda().half()»
opt = torch.optim.«SGD|Adam»(net.parameters(), lr=1e-4)
scaler = GradScaler()
# %%
for epoch in range(3):
    for batch in loader:
        with autocast('cuda', dtype=torch.«float16|bfloat16»):
            loss = net(batch).pow(2).mean()
        scaler.scale(loss).backward(); scaler.step(opt); scaler.update(); opt.zero_grad()
# %%
loss
"""

PROGRAMS["main guard"] = """
import sys
import torch


def main(argv=None) -> int:
    model, optimizer, loader = setup(argv)
    scaler = torch.amp.GradScaler("cuda", enabled=«True|not DEBUG|torch.cuda.is_available()»)
    for epoch in range(3):
        «scaler = torch.amp.GradScaler("cuda")|»
        for batch in loader:
            optimizer.zero_grad()
            with torch.amp.autocast("cuda", enabled=True):
                loss = model(batch)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    return 0


if __name__ == "__main__":
    sys.exit(main())
"""

PROGRAMS["imports with fallbacks"] = """
import torch
try:
    from torch.amp import GradScaler, autocast
except ImportError:
    from torch.cuda.amp import GradScaler, autocast
try:
    import wandb
except ImportError:
    wandb = None

scaler = GradScaler()
if wandb is not None:
    wandb.watch(model)
for batch in loader:
    with autocast(«device_type="cuda"|»):
        loss = model(batch)
    scaler.scale(loss).backward()
    norm = sum(p.grad.norm() for p in model.parameters())
    «wandb.log({"norm": norm})|print(norm)»
    scaler.step(optimizer)
    scaler.update()
"""

PROGRAMS["star imports"] = """
from torch import *
from torch.cuda.amp import *
from torch.nn.utils import *
from .utils import *

scaler = GradScaler()
for x in loader:
    with autocast():
        loss = model(x).sum()
    scaler.scale(loss).backward()
    clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""

PROGRAMS["scheduler and warm-up"] = """
import math
import torch
from torch.optim.lr_scheduler import LambdaLR, OneCycleLR


def lr_lambda(step):
    if step < 100:
        return step / 100
    return 0.5 * (1 + math.cos(math.pi * (step - 100) / 900))


scaler = torch.amp.GradScaler("cuda")
scheduler = «LambdaLR(optimizer, lr_lambda)|OneCycleLR(optimizer, 1e-3, total_steps=1000)»
for step, batch in zip(range(1000), loader):
    with torch.autocast("cuda"):
        loss = model(batch)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scale = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    if «scaler.get_scale() >= scale|True»:
        scheduler.step()
"""

PROGRAMS["guard against NaN"] = """
import math
import torch
from torch.cuda.amp import GradScaler, autocast

scaler = GradScaler()
skipped = 0
for x, y in loader:
    optimizer.zero_grad()
    with autocast():
        loss = criterion(model(x), y)
    if «not math.isfinite(loss.item())|torch.isnan(loss)|torch.isnan(loss).any()»:
        print("skipping", loss.item())
        skipped += 1
        «continue|break|raise SystemExit(1)»
    scaler.scale(loss).backward()
    «scaler.unscale_(optimizer)|»
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=«True|False»)
    if torch.isfinite(norm):
        scaler.step(optimizer)
        «|scaler.update()»
    «scaler.update()|»
"""

PROGRAMS["dtype by option"] = """
import torch

dtype = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[kind]
use_amp = dtype != torch.float32
ctx = torch.amp.autocast(device_type="cuda", dtype=«dtype|torch.bfloat16|torch.float16»)
scaler = torch.cuda.amp.GradScaler(enabled=(«kind == "float16"|use_amp|True»))
while True:
    for micro_step in range(8):
        with ctx:
            logits, loss = model(X, Y)
            loss = loss / 8
        X, Y = get_batch("train")
        scaler.scale(loss).backward()
    if grad_clip != 0.0:
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    iter_num += 1
    if iter_num > max_iters:
        break
"""

PROGRAMS["nullcontext"] = """
from contextlib import nullcontext
import torch

amp = torch.cuda.is_available()
context = torch.autocast("cuda", dtype=torch.float16) if amp else nullcontext()
scaler = torch.amp.GradScaler("cuda") if amp else None
for batch in loader:
    with context:
        loss = model(batch)
    if scaler «is not None|»:
        scaler.scale(loss).backward()
        «scaler.unscale_(optimizer)|»
    else:
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if scaler:
        scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()
    optimizer.zero_grad()
"""

PROGRAMS["progress bar"] = """
import torch
from tqdm import tqdm, trange
from torch.cuda.amp import autocast
from torch.cuda.amp import GradScaler

scaler = GradScaler()
with trange(10) as epochs:
    for epoch in epochs:
        bar = tqdm(enumerate(loader), total=len(loader), desc=f"epoch {epoch}")
        for i, (img, label) in bar:
            with autocast():
                pred = model(img)
                loss = bce(torch.sigmoid(pred), label)
            scaler.scale(loss).backward()
            scaler.step(optimizer), scaler.update()
            bar.set_postfix(loss=f"{loss.item():.3f}", lr=optimizer.param_groups[0]["lr"])
            del pred, loss
"""

PROGRAMS["closure of LBFGS"] = """
import torch

optimizer = torch.optim.LBFGS(model.parameters())
scaler = torch.amp.GradScaler("cuda")


def closure():
    optimizer.zero_grad()
    with torch.autocast("cuda"):
        loss = criterion(model(x), y)
    «scaler.scale(loss).backward()|loss.backward()»
    return loss


for x, y in loader:
    «optimizer.step(closure)|loss = closure()»
    scaler.step(optimizer)
    scaler.update()
"""

PROGRAMS["gradient penalty"] = """
import torch
from torch.amp import GradScaler, autocast

scaler = GradScaler("cuda")
for x, y in data:
    optimizer.zero_grad()
    with autocast("cuda", dtype=torch.float16):
        loss = loss_fn(model(x), y)
    scaled = torch.autograd.grad(scaler.scale(loss), model.parameters(), create_graph=True)
    inverse = 1.0 / scaler.get_scale()
    grads = [g * inverse for g in scaled]
    with autocast("cuda", dtype=torch.float16):
        penalty = sum(g.pow(2).sum() for g in grads).sqrt()
        loss = loss + penalty
    scaler.scale(loss).backward()
    «scaler.unscale_(optimizer)|»
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""

PROGRAMS["moving average"] = """
import copy
import torch

ema = copy.deepcopy(model).eval().«half()|requires_grad_(False)»
scaler = torch.amp.GradScaler("cuda")
for n, (x, y) in enumerate(loader):
    with torch.amp.autocast("cuda"):
        with torch.no_grad():
            soft = torch.softmax(ema(x), dim=-1)
        logits = model(x)
        log_p = torch.«log_softmax(logits, -1)|log(torch.softmax(logits, -1))»
        loss = -(soft * log_p).sum(-1).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    with torch.no_grad():
        for a, b in zip(ema.parameters(), model.parameters()):
            a.lerp_(b, 1 - min(0.999, (n + 1) / (n + 10)))
"""

PROGRAMS["private state"] = """
import torch
from torch.cuda.amp import GradScaler

scaler = GradScaler()
for i, batch in enumerate(loader):
    with torch.cuda.amp.autocast():
        loss = model(batch)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    if i % 100 == 0:
        print("scale", scaler.«_scale|_scale.item()|get_scale()|_growth_tracker»)
        if scaler.get_scale() < 1:
            scaler.«_scale.fill_(1.0)|update(1.0)»
"""

PROGRAMS["CPU or CUDA"] = """
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Model().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler(«device|device.type|"cuda"», enabled=device.type == "cuda")
for batch in loader:
    with torch.autocast(«device|device.type», «torch.float16|dtype=torch.float16|»):
        loss = model(batch.to(device))
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
if device.type == "cpu":
    with torch.cpu.amp.autocast(«|dtype=torch.bfloat16|True»):
        model(batch)
"""
