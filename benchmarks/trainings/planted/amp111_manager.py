"""AMP111: a manager keeps the last checkpoints, and knows nothing of the scaler."""

import tempfile
from pathlib import Path

import torch
from torch import nn


class Checkpoints:
    def __init__(self, folder, **stateful):
        self.folder, self.stateful = Path(folder), stateful

    def save(self, step):
        state = {name: part.state_dict() for name, part in self.stateful.items()}
        torch.save({"step": step, **state}, self.folder / f"{step}.pt")  # AMP111


torch.manual_seed(32)
model = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
with tempfile.TemporaryDirectory() as folder:
    checkpoints = Checkpoints(folder, model=model, optimizer=optimizer)
    for step in range(6):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            out = model(torch.randn(3, 4))
        scaler.scale(out.float().square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()
        if step % 3 == 2:
            checkpoints.save(step)
