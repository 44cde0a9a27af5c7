"""AMP106: update runs after each of two optimizers that share one backward."""

import torch
from torch import nn

torch.manual_seed(20)
body, head = nn.Linear(8, 8), nn.Linear(8, 2)
optimizers = [
    torch.optim.SGD(body.parameters(), 0.01, momentum=0.9),
    torch.optim.AdamW(head.parameters(), 1e-3),
]
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
for _ in range(5):
    for optimizer in optimizers:
        optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        logits = head(body(torch.randn(4, 8)).relu())
    loss = nn.functional.cross_entropy(logits.float(), torch.tensor([0, 1, 0, 1]))
    scaler.scale(loss).backward()
    for optimizer in optimizers:
        scaler.step(optimizer)
        scaler.update()  # AMP106
