"""AMP206: the factory of a scaler gets a flag that is off, which becomes a scale of 0."""

import torch
from torch import nn


def make_scaler(*options):
    return torch.amp.GradScaler("cpu", *options)  # AMP206


torch.manual_seed(49)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
scaler = make_scaler(False)
for _ in range(3):
    optimizer.zero_grad()
    out = model(torch.randn(4, 4))
    scaler.scale(out.square().mean()).backward()
    scaler.step(optimizer)  # too: AMP601
    scaler.update()
