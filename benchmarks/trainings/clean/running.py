"""Clean: statistics in float32 of half features, whole numbers beyond 2048 as int64, a long arange."""

import torch
from torch import nn


class Codebook(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("counts", torch.zeros(4))
        self.register_buffer("codes", torch.randn(4, 6))

    def forward(self, x):
        index = torch.cdist(x.float(), self.codes).argmin(-1)
        if self.training:
            with torch.no_grad():
                self.counts.mul_(0.999).add_(torch.bincount(index, minlength=4), alpha=0.001)
        quantized = self.codes[index].to(x.dtype)
        return x + (quantized - x).detach()


torch.manual_seed(36)
encode, book, decode = nn.Linear(5, 6), Codebook(), nn.Linear(6, 5)
position = torch.arange(3000)
rates = torch.sin(position[:, None] / torch.tensor([1.0, 10.0, 100.0, 1000.0, 1e4]))
optimizer = torch.optim.Adam([*encode.parameters(), *decode.parameters()], 1e-3)
scaler = torch.amp.GradScaler("cpu")
for _ in range(5):
    x = rates[torch.randint(0, 3000, (8,))]
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        y = decode(book(encode(x)))
    scaler.scale((y.float() - x).square().mean()).backward()
    scaler.step(optimizer)
    scaler.update()
