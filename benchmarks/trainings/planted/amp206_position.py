"""AMP206: a flag lands in init_scale, which becomes 1."""

import torch
from torch import nn

USE_AMP = True

torch.manual_seed(48)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
scaler = torch.amp.GradScaler("cpu", USE_AMP)  # AMP206
for _ in range(3):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16, USE_AMP):
        out = model(torch.randn(4, 4))
    scaler.scale(out.float().square().mean()).backward()
    scaler.step(optimizer)
    scaler.update()
