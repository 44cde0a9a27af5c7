"""AMP107: several losses go backward by torch.autograd.backward, unscaled."""

import torch
from torch import nn

torch.manual_seed(24)
left, right = nn.Linear(5, 1), nn.Linear(5, 1)
optimizer = torch.optim.SGD([*left.parameters(), *right.parameters()], 0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=32.0)
for _ in range(3):
    x = torch.randn(4, 5)
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        a, b = left(x), right(x)
    losses = [a.float().square().mean(), (b.float() - 1).square().mean()]
    scaler.scale(losses)
    torch.autograd.backward(losses)  # AMP107
    scaler.step(optimizer)
    scaler.update()
