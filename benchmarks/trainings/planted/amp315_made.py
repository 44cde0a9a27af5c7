"""AMP315: positions are made in the dtype of the features."""

import torch
from torch import nn


class Positions(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("rate", torch.logspace(0, -2, width))

    def forward(self, x):
        places = torch.arange(x.shape[1], dtype=x.dtype)  # AMP315
        return x + torch.sin(places[:, None] * self.rate).to(x.dtype)


torch.manual_seed(63)
embed, positions, out = nn.Linear(4, 8), Positions(8), nn.Linear(8, 1)
parameters = [*embed.parameters(), *out.parameters()]
optimizer = torch.optim.AdamW(parameters, 1e-3)
for _ in range(3):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        y = out(positions(embed(torch.randn(1, 400, 4))))
    y.float().square().mean().backward()
    optimizer.step()
