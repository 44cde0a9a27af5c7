"""AMP316: running statistics in float16, by lerp_ with a small weight."""

import torch
from torch import nn


class Running(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("mean", torch.ones(width, dtype=torch.float16))

    def forward(self, x):
        with torch.no_grad():
            self.mean.lerp_(x.mean(0).to(self.mean.dtype), 1e-5)  # AMP316
        return x - self.mean


torch.manual_seed(66)
first, norm, last = nn.Linear(6, 8), Running(8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*first.parameters(), *last.parameters()], 1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
for _ in range(6):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        out = last(norm(first(torch.randn(4, 6))))
    scaler.scale((out.float() - 1).square().mean()).backward()
    scaler.step(optimizer)
    scaler.update()
