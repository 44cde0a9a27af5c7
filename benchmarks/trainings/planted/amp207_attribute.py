"""AMP207: a context that is kept and never entered."""

import torch
from torch import nn


class Runner:
    def __init__(self, dtype):
        self.context = torch.autocast("cpu", dtype)  # AMP207
        self.net = nn.Linear(4, 1)
        self.opt = torch.optim.SGD(self.net.parameters(), 1e-2)

    def step(self, x):
        self.opt.zero_grad()
        _ = self.context
        loss = self.net(x).float().square().mean()
        loss.backward()
        self.opt.step()


torch.manual_seed(51)
runner = Runner(torch.bfloat16)
for _ in range(3):
    runner.step(torch.randn(4, 4))
