"""AMP102: the largest gradient decides whether a step is logged as large."""

import torch
from torch import nn

torch.manual_seed(7)
model = nn.Conv1d(5, 7, 3)
head = nn.Linear(7, 1)
parameters = [*model.parameters(), *head.parameters()]
optimizer = torch.optim.Adam(parameters, 1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
large = 0
for _ in range(3):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        states = model(torch.randn(3, 5, 6)).tanh()
        out = head(states[..., -1])
    scaler.scale((out.float() - 1).pow(2).mean()).backward()
    peak = max(float(p.grad.abs().max()) for p in parameters)  # AMP102
    large += peak > 10
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
print(large, "large steps")
