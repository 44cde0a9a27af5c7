"""AMP104: LBFGS takes a closure whose loss is scaled."""

import torch
from torch import nn

torch.manual_seed(14)
model = nn.Linear(5, 1)
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
scaler = torch.amp.GradScaler("cpu", init_scale=16.0)
x, y = torch.randn(10, 5), torch.randn(10, 1)


def closure():
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        out = model(x)
    loss = nn.functional.mse_loss(out.float(), y)
    scaler.scale(loss).backward()
    return loss


for _ in range(3):
    optimizer.step(closure)  # AMP104
