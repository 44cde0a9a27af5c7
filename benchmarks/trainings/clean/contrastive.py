"""Clean: InfoNCE with a learned temperature, which is clamped, and losses in float32."""

import math

import torch
from torch import nn

torch.manual_seed(10)
image, text = nn.Linear(10, 8), nn.Linear(6, 8)
temperature = nn.Parameter(torch.tensor(math.log(1 / 0.07)))
optimizer = torch.optim.AdamW(
    [
        {"params": [*image.parameters(), *text.parameters()], "weight_decay": 0.1},
        {"params": [temperature], "weight_decay": 0.0},
    ],
    1e-3,
)
scaler = torch.amp.GradScaler("cpu")
for _ in range(8):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        a = nn.functional.normalize(image(torch.randn(6, 10)).float(), dim=-1)
        b = nn.functional.normalize(text(torch.randn(6, 6)).float(), dim=-1)
        logits = temperature.exp() * a @ b.t()
    labels = torch.arange(6)
    loss = nn.functional.cross_entropy(logits.float(), labels)
    loss = loss + nn.functional.cross_entropy(logits.float().t(), labels)
    scaler.scale(loss / 2).backward()
    scaler.step(optimizer)
    scaler.update()
    with torch.no_grad():
        temperature.clamp_(0, math.log(100))
