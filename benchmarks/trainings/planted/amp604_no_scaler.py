"""AMP604: without a scaler, most of the gradient of a mean over many pixels is 0."""

import torch
from torch import nn

torch.manual_seed(81)
model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 1, 3, padding=1))
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for _ in range(30):
    x = torch.rand(1, 1, 64, 64)
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):  # too: AMP110
        y = model(x)
    loss = (y.float() * 1e-4 - x * 1e-4).square().mean()  # AMP604
    loss.backward()
    optimizer.step()
