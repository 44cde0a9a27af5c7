"""AMP103: each micro-batch unscales, and the second one raises."""

import torch
from torch import nn


def train(model, batches, accumulate=2):
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for index, (x, y) in enumerate(batches):
        with torch.autocast("cpu", torch.float16):
            out = model(x)
        loss = nn.functional.mse_loss(out.float(), y) / accumulate
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)  # AMP103
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if index % accumulate == accumulate - 1:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()


torch.manual_seed(10)
train(nn.Linear(3, 1), [(torch.randn(4, 3), torch.randn(4, 1)) for _ in range(6)])
