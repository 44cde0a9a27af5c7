"""Clean: clipped without unscale_, to a limit that is multiplied by the scale; norms are divided."""

import torch
from torch import nn

torch.manual_seed(22)
model = nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
for _ in range(5):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        out = model(torch.randn(4, 6))
    scaler.scale((out.float() - 1).square().mean()).backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0 * scaler.get_scale())
    print(f"{norm.item() / scaler.get_scale():.3f}")
    scaler.step(optimizer)
    scaler.update()
