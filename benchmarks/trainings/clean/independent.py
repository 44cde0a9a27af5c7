"""Clean: a second optimizer in float32 beside one that a scaler steps."""

import torch
from torch import nn

torch.manual_seed(30)
model, probe = nn.Linear(6, 6), nn.Linear(6, 2)
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
probe_optimizer = torch.optim.SGD(probe.parameters(), 1e-2)
scaler = torch.amp.GradScaler("cpu")
for _ in range(6):
    x = torch.randn(5, 6)
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        y = model(x)
    scaler.scale((y.float() - x).square().mean()).backward()
    scaler.step(optimizer)
    scaler.update()
    probe_optimizer.zero_grad()
    logits = probe(y.detach().float())
    nn.functional.cross_entropy(logits, torch.tensor([0, 1, 1, 0, 1])).backward()
    probe_optimizer.step()
