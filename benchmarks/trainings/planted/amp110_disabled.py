"""AMP110: the region follows one flag and the scaler another one, which is off."""

import torch
from torch import nn

FLAGS = {"amp": True, "use_scaler": False}

torch.manual_seed(30)
model = nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
scaler = torch.amp.GradScaler("cpu", enabled=FLAGS["use_scaler"])
for _ in range(3):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16, enabled=FLAGS["amp"]):  # AMP110
        out = model(torch.randn(4, 6))
    loss = out.float().square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
