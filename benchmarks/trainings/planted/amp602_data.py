"""AMP602: one NaN in the data, in a method of a trainer."""

import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.net = nn.Linear(4, 1)
        self.opt = torch.optim.SGD(self.net.parameters(), 1e-2)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=32.0)

    def finish(self):
        self.scaler.step(self.opt)  # AMP602
        self.scaler.update()
        self.opt.zero_grad()

    def fit(self, x, y):
        with torch.autocast("cpu", torch.float16):
            out = self.net(x)
        loss = (out.float() - y).square().mean()
        self.scaler.scale(loss).backward()
        self.finish()


torch.manual_seed(76)
y = torch.randn(8, 1)
y[5] = float("nan")  # too: AMP601
trainer = Trainer()
for _ in range(10):
    trainer.fit(torch.randn(8, 4), y)
