"""AMP601: an angle whose derivative is inf where two vectors are the same."""

import torch
from torch import nn

torch.manual_seed(72)
model = nn.Linear(4, 4)
optimizer = torch.optim.Adam(model.parameters(), 1e-3)


def angle(a, b):
    cosine = nn.functional.cosine_similarity(a, b, dim=-1)
    return torch.acos(cosine.clamp(-1, 1))  # AMP601


for _ in range(3):
    x = torch.randn(6, 4)
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        out = model(x)
    vectors = torch.eye(4)[:1] * out.float().abs()[:, :1]
    angle(vectors, torch.eye(4)[:1]).mean().backward()
    optimizer.step()
