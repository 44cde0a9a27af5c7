"""AMP208: a decorated generator, whose body runs in float32."""

import torch
from torch import nn

torch.manual_seed(53)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-2)


@torch.autocast("cpu", torch.bfloat16)  # AMP208
def outputs(batches):
    for x in batches:
        yield model(x)


for out in outputs([torch.randn(4, 4) for _ in range(3)]):
    optimizer.zero_grad()
    out.float().square().mean().backward()
    optimizer.step()
