"""Clean: training in a thread, evaluation in the main one."""

import threading

import torch
from torch import nn

torch.manual_seed(33)
model = nn.Linear(5, 1)
done = threading.Event()


def train():
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
    for _ in range(8):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            out = model(torch.randn(4, 5))
        scaler.scale((out.float() - 1).square().mean()).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    done.set()


thread = threading.Thread(target=train)
thread.start()
thread.join()
with torch.no_grad():
    print(done.is_set(), model(torch.ones(1, 5)).shape)
