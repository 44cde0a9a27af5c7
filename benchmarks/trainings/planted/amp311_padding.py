"""AMP311: LayerNorm with the eps of BERT, and rows of padding."""

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.project = nn.Linear(width, width, bias=False)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        return self.out(self.norm(self.project(x)))  # AMP311


torch.manual_seed(58)
model = Encoder()
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=16.0)
for _ in range(4):
    x = torch.randn(4, 6, 8)
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        out = model(x)
    scaler.scale((out.float() - 1).square().mean()).backward()
    scaler.step(optimizer)
    scaler.update()
