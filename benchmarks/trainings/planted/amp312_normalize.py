"""AMP312: scores are divided by their maximum plus an eps that float16 does not have."""

import torch
from torch import nn


def normalize(x, eps=1e-8):
    return x / (x.abs().amax(-1, keepdim=True) + eps)  # AMP312


torch.manual_seed(59)
model, head = nn.Linear(6, 6), nn.Linear(6, 1)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], 1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
for _ in range(3):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        out = head(normalize(model(torch.randn(4, 6))))
    scaler.scale(out.float().square().mean()).backward()
    scaler.step(optimizer)
    scaler.update()
