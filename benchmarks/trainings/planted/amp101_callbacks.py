"""AMP101: one of the callbacks of a loop clips."""

import torch
from torch import nn

torch.manual_seed(1)
model = nn.Sequential(nn.Linear(10, 20), nn.Tanh(), nn.Linear(20, 1))
opt = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
hooks = {"after_backward": [], "after_step": []}


def on(event):
    def register(function):
        hooks[event].append(function)
        return function

    return register


@on("after_backward")
def limit_gradients(net):
    torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)  # AMP101


@on("after_step")
def log(net):
    sum(p.detach().sum() for p in net.parameters())


for _ in range(5):
    x = torch.randn(4, 10)
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = (model(x).float() - x.sum(1, keepdim=True)).square().mean()
    scaler.scale(loss).backward()
    for hook in hooks["after_backward"]:
        hook(model)
    scaler.step(opt)
    scaler.update()
    for hook in hooks["after_step"]:
        hook(model)
