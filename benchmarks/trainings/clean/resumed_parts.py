"""Clean: the scaler is saved in a file of its own, and loaded before the optimizer."""

import io

import torch
from torch import nn

torch.manual_seed(24)


def parts():
    model = nn.Linear(3, 1)
    return model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), torch.amp.GradScaler("cpu")


def train(model, optimizer, scaler):
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            out = model(torch.randn(4, 3))
        scaler.scale(out.float().square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()


files = [io.BytesIO() for _ in range(3)]
for run in range(2):
    trained = parts()
    if run:
        for part, file in reversed(list(zip(trained, files, strict=True))):
            file.seek(0)
            part.load_state_dict(torch.load(file))
    train(*trained)
    for part, file in zip(trained, files, strict=True):
        file.seek(0)
        torch.save(part.state_dict(), file)
