"""AMP107: of two losses of a step one is not scaled."""

import torch
from torch import nn

torch.manual_seed(21)
trunk, main, auxiliary = nn.Linear(6, 12), nn.Linear(12, 3), nn.Linear(12, 1)
parameters = [*trunk.parameters(), *main.parameters(), *auxiliary.parameters()]
optimizer = torch.optim.AdamW(parameters, 1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
for _ in range(4):
    x = torch.randn(5, 6)
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        features = trunk(x).relu()
        logits, guess = main(features), auxiliary(features)
    loss = nn.functional.cross_entropy(logits.float(), torch.randint(0, 3, (5,)))
    scaler.scale(loss).backward(retain_graph=True)
    ((guess.float() - x.mean(1, keepdim=True)) ** 2).mean().backward()  # AMP107
    scaler.step(optimizer)
    scaler.update()
