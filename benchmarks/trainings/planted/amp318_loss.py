"""AMP318: cross entropy of bfloat16 logits after the region."""

import torch
from torch import nn

torch.manual_seed(69)
model = nn.Linear(6, 10)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
for _ in range(3):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(torch.randn(8, 6))
    loss = criterion(logits, torch.randint(0, 10, (8,)))  # AMP318
    loss.backward()
    optimizer.step()
