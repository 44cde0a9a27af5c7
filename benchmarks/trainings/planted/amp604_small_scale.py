"""AMP604: a tiny loss weight and a scale that was set to 1."""

import torch
from torch import nn

torch.manual_seed(80)
model = nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
for _ in range(30):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        out = model(torch.rand(4, 8) / 10)  # AMP604
    scaler.scale((out.float() * 2e-8).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
