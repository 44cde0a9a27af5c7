"""Clean: gradients are looked at after unscale_; a hook clips activations' gradients by the scale."""

import torch
from torch import nn

torch.manual_seed(35)
model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 1))
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
history = []
for step in range(6):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        h = model[:2](torch.randn(4, 6))
        out = model[2](h)
    if step % 2:
        h.register_hook(lambda gradient: gradient.clamp(-scaler.get_scale(), scaler.get_scale()))
    scaler.scale((out.float() - 1).square().mean()).backward()
    scaler.unscale_(optimizer)
    history.append({n: p.grad.abs().max().item() for n, p in model.named_parameters()})
    if not all(torch.isfinite(p.grad).all() for p in model.parameters()):
        print("not finite, the scaler skips it")
    scaler.step(optimizer)
    scaler.update()
