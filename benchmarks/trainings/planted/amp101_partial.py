"""AMP101: the clip is a `partial` from a table, and accumulation comes before it."""

from functools import partial

import torch
from torch import nn
from torch.nn import utils

torch.manual_seed(3)
CLIPS = {
    "norm": partial(utils.clip_grad_norm_, max_norm=1.0),
    "value": partial(utils.clip_grad_value_, clip_value=0.1),
}
config = {"clip": "value", "accumulate": 3}
model = nn.Sequential(nn.Linear(6, 6), nn.SiLU(), nn.Linear(6, 1))
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2048.0)
for step in range(9):
    x = torch.randn(4, 6)
    with torch.autocast("cpu", torch.float16):
        out = model(x)
    loss = (out.float() - 1).pow(2).mean() / config["accumulate"]
    scaler.scale(loss).backward()
    if (step + 1) % config["accumulate"] == 0:
        CLIPS[config["clip"]](model.parameters())  # AMP101
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
