"""Clean: torch.compile with AOTAutograd, the region inside of what is compiled."""

import torch
from torch import nn

torch.manual_seed(16)
model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
scaler = torch.amp.GradScaler("cpu")


@torch.compile(backend="aot_eager")
def loss_of(x):
    with torch.autocast("cpu", torch.float16):
        out = model(x)
    return (out.float() - 1).square().mean()


for _ in range(6):
    optimizer.zero_grad()
    loss = loss_of(torch.randn(4, 6))
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
