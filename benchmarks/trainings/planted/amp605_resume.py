"""AMP605: a class resumes the model, the optimizer and the schedule, not the scaler."""

import io

import torch
from torch import nn


class Job:
    def __init__(self):
        self.model = nn.Linear(4, 1)
        self.optimizer = torch.optim.Adam(self.model.parameters(), 1e-3)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)

    def resume(self, file):
        state = torch.load(file)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])  # AMP605

    def save(self, file):
        names = ("model", "optimizer", "scaler")
        torch.save({name: getattr(self, name).state_dict() for name in names}, file)

    def train(self, steps):
        for _ in range(steps):
            self.optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                out = self.model(torch.randn(4, 4))
            self.scaler.scale(out.float().square().mean()).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()


torch.manual_seed(82)
first = Job()
first.train(3)
file = io.BytesIO()
first.save(file)
file.seek(0)
second = Job()
second.resume(file)
second.train(3)
