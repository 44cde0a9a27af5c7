"""AMP112: the warm-up goes on while the first steps are skipped."""

import torch
from torch import nn

torch.manual_seed(34)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, 1.0, total_iters=10)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24)
for _ in range(16):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        out = model(torch.randn(4, 4))
    scaler.scale((out.float() - 3).square().mean()).backward()
    scaler.step(optimizer)
    warmup.step()  # AMP112
    scaler.update()
