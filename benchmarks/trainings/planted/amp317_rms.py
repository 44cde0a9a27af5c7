"""AMP317: a root mean square of large rows is inf in float16, and its output 0."""

import torch
from torch import nn


class Norm(nn.Module):
    def forward(self, x):
        mean = (x * x).mean(-1, keepdim=True)  # AMP317
        return x * torch.rsqrt(mean + 1e-6)


torch.manual_seed(67)
project, norm, out = nn.Linear(6, 8), Norm(), nn.Linear(8, 1)
parameters = [*project.parameters(), *out.parameters()]
optimizer = torch.optim.SGD(parameters, 1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
for _ in range(4):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        y = out(norm(project(torch.randn(4, 6) * 2000)))  # too: AMP601
    scaler.scale((y.float() - 1).square().mean()).backward()
    scaler.step(optimizer)  # too: AMP602
    scaler.update()
