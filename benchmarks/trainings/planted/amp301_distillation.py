"""AMP301: a distillation loss takes the logarithm of a softmax."""

import torch
from torch import nn


class Distill(nn.Module):
    def __init__(self, temperature=0.5):
        super().__init__()
        self.temperature = temperature

    def forward(self, student, teacher):
        target = torch.softmax(teacher.float() / self.temperature, -1)
        probabilities = nn.functional.softmax(student.float() / self.temperature, dim=-1)
        logs = probabilities.log()  # AMP301
        return -(target * logs).sum(-1).mean()


torch.manual_seed(56)
teacher, student = nn.Linear(6, 5), nn.Linear(6, 5)
optimizer = torch.optim.SGD(student.parameters(), 1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
criterion = Distill()
for _ in range(3):
    x = torch.randn(4, 6)
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        with torch.no_grad():
            wanted = teacher(x)
        out = student(x)
    scaler.scale(criterion(out, wanted)).backward()
    scaler.step(optimizer)
    scaler.update()
