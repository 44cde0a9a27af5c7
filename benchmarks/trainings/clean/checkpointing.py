"""Clean: activation checkpointing, both ways."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

torch.manual_seed(8)
first = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 8))
second = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
parameters = [*first.parameters(), *second.parameters()]
optimizer = torch.optim.Adam(parameters, 1e-3)
scaler = torch.amp.GradScaler("cpu")
for step in range(6):
    x = torch.randn(4, 8, requires_grad=True)
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        h = checkpoint(first, x, use_reentrant=bool(step % 2))
        out = checkpoint_sequential(second, 2, h, use_reentrant=False)
    scaler.scale((out.float() - 1).square().mean()).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_value_(parameters, 1.0)
    scaler.step(optimizer)
    scaler.update()
