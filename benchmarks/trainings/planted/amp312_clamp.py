"""AMP312: a floor that is 0 in float16, in a module's buffer."""

import torch
from torch import nn


class Ratio(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(5, 3), nn.Linear(5, 3)
        self.floor = 1e-10

    def forward(self, x):
        below = self.down(x).abs().clamp(min=self.floor)  # AMP312
        return self.up(x) / below


torch.manual_seed(60)
model = Ratio()
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
for _ in range(3):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        out = model(torch.randn(4, 5))
    scaler.scale(out.float().square().mean()).backward()
    scaler.step(optimizer)
    scaler.update()
