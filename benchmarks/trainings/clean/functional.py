"""Clean: torch.func: gradients per sample, their norms, and a training by functional_call."""

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

torch.manual_seed(17)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)


def loss_of(parameters, x, y):
    out = functional_call(model, parameters, (x,))
    return (out.float() - y).square().mean()


for _ in range(5):
    x, y = torch.randn(6, 4), torch.randn(6, 1)
    parameters = dict(model.named_parameters())
    detached = {name: p.detach() for name, p in parameters.items()}
    per_sample = vmap(grad(loss_of), (None, 0, 0))(detached, x, y)
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in per_sample.values()]).norm(dim=0)
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        loss = loss_of(parameters, x, y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
