"""AMP113: the norm is taken by get_total_norm, which raises at inf."""

import torch
from torch import nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

torch.manual_seed(37)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**30)
for _ in range(3):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        out = model(torch.randn(4, 4))
    scaler.scale(out.float().square().mean()).backward()  # too: AMP603
    scaler.unscale_(optimizer)
    gradients = [p.grad for p in model.parameters()]
    norm = get_total_norm(gradients, error_if_nonfinite=True)  # AMP113
    clip_grads_with_norm_(model.parameters(), 1.0, norm)
    scaler.step(optimizer)
    scaler.update()
