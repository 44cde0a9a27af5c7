"""Clean: two losses of shared layers, each with a backward, both scaled."""

import torch
from torch import nn

torch.manual_seed(29)
trunk, left, right = nn.Linear(6, 8), nn.Linear(8, 2), nn.Linear(8, 1)
optimizer = torch.optim.AdamW(
    [*trunk.parameters(), *left.parameters(), *right.parameters()], 1e-3, foreach=True
)
scaler = torch.amp.GradScaler("cpu")
for _ in range(6):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        h = trunk(torch.randn(4, 6)).relu()
        logits, value = left(h), right(h)
    scaler.scale(nn.functional.cross_entropy(logits.float(), torch.tensor([0, 1, 0, 1]))).backward(
        retain_graph=True
    )
    scaler.scale(value.float().square().mean()).backward()
    scaler.step(optimizer)
    scaler.update()
