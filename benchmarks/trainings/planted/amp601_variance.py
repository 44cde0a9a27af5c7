"""AMP601: the variance of one element is 0 / 0."""

import torch
from torch import nn

torch.manual_seed(74)
model = nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
for size in (*[4] * 20, 1, *[4] * 5):
    x = torch.randn(size, 5)
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        reward = model(x)
    advantage = (reward.float() - reward.float().mean()) / reward.float().std()  # AMP601
    advantage.square().mean().backward()
    optimizer.step()
