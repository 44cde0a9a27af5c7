"""Clean: state of all parts is saved and loaded, and the training goes on."""

import tempfile
from pathlib import Path

import torch
from torch import nn


class Training:
    def __init__(self):
        self.model = nn.Linear(4, 1)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-3)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 2)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)

    def parts(self):
        names = ("model", "optimizer", "schedule", "scaler")
        return {name: getattr(self, name) for name in names}

    def save(self, path):
        torch.save({name: part.state_dict() for name, part in self.parts().items()}, path)

    def load(self, path):
        saved = torch.load(path, weights_only=True)
        for name, part in self.parts().items():
            part.load_state_dict(saved[name])

    def epoch(self):
        for _ in range(3):
            self.optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                out = self.model(torch.randn(4, 4))
            self.scaler.scale(out.float().square().mean()).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
        self.schedule.step()


torch.manual_seed(23)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "state.pt"
    training = Training()
    training.epoch()
    training.save(path)
    training = Training()
    training.load(path)
    training.epoch()
