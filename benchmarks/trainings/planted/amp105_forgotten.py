"""AMP105: the scaler is never updated; the second step raises."""

import torch
from torch import nn

torch.manual_seed(16)
model = nn.Linear(3, 3)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
try:
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            out = model(torch.randn(2, 3))
        scaler.scale(out.float().square().mean()).backward()
        scaler.step(optimizer)  # AMP105
except RuntimeError as error:
    print("stopped:", error)
