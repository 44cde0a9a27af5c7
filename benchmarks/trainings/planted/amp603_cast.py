"""AMP603: a sum in float32 is cast back to the dtype of the features."""

import torch
from torch import nn


class Pool(nn.Module):
    def forward(self, x):
        total = x.float().sum(1)
        return total.to(x.dtype)  # AMP603


torch.manual_seed(78)
embed, pool, head = nn.Linear(4, 8), Pool(), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()], 1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
for _ in range(3):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        out = head(pool(embed(torch.full((2, 3000, 4), 80.0) + torch.randn(2, 3000, 4))))
    scaler.scale((out.float() - 1).abs().mean()).backward()
    scaler.step(optimizer)  # too: AMP602
    scaler.update()
