"""AMP114: scalers in a table, and the wrong key for the step."""

import torch
from torch import nn

torch.manual_seed(39)
nets = {"policy": nn.Linear(4, 2), "value": nn.Linear(4, 1)}
optimizers = {name: torch.optim.Adam(net.parameters(), 1e-3) for name, net in nets.items()}
scalers = {name: torch.amp.GradScaler("cpu", init_scale=128.0) for name in nets}


def update(name, key, loss):
    optimizers[name].zero_grad()
    scalers[name].scale(loss).backward()
    scalers[key].step(optimizers[name])  # AMP114
    scalers[key].update()


for _ in range(3):
    x = torch.randn(5, 4)
    with torch.autocast("cpu", torch.float16):
        actions, values = nets["policy"](x), nets["value"](x)
    update("policy", "policy", -actions.float().log_softmax(-1)[:, 0].mean())
    update("value", "policy", values.float().square().mean())
