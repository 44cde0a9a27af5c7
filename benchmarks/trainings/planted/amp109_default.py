"""AMP109: on a CPU autocast's default is bfloat16."""

import torch
from torch import nn


class Learner:
    def __init__(self, device):
        self.device = device
        self.net = nn.Linear(5, 5).to(device)
        self.opt = torch.optim.Adam(self.net.parameters())
        self.scaler = torch.amp.GradScaler(device, init_scale=1024.0)  # AMP109

    def fit(self, x):
        self.opt.zero_grad()
        with torch.autocast(self.device):
            loss = self.net(x).float().pow(2).mean()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()


torch.manual_seed(28)
learner = Learner("cpu")
for _ in range(4):
    learner.fit(torch.randn(3, 5))
