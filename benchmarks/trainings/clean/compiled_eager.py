"""Clean: torch.compile with the backend "eager"."""

import torch
from torch import nn

torch.manual_seed(15)
model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1))
compiled = torch.compile(model, backend="eager")
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
scaler = torch.amp.GradScaler("cpu")
for _ in range(6):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        out = compiled(torch.randn(4, 6))
    scaler.scale((out.float() - 1).square().mean()).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
