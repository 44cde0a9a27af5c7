"""AMP111: the best state is kept as a copy, and written at the end of each epoch."""

import copy
import io

import torch
from torch import nn


def snapshot(model, optimizer, scheduler):
    return copy.deepcopy(
        {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
        }
    )


torch.manual_seed(33)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-2, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
for _ in range(2):
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            out = model(torch.randn(3, 4))
        scaler.scale(out.float().square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()
    scheduler.step()
    best = snapshot(model, optimizer, scheduler)
    torch.save(best, io.BytesIO())  # AMP111
