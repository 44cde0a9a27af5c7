"""AMP602: a custom Function whose backward is inf whatever the scale is."""

import torch
from torch import nn


class Sharp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad / (x * 0)  # too: AMP601


torch.manual_seed(75)
model = nn.Linear(6, 2)
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**6)
for _ in range(12):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        out = model(torch.randn(4, 6))
    scaler.scale(Sharp.apply(out.float()).mean()).backward()
    scaler.step(optimizer)  # AMP602
    scaler.update()
