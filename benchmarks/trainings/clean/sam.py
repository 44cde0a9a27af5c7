"""Clean: SAM with a scaler: two backwards and an update for each half."""

import torch
from torch import nn

torch.manual_seed(39)
model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)


def backward(x, y):
    with torch.autocast("cpu", torch.float16):
        logits = model(x)
    scaler.scale(nn.functional.cross_entropy(logits.float(), y)).backward()
    scaler.unscale_(optimizer)


for _ in range(4):
    x, y = torch.randn(6, 6), torch.randint(0, 2, (6,))
    backward(x, y)
    with torch.no_grad():
        norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
        moves = [0.05 * p.grad / (norm + 1e-12) for p in model.parameters()]
        for p, move in zip(model.parameters(), moves, strict=True):
            p.add_(move)
    scaler.update()
    optimizer.zero_grad()
    backward(x, y)
    with torch.no_grad():
        for p, move in zip(model.parameters(), moves, strict=True):
            p.sub_(move)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
