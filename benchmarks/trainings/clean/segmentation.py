"""Clean: a small U-Net with a Dice loss, whose eps is added in float32."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU())
        self.deep = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(4, 8, 3, padding=1), nn.ReLU())
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.out = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        a = self.down(x)
        return self.out(torch.cat([a, self.up(self.deep(a))], 1))


def dice(logits, target, eps=1e-8):
    p = logits.float().sigmoid()
    return 1 - 2 * (p * target).sum() / (p.sum() + target.sum() + eps)


torch.manual_seed(32)
model = Net()
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
scaler = torch.amp.GradScaler("cpu")
for _ in range(5):
    x = torch.randn(2, 1, 8, 8)
    y = (x > 0.5).float()
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        logits = model(x)
    loss = dice(logits, y) + nn.functional.binary_cross_entropy_with_logits(logits.float(), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
