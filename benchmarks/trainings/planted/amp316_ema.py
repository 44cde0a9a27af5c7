"""AMP316: an average of the weights is kept in bfloat16 and does not move."""

import torch
from torch import nn


class Average:
    def __init__(self, model, decay=0.9999):
        self.decay = decay
        self.shadow = [p.detach().to(torch.bfloat16) for p in model.parameters()]

    @torch.no_grad()
    def update(self, model):
        for mean, parameter in zip(self.shadow, model.parameters(), strict=True):
            mean.mul_(self.decay).add_(parameter, alpha=1 - self.decay)  # AMP316


torch.manual_seed(65)
model = nn.Linear(16, 16)
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
average = Average(model)
for _ in range(8):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        out = model(torch.randn(4, 16))
    (out.float() - 1).square().mean().backward()
    optimizer.step()
    average.update(model)
