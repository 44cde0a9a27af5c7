"""Clean: a frozen half backbone for features, adapters in float32 with layer-wise learning rates."""

import torch
from torch import nn


class Adapter(nn.Module):
    def __init__(self, base, rank=2):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


torch.manual_seed(20)
backbone = nn.Linear(6, 8).half().requires_grad_(False)
adapters = nn.ModuleList([Adapter(nn.Linear(8, 8)), Adapter(nn.Linear(8, 3))])
groups = [
    {"params": [p for p in layer.parameters() if p.requires_grad], "lr": 1e-3 * 2**depth}
    for depth, layer in enumerate(adapters)
]
optimizer = torch.optim.AdamW(groups)
scaler = torch.amp.GradScaler("cpu")
for _ in range(6):
    x, y = torch.randn(5, 6), torch.randint(0, 3, (5,))
    with torch.no_grad():
        features = backbone(x.half()).float()
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        logits = adapters[1](adapters[0](features).relu())
    scaler.scale(nn.functional.cross_entropy(logits.float(), y)).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_([p for p in adapters.parameters() if p.requires_grad], 1.0)
    scaler.step(optimizer)
    scaler.update()
