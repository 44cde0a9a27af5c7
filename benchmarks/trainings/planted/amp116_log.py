"""AMP116: the scaled loss is divided by the scale of the next step."""

import torch
from torch import nn

torch.manual_seed(40)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
for _ in range(6):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        out = model(torch.randn(4, 4))
    scaled = scaler.scale((out.float() - 1).square().mean())
    scaled.backward()
    scaler.step(optimizer)
    scaler.update()
    print(f"loss {scaled.item() / scaler.get_scale():.4f}")  # AMP116
