"""AMP603: the loss is float16, and its gradient cannot hold the scale."""

import torch
from torch import nn

torch.manual_seed(79)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
scaler = torch.amp.GradScaler("cpu")
for _ in range(4):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        loss = model(torch.randn(4, 8)).mean()
    scaler.scale(loss).backward()  # AMP603
    scaler.step(optimizer)
    scaler.update()
