"""Clean: a float32 island in a float16 region, and a norm that is computed there."""

import torch
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        with torch.autocast("cpu", enabled=False):
            h = x.float()
            h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-8)
            return (h * self.weight).to(x.dtype)


torch.manual_seed(37)
model = nn.Sequential(nn.Linear(5, 8), RMSNorm(8), nn.Linear(8, 2))
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
scaler = torch.amp.GradScaler("cpu")
for _ in range(6):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        logits = model(torch.randn(4, 5) * 1000)
        with torch.autocast("cpu", enabled=False):
            loss = nn.functional.cross_entropy(logits.float(), torch.tensor([1, 0, 1, 1]))
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
