"""AMP101: one optimizer is unscaled, and the parameters of both are clipped."""

import itertools

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

torch.manual_seed(2)
encoder, head = nn.Linear(12, 12), nn.Linear(12, 3)
encoder_opt = torch.optim.SGD(encoder.parameters(), lr=1e-2)
head_opt = torch.optim.Adam(head.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
for _ in range(4):
    x, y = torch.randn(6, 12), torch.randint(0, 3, (6,))
    encoder_opt.zero_grad()
    head_opt.zero_grad()
    with torch.autocast("cpu", torch.float16):
        logits = head(encoder(x).relu())
    scaler.scale(nn.functional.cross_entropy(logits.float(), y)).backward()
    scaler.unscale_(head_opt)
    clip_grad_norm_(itertools.chain(encoder.parameters(), head.parameters()), 1.0)  # AMP101
    scaler.step(encoder_opt)
    scaler.step(head_opt)
    scaler.update()
