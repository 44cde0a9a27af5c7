"""AMP107: in the first epoch the loss goes backward as it is, and the scaler steps."""

import torch
from torch import nn

torch.manual_seed(23)
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
for epoch in range(2):
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            out = model(torch.randn(2, 4))
        loss = out.float().square().mean()
        if epoch == 0:
            loss.backward()  # AMP107
        else:
            scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
