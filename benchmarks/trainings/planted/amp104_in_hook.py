"""AMP104: optimizers step in hooks, while backward of a scaled loss runs."""

import torch
from torch import nn

torch.manual_seed(15)
model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 1))
optimizers = {p: torch.optim.SGD([p], 1e-5) for p in model.parameters()}
scaler = torch.amp.GradScaler("cpu", init_scale=128.0)


def step_at_once(parameter):
    optimizers[parameter].step()  # AMP104
    optimizers[parameter].zero_grad()


for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(step_at_once)
for _ in range(3):
    with torch.autocast("cpu", torch.float16):
        out = model(torch.randn(4, 6))
    scaler.scale(out.float().square().mean()).backward()
