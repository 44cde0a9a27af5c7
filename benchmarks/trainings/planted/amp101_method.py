"""AMP101: a trainer clips in a method of its own."""

import torch
from torch import nn


class Trainer:
    def __init__(self, model, lr=1e-2):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

    def clip(self, limit=1.0):
        return nn.utils.clip_grad_norm_(self.model.parameters(), limit)  # AMP101

    def step(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.float16):
            logits = self.model(x)
        loss = nn.functional.cross_entropy(logits.float(), y)
        self.scaler.scale(loss).backward()
        self.clip()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.item()


torch.manual_seed(0)
trainer = Trainer(nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 5)))
for _ in range(6):
    trainer.step(torch.randn(8, 16), torch.randint(0, 5, (8,)))
