"""AMP102: a logger takes the norm of each layer before the gradients are unscaled."""

import torch
from torch import nn


class GradientLogger:
    def __init__(self, model):
        self.model, self.rows = model, []

    def __call__(self):
        norms = [p.grad.norm() for p in self.model.parameters() if p.grad is not None]
        self.rows.append(torch.stack(norms).norm().item())


torch.manual_seed(5)
net = nn.Sequential(nn.Linear(9, 9), nn.ReLU(), nn.Linear(9, 1))
optimizer = torch.optim.Adam(net.parameters(), 1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
logger = GradientLogger(net)
for _ in range(4):
    x = torch.randn(5, 9)
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        y = net(x)
    scaler.scale((y.float() - 2).abs().mean()).backward()
    logger()  # AMP102
    scaler.step(optimizer)
    scaler.update()
print(logger.rows[-1])
