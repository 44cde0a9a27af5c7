"""AMP203: the model is cast as a whole, by a helper."""

import torch
from torch import nn


def prepare(module, precision):
    return module.half() if precision == 16 else module


torch.manual_seed(46)
model = prepare(nn.Sequential(nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 1)), 16)
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
for _ in range(4):
    optimizer.zero_grad()
    loss = model(torch.randn(4, 5).half()).float().square().mean()
    loss.backward()
    optimizer.step()  # AMP203
