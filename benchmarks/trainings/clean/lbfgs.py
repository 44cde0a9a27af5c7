"""Clean: LBFGS in bfloat16, without a scaler."""

import torch
from torch import nn

torch.manual_seed(4)
model = nn.Linear(5, 1)
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.2, max_iter=4)
x, y = torch.randn(12, 5), torch.randn(12, 1)


def closure():
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        out = model(x)
    loss = nn.functional.mse_loss(out.float(), y)
    loss.backward()
    return loss


for _ in range(4):
    optimizer.step(closure)
