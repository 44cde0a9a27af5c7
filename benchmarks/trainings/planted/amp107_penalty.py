"""AMP107: an L1 penalty has a backward of its own, in a helper."""

import torch
from torch import nn


def penalize(model, rate):
    penalty = rate * sum(p.abs().sum() for p in model.parameters())
    penalty.backward()  # AMP107


torch.manual_seed(22)
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.05)
scaler = torch.amp.GradScaler("cpu", init_scale=2048.0)
for _ in range(4):
    optimizer.zero_grad(set_to_none=False)
    with torch.autocast("cpu", torch.float16):
        out = model(torch.randn(3, 10))
    scaler.scale(out.float().logsumexp(1).mean()).backward()
    penalize(model, 1e-4)
    scaler.step(optimizer)
    scaler.update()
