"""AMP209: two modules share one autocast object, one in the other."""

import torch
from torch import nn

REGION = torch.autocast("cpu", torch.bfloat16)


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        with REGION:  # AMP209
            return self.linear(x)


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.out = Inner(), nn.Linear(4, 1)

    def forward(self, x):
        with REGION:
            return self.out(self.inner(x))


torch.manual_seed(54)
model = Outer()
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
for _ in range(3):
    optimizer.zero_grad()
    loss = model(torch.randn(4, 4)).float().square().mean()
    loss.backward()  # too: AMP201
    optimizer.step()  # too: AMP202
