"""Clean: a half copy of the weights is exported and used for inference while training goes on."""

import copy
import io

import torch
from torch import nn

torch.manual_seed(9)
model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
head = nn.Linear(4 * 36, 3)
net = nn.Sequential(model, head)
optimizer = torch.optim.SGD(net.parameters(), 1e-2, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)


def export(module):
    half = copy.deepcopy(module).eval().half()
    file = io.BytesIO()
    torch.save(half.state_dict(), file)
    with torch.inference_mode():
        half(torch.randn(1, 1, 6, 6).half())


for step in range(6):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        logits = net(torch.randn(4, 1, 6, 6))
    loss = nn.functional.cross_entropy(logits.float(), torch.randint(0, 3, (4,)))
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    if step % 3 == 2:
        export(net)
