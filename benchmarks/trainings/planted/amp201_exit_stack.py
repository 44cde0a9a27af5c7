"""AMP201: an ExitStack is closed after backward."""

import contextlib

import torch
from torch import nn

torch.manual_seed(43)
model = nn.Linear(6, 2)
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
for _ in range(3):
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.autocast("cpu", torch.bfloat16))
        loss = nn.functional.cross_entropy(model(torch.randn(4, 6)), torch.tensor([0, 1, 1, 0]))
        loss.backward()  # AMP201
    optimizer.step()
    optimizer.zero_grad()
