"""AMP110: float16 regions, and no scaler at all."""

import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 4))

    def loss(self, x, y):
        with torch.autocast("cpu", torch.float16):  # AMP110
            logits = self.layers(x)
        return nn.functional.cross_entropy(logits.float(), y)


torch.manual_seed(29)
model = Classifier()
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
for _ in range(4):
    optimizer.zero_grad()
    loss = model.loss(torch.randn(8, 10), torch.randint(0, 4, (8,)))
    loss.backward()
    optimizer.step()
