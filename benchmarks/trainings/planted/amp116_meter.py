"""AMP116: a meter takes the scaled loss after the step has ended."""

import torch
from torch import nn


class Meter:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def add(self, value):
        self.total += float(value)
        self.count += 1


class Trainer:
    def __init__(self, net):
        self.net = net
        self.opt = torch.optim.SGD(net.parameters(), 1e-2)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=1)
        self.meter = Meter()

    def step(self, x):
        self.opt.zero_grad()
        with torch.autocast("cpu", torch.float16):
            out = self.net(x)
        loss = self.scaler.scale(out.float().square().mean())
        loss.backward()
        self.scaler.step(self.opt)
        self.scaler.update()
        self.meter.add(loss.detach() / self.scaler.get_scale())  # AMP116


torch.manual_seed(41)
trainer = Trainer(nn.Linear(3, 3))
for _ in range(4):
    trainer.step(torch.randn(4, 3))
