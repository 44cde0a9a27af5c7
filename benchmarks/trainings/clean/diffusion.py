"""Clean: denoising with sinusoidal embeddings of the time in float32, and an EMA by lerp_."""

import copy
import math

import torch
from torch import nn


def embed(time, width=8):
    rates = torch.exp(-math.log(10000) * torch.arange(width // 2) / (width // 2))
    angles = time[:, None].float() * rates
    return torch.cat([angles.sin(), angles.cos()], -1)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.time, self.first, self.last = nn.Linear(8, 16), nn.Linear(5, 16), nn.Linear(16, 5)

    def forward(self, x, t):
        return self.last(nn.functional.silu(self.first(x) + self.time(embed(t))))


torch.manual_seed(11)
model = Denoiser()
average = copy.deepcopy(model).requires_grad_(False)
alphas = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), 0)
optimizer = torch.optim.AdamW(model.parameters(), 2e-4)
scaler = torch.amp.GradScaler("cpu")
for _ in range(8):
    x, noise, t = torch.randn(6, 5), torch.randn(6, 5), torch.randint(0, 1000, (6,))
    a = alphas[t][:, None]
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        guess = model(a.sqrt() * x + (1 - a).sqrt() * noise, t)
    scaler.scale(nn.functional.mse_loss(guess.float(), noise)).backward()
    scaler.step(optimizer)
    scaler.update()
    for mean, parameter in zip(average.parameters(), model.parameters(), strict=True):
        mean.lerp_(parameter.detach(), 1e-3)
