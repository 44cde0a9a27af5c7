"""AMP313: a constant tensor that float16 does not hold is written by where."""

import torch
from torch import nn

torch.manual_seed(62)
NEGATIVE = torch.tensor(-1e30)
scorer = nn.Linear(6, 4)
optimizer = torch.optim.SGD(scorer.parameters(), 1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=32.0)
allowed = torch.tensor([True, True, False, True])
for _ in range(3):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        scores = scorer(torch.randn(3, 6))
        scores = torch.where(allowed, scores, NEGATIVE)  # AMP313
    loss = nn.functional.cross_entropy(scores.float(), torch.tensor([0, 1, 3]))
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
