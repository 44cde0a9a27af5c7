"""AMP209: a decorated function that calls itself."""

import torch
from torch import nn

torch.manual_seed(55)
cell = nn.Linear(4, 4)
optimizer = torch.optim.SGD(cell.parameters(), 1e-2)


@torch.autocast("cpu", dtype=torch.bfloat16)  # AMP209
def fold(x, depth):
    if depth == 0:
        return cell(x)
    return cell(fold(x, depth - 1).relu())


for _ in range(3):
    optimizer.zero_grad()
    loss = fold(torch.randn(3, 4), 2).float().square().mean()
    loss.backward()  # too: AMP201
    optimizer.step()  # too: AMP202
