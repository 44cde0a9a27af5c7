"""Clean: a batch whose loss is not finite is left out before any backward."""

import torch
from torch import nn

torch.manual_seed(28)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
batches = [torch.randn(3, 4) for _ in range(8)]
batches[3][0, 0] = float("nan")
skipped = 0
for x in batches:
    optimizer.zero_grad()
    if not torch.isfinite(x).all():
        skipped += 1
        continue
    with torch.autocast("cpu", torch.float16):
        out = model(x)
    scaler.scale((out.float() - 1).square().mean()).backward()
    scaler.step(optimizer)
    scaler.update()
