"""AMP603: a feature in nanoseconds is cast to inf by autocast."""

import torch
from torch import nn

torch.manual_seed(77)
model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
for _ in range(12):
    x = torch.cat([torch.randn(4, 2), torch.rand(4, 1) * 1e12 + 1e9], 1)
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        out = model(x)  # AMP603
    scaler.scale((out.float() - 1).square().mean()).backward()
    scaler.step(optimizer)  # too: AMP602
    scaler.update()
