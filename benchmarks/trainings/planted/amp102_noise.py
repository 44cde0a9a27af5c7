"""AMP102: noise of a fixed size is added to gradients that are still scaled."""

import torch
from torch import nn

torch.manual_seed(6)
model = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)


@torch.no_grad()
def add_noise(parameters, std=1e-3):
    for parameter in parameters:
        parameter.grad.add_(torch.randn_like(parameter) * std)  # AMP102


for _ in range(4):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        out = model(torch.randn(4, 8))
    scaler.scale(out.float().logsumexp(-1).mean()).backward()
    add_noise(model.parameters())
    scaler.step(optimizer)
    scaler.update()
