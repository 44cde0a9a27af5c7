"""AMP105: batches that are not finite are left between unscale_ and update."""

import torch
from torch import nn

torch.manual_seed(17)
model = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40)
losses = []
for _ in range(4):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        out = model(torch.randn(5, 4) * 10)
    loss = (out * 8).float().square().mean()  # too: AMP603
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)  # AMP105
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if not torch.isfinite(norm):
        continue
    losses.append(loss.item())
    scaler.step(optimizer)
    scaler.update()
