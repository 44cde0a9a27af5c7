"""AMP106: update is called in a callback that runs before the step."""

import torch
from torch import nn

torch.manual_seed(19)
model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)


class Schedule:
    def on_gradients(self):
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.update()  # AMP106


schedule = Schedule()
for _ in range(4):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        out = model(torch.randn(6, 4))
    scaler.scale((out.float() - 1).square().mean()).backward()
    schedule.on_gradients()
    scaler.step(optimizer)
    scaler.update()
