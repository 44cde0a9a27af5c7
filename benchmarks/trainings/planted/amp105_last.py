"""AMP105: a step function for which somebody else was to call update."""

import torch
from torch import nn


class Engine:
    def __init__(self):
        self.net = nn.Linear(6, 2)
        self.optimizer = torch.optim.Adagrad(self.net.parameters(), 0.01)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=256.0)

    def train_batch(self, x):
        self.optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            out = self.net(x)
        self.scaler.scale(out.float().square().mean()).backward()
        self.scaler.step(self.optimizer)  # AMP105


torch.manual_seed(18)
engine = Engine()
for _ in range(2):
    engine.train_batch(torch.randn(4, 6))
