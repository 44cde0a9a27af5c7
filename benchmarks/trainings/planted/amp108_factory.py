"""AMP108: a factory gives each fold of the loop the tools of AMP, and the optimizer stays."""

import contextlib
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Precision:
    dtype: torch.dtype | None = torch.float16

    def region(self):
        if self.dtype is None:
            return contextlib.nullcontext()
        return torch.autocast("cpu", self.dtype)

    def scaler(self):
        return torch.amp.GradScaler("cpu", init_scale=512.0)  # AMP108


torch.manual_seed(26)
precision = Precision()
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    region, scaler = precision.region(), precision.scaler()
    for _ in range(3):
        optimizer.zero_grad()
        with region:
            out = model(torch.randn(2, 4))
        scaler.scale(out.float().square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()
