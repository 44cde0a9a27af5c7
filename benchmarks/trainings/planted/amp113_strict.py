"""AMP113: a clip that raises at what the scaler would skip."""

import torch
from torch import nn


def clip(parameters, limit, strict):
    return nn.utils.clip_grad_norm_(parameters, limit, error_if_nonfinite=strict)  # AMP113


torch.manual_seed(36)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
for _ in range(3):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        out = model(torch.randn(4, 4))
    scaler.scale(out.float().square().mean()).backward()
    scaler.unscale_(optimizer)
    clip(model.parameters(), 1.0, strict=True)
    scaler.step(optimizer)
    scaler.update()
