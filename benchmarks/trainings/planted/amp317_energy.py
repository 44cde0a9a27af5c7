"""AMP317: the energy of features as their squares, one inf among them, which clamp hides."""

import torch
from torch import nn

torch.manual_seed(68)
features, head = nn.Linear(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*features.parameters(), *head.parameters()], 1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)


def gate(h):
    with torch.no_grad():
        energy = torch.mul(h, h).sum(-1, keepdim=True)  # AMP317
    return h * (energy / (1 + energy)).nan_to_num(1.0)


for _ in range(4):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        y = head(gate(features(torch.randn(4, 4) * 1500)) / 1000)
    scaler.scale((y.float() - 1).square().mean()).backward()
    scaler.step(optimizer)
    scaler.update()
