"""Clean: no mixed precision anywhere; two optimizers, gradient norms, a checkpoint."""

import io

import torch
from torch import nn

torch.manual_seed(27)
model = nn.GRU(4, 6, batch_first=True)
head = nn.Linear(6, 1)
optimizers = [torch.optim.Adam(model.parameters()), torch.optim.SGD(head.parameters(), 1e-2)]
for _ in range(5):
    states, _ = model(torch.randn(3, 7, 4))
    loss = head(states).square().mean()
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    print(torch.stack([p.grad.norm() for p in model.parameters()]).norm().item())
    for optimizer in optimizers:
        optimizer.step()
    torch.save([optimizer.state_dict() for optimizer in optimizers], io.BytesIO())
