"""Clean: bfloat16 regions without a scaler, OneCycleLR in each step, weights only are saved."""

import io

import torch
from torch import nn

torch.manual_seed(25)
model = nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 4))
optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=True)
cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=10)
for step in range(10):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        loss = nn.functional.cross_entropy(model(torch.randn(8, 8)), torch.randint(0, 4, (8,)))
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    cycle.step()
    torch.save({"step": step, "model": model.state_dict()}, io.BytesIO())
