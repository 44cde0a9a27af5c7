"""AMP203: only the head is in float16, by a dtype of the configuration."""

import torch
from torch import nn

CONFIG = {"head_dtype": "float16"}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 6)
        self.head = nn.Linear(6, 2).to(getattr(torch, CONFIG["head_dtype"]))

    def forward(self, x):
        return self.head(self.body(x).relu().to(self.head.weight.dtype))


torch.manual_seed(47)
net = Net()
groups = [{"params": net.body.parameters()}, {"params": net.head.parameters(), "lr": 1e-1}]
optimizer = torch.optim.SGD(groups, 1e-2, momentum=0.9)
for _ in range(4):
    optimizer.zero_grad()
    logits = net(torch.randn(4, 4)).float()
    nn.functional.cross_entropy(logits, torch.tensor([0, 1, 1, 0])).backward()
    optimizer.step()  # AMP203
