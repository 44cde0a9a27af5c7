"""Clean: the gradient penalty of PyTorch's AMP examples: grad of a scaled loss, divided by hand."""

import torch
from torch import nn

torch.manual_seed(3)
model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for _ in range(6):
    x, y = torch.randn(5, 6), torch.randn(5, 1)
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        out = model(x)
        loss = nn.functional.mse_loss(out.float(), y)
    gradients = torch.autograd.grad(
        outputs=scaler.scale(loss), inputs=model.parameters(), create_graph=True
    )
    inverse = 1.0 / scaler.get_scale()
    gradients = [gradient * inverse for gradient in gradients]
    with torch.autocast("cpu", torch.float16):
        norm = 0
        for gradient in gradients:
            norm = norm + gradient.pow(2).sum()
        loss = loss + norm.sqrt()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
