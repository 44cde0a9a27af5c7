"""AMP315: whole numbers in float32 are cast to bfloat16 before the angles are made."""

import torch
from torch import nn

torch.manual_seed(64)
COMPUTE = torch.bfloat16
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
frequencies = 10000 ** (-torch.arange(0, 8) / 8)


def angles(length):
    index = torch.arange(length).float()
    return torch.cos(index.to(COMPUTE)[:, None] * frequencies)  # AMP315


for _ in range(3):
    optimizer.zero_grad()
    with torch.autocast("cpu", COMPUTE):
        y = model(angles(600))
    (y.float() - 1).square().mean().backward()
    optimizer.step()
