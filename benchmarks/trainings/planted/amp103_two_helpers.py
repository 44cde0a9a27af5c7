"""AMP103: the logger and the clip unscale, each by itself."""

import torch
from torch import nn

torch.manual_seed(9)
model = nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=128.0)


def gradient_norm():
    scaler.unscale_(optimizer)
    return torch.stack([p.grad.norm() for p in model.parameters()]).norm()


def clip():
    scaler.unscale_(optimizer)  # AMP103
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)


for _ in range(3):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        out = model(torch.randn(8, 6))
    scaler.scale(out.float().square().mean()).backward()
    gradient_norm()
    try:
        clip()
    except RuntimeError as error:
        print("clip:", error)
    scaler.step(optimizer)
    scaler.update()
