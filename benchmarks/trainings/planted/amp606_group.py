"""AMP606: only the embedding is kept in bfloat16, in a group of its own."""

import torch
from torch import nn


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(12, 16, dtype=torch.bfloat16)
        self.out = nn.Linear(16, 12)

    def forward(self, tokens):
        return self.out(self.table(tokens).float().mean(1))


torch.manual_seed(85)
model = Words()
groups = [
    {"params": model.table.parameters(), "lr": 1e-4},
    {"params": model.out.parameters(), "lr": 1e-2},
]
optimizer = torch.optim.SGD(groups)
for _ in range(30):
    optimizer.zero_grad()
    tokens = torch.randint(0, 12, (6, 5))
    nn.functional.cross_entropy(model(tokens), tokens[:, 0]).backward()
    optimizer.step()  # AMP606
