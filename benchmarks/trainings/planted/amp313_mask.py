"""AMP313: an additive mask of -1e9 in float16, which makes NaN of what is masked twice."""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, 1)

    def forward(self, x, keep):
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = q @ k.transpose(-1, -2) / 8**0.5
        scores = scores + (1 - keep.to(scores.dtype))[:, None] * -1e9  # AMP313
        return self.out(scores.softmax(-1).to(v.dtype) @ v)


torch.manual_seed(61)
model = Attention()
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
keep = torch.ones(2, 5)
keep[:, 3:] = 0
for _ in range(3):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        out = model(torch.randn(2, 5, 8), keep)
    scaler.scale(out.float().square().mean()).backward()
    scaler.step(optimizer)
    scaler.update()
