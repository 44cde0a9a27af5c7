"""AMP201: a helper goes backward, and its caller is still in the region."""

import torch
from torch import nn

torch.manual_seed(42)
model = nn.Sequential(nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 1))
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)


def optimize(loss):
    optimizer.zero_grad()
    scaler.scale(loss).backward()  # AMP201


for _ in range(4):
    with torch.autocast("cpu", torch.float16):
        loss = (model(torch.randn(3, 5)).float() - 1).square().mean()
        optimize(loss)
    scaler.step(optimizer)
    scaler.update()
