"""AMP102: weight decay is added by hand to gradients that are still scaled."""

import torch
from torch import nn


class Decay:
    def __init__(self, rate):
        self.rate = rate

    @torch.no_grad()
    def apply(self, module):
        for name, parameter in module.named_parameters():
            if name.endswith("weight"):
                parameter.grad += self.rate * parameter  # AMP102


torch.manual_seed(8)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
opt = torch.optim.SGD(model.parameters(), 0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=8192.0)
decay = Decay(1e-2)
for _ in range(4):
    x = torch.randn(16, 4)
    opt.zero_grad()
    with torch.autocast("cpu", torch.float16):
        y = model(x)
    scaler.scale((y.float() - x).square().mean()).backward()
    decay.apply(model)
    scaler.step(opt)
    scaler.update()
