"""AMP202: one region around all steps of an epoch, which a method makes."""

import torch
from torch import nn


class Fitter:
    def __init__(self):
        self.net = nn.Linear(4, 1)
        self.opt = torch.optim.SGD(self.net.parameters(), 1e-2)

    def one(self, x, y):
        loss = (self.net(x) - y).float().square().mean()
        self.opt.zero_grad()
        with torch.autocast("cpu", enabled=False):
            loss.backward()
        self.opt.step()  # AMP202

    def epoch(self, batches):
        with torch.autocast("cpu", torch.bfloat16):
            for x, y in batches:
                self.one(x, y)


torch.manual_seed(44)
fitter = Fitter()
for _ in range(2):
    fitter.epoch([(torch.randn(4, 4), torch.randn(4, 1)) for _ in range(3)])
