"""AMP110: a decorated forward, whose dtype is set for the whole process."""

import torch
from torch import nn

torch.set_autocast_dtype("cpu", torch.float16)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(6, 6)

    @torch.autocast("cpu")
    def forward(self, x):
        return self.inner(x)


def update(model, optimizer, x):
    optimizer.zero_grad()
    model(x).float().abs().mean().backward()  # AMP110
    optimizer.step()


torch.manual_seed(31)
model = Model()
sgd = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    update(model, sgd, torch.randn(2, 6))
