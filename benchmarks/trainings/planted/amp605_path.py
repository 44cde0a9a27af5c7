"""AMP605: a checkpoint on the disk, and a loop over what is to be restored."""

import tempfile
from pathlib import Path

import torch
from torch import nn

torch.manual_seed(83)


def build():
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1e-2, momentum=0.9)
    return {"model": model, "optim": optimizer, "amp": torch.amp.GradScaler("cpu", init_scale=8.0)}


def train(run, steps):
    for _ in range(steps):
        run["optim"].zero_grad()
        with torch.autocast("cpu", torch.float16):
            out = run["model"](torch.randn(3, 4))
        run["amp"].scale(out.float().square().mean()).backward()
        run["amp"].step(run["optim"])
        run["amp"].update()


with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "last.pt"
    run = build()
    train(run, 2)
    torch.save({name: part.state_dict() for name, part in run.items()}, path)
    run = build()
    saved = torch.load(path, weights_only=True)
    for name in ("model", "optim"):
        run[name].load_state_dict(saved[name])  # AMP605
    train(run, 2)
