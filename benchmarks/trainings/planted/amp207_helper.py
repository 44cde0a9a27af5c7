"""AMP207: a context manager makes autocast and does not enter it."""

import contextlib

import torch
from torch import nn


@contextlib.contextmanager
def mixed(dtype):
    torch.autocast("cpu", dtype)  # AMP207
    yield


torch.manual_seed(50)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
for _ in range(3):
    optimizer.zero_grad()
    with mixed(torch.float16):
        out = model(torch.randn(4, 4))
    scaler.scale(out.float().square().mean()).backward()
    scaler.step(optimizer)
    scaler.update()
