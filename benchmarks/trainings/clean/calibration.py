"""Clean: a scaler that starts far too high; the steps that are skipped find the right scale."""

import torch
from torch import nn

torch.manual_seed(19)
model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1))
optimizer = torch.optim.SGD(model.parameters(), 1e-4)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**32, growth_interval=10)
for _ in range(40):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        out = model(torch.randn(4, 6))
    loss = (out.float() - 100).square().mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 10.0)
    scaler.step(optimizer)
    scaler.update()
