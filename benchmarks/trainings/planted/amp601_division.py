"""AMP601: a mean over the words of an empty sentence divides 0 by 0."""

import torch
from torch import nn


def pool(h, keep):
    return (h * keep[..., None]).sum(1) / keep.sum(1, keepdim=True)  # AMP601


torch.manual_seed(71)
embed, head = nn.Linear(5, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()], 1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
keep = torch.ones(3, 4)
keep[1] = 0
for _ in range(3):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        out = head(pool(embed(torch.randn(3, 4, 5)).float(), keep))
    scaler.scale(out.float().square().mean()).backward()
    scaler.step(optimizer)
    scaler.update()
