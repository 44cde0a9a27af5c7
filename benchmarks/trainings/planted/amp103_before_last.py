"""AMP103: gradients are unscaled after the first micro-batch, and the second one adds scaled ones."""

import torch
from torch import nn

torch.manual_seed(11)
model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
for step in range(8):
    with torch.autocast("cpu", torch.float16):
        out = model(torch.randn(4, 3))
    scaler.scale((out.float() - 1).square().mean() / 2).backward()
    if step % 2 == 0:
        scaler.unscale_(optimizer)  # AMP103
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    else:
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
