"""Clean: AMP is a flag that is off; scaler and regions stay in the code."""

import torch
from torch import nn

torch.manual_seed(26)
USE_AMP = False
model = nn.Sequential(nn.Linear(5, 9), nn.ReLU(), nn.Linear(9, 1))
optimizer = torch.optim.SGD(model.parameters(), 1e-2, foreach=True)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.9**step)
scaler = torch.amp.GradScaler("cpu", enabled=USE_AMP)
for _ in range(6):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16, enabled=USE_AMP):
        loss = (model(torch.randn(4, 5)) - 1).square().mean()
    scaler.scale(loss).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
    scaler.step(optimizer)
    scaler.update()
    schedule.step()
