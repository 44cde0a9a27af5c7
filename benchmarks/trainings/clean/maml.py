"""Clean: an inner loop by autograd.grad in float32, an outer one with a scaler."""

import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(34)
model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)


def loss_of(parameters, x, y):
    return (functional_call(model, parameters, (x,)).float() - y).square().mean()


for _ in range(4):
    x, y = torch.randn(6, 2), torch.randn(6, 1)
    weights = dict(model.named_parameters())
    inner = loss_of(weights, x[:3], y[:3])
    gradients = torch.autograd.grad(inner, list(weights.values()), create_graph=True)
    adapted = {
        name: w - 0.01 * g for (name, w), g in zip(weights.items(), gradients, strict=True)
    }
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        outer = loss_of(adapted, x[3:], y[3:])
    scaler.scale(outer).backward()
    scaler.step(optimizer)
    scaler.update()
