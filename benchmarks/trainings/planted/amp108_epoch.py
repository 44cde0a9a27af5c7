"""AMP108: each epoch makes a scaler of its own."""

import torch
from torch import nn


def train_epoch(model, optimizer, batches):
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14)  # AMP108
    for x in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            out = model(x)
        scaler.scale((out.float() - 1).square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()


torch.manual_seed(25)
model = nn.Linear(6, 1)
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for _ in range(4):
    train_epoch(model, optimizer, [torch.randn(4, 6) for _ in range(3)])
