"""AMP208: a generator yields inside its region, which then holds for the loop."""

import torch
from torch import nn

torch.manual_seed(52)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-2)


def losses(batches):
    for x in batches:
        with torch.autocast("cpu", torch.bfloat16):
            yield model(x).float().square().mean()  # AMP208


for loss in losses([torch.randn(4, 4) for _ in range(3)]):
    optimizer.zero_grad()
    loss.backward()  # too: AMP201
    optimizer.step()
