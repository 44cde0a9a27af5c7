"""AMP112: a callback steps OneCycleLR after each batch."""

import torch
from torch import nn


class Scheduling:
    def __init__(self, scheduler):
        self.scheduler = scheduler

    def after_batch(self):
        self.scheduler.step()  # AMP112


torch.manual_seed(35)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=20)
callback = Scheduling(cycle)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**22)
for _ in range(12):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        out = model(torch.randn(4, 4))
    scaler.scale((out.float() - 3).square().sum()).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    callback.after_batch()
    scaler.update()
