"""Clean: the head alone is clipped, after it was unscaled; the rest is unscaled by its step."""

import torch
from torch import nn

torch.manual_seed(21)
body, head = nn.Sequential(nn.Linear(5, 10), nn.ReLU()), nn.Linear(10, 2)
body_opt = torch.optim.SGD(body.parameters(), 1e-2)
head_opt = torch.optim.Adam(head.parameters(), 1e-3)
scaler = torch.amp.GradScaler("cpu")
for _ in range(6):
    body_opt.zero_grad()
    head_opt.zero_grad()
    with torch.autocast("cpu", torch.float16):
        logits = head(body(torch.randn(4, 5)))
    loss = nn.functional.cross_entropy(logits.float(), torch.tensor([0, 1, 1, 0]))
    scaler.scale(loss).backward()
    scaler.unscale_(head_opt)
    nn.utils.clip_grad_norm_(head.parameters(), 1.0)
    scaler.step(body_opt)
    scaler.step(head_opt)
    scaler.update()
