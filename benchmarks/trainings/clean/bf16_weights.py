"""Clean: bfloat16 weights for the forward, which are copied from float32 ones that the optimizer has."""

import torch
from torch import nn

torch.manual_seed(38)
model = nn.Linear(6, 2).bfloat16()
masters = [nn.Parameter(p.detach().float()) for p in model.parameters()]
optimizer = torch.optim.AdamW(masters, 1e-4)
for _ in range(6):
    logits = model(torch.randn(4, 6).bfloat16()).float()
    nn.functional.cross_entropy(logits, torch.tensor([0, 1, 1, 0])).backward()
    for master, p in zip(masters, model.parameters(), strict=True):
        master.grad, p.grad = p.grad.float(), None
    nn.utils.clip_grad_norm_(masters, 1.0)
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        for master, p in zip(masters, model.parameters(), strict=True):
            p.copy_(master)
