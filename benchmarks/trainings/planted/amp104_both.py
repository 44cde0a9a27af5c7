"""AMP104: an old call of `step` was left after that of the scaler."""

import torch
from torch import nn


class Loop:
    def __init__(self, module, optimizer):
        self.module, self.optimizer = module, optimizer
        self.scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)

    def optimize(self, loss):
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.after_step()

    def after_step(self):
        self.optimizer.step()  # AMP104
        self.optimizer.zero_grad()


torch.manual_seed(13)
net = nn.Linear(7, 2)
loop = Loop(net, torch.optim.SGD(net.parameters(), 1e-3))
for _ in range(5):
    with torch.autocast("cpu", torch.float16):
        out = net(torch.randn(3, 7))
    loop.optimize(out.float().pow(2).sum(1).mean())
