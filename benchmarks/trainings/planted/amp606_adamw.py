"""AMP606: a bfloat16 model whose parameters AdamW moves by too little."""

import torch
from torch import nn

torch.manual_seed(84)
model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4)).to(torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, weight_decay=0.0)
for _ in range(30):
    optimizer.zero_grad()
    logits = model(torch.randn(8, 16, dtype=torch.bfloat16)).float()
    nn.functional.cross_entropy(logits, torch.randint(0, 4, (8,))).backward()
    optimizer.step()  # AMP606
