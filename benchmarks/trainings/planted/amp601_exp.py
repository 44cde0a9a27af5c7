"""AMP601: an exponential in float16 is inf from 11.1 on; a loop of classes and lists is around it."""

import torch
from torch import nn


class Flow(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale, self.shift = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        log_scale = self.scale(x)
        exponent = (log_scale * 40).float()
        return x * exponent.exp() + self.shift(x), exponent.sum(-1)  # AMP601


torch.manual_seed(73)
flows = nn.ModuleList(Flow(4) for _ in range(3))
optimizer = torch.optim.Adam(flows.parameters(), 1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
for _ in range(4):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        z, total = torch.randn(4, 4), 0.0
        for flow in flows:
            z, log_determinant = flow(z.clamp(-3, 3) * 4)
            total = total + log_determinant
    scaler.scale((z.float().square().sum(-1) / 2 - total).mean()).backward()
    scaler.step(optimizer)
    scaler.update()
