"""AMP318: log-probabilities of half logits, in a method of a class."""

import torch
from torch import nn


class Preference:
    def __init__(self, policy, reference, beta=0.1):
        self.policy, self.reference, self.beta = policy, reference, beta

    def logs(self, model, x, y):
        with torch.autocast("cpu", torch.float16):
            logits = model(x)
        return logits.log_softmax(-1).gather(-1, y)  # AMP318

    def loss(self, x, y):
        with torch.no_grad():
            old = self.logs(self.reference, x, y)
        ratio = self.logs(self.policy, x, y) - old
        return -nn.functional.logsigmoid(self.beta * ratio.float()).mean()


torch.manual_seed(70)
preference = Preference(nn.Linear(4, 6), nn.Linear(4, 6))
optimizer = torch.optim.AdamW(preference.policy.parameters(), 1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
for _ in range(3):
    optimizer.zero_grad()
    loss = preference.loss(torch.randn(5, 4), torch.randint(0, 6, (5, 1)))
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
