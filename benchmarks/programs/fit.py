"""Fits a small network with a scaler, a clip and accumulated gradients, and prints what became."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.first = nn.Linear(3, width)
        self.second = nn.Linear(width, 1)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def batches(count, size=5):
    for index in range(count):
        x = torch.arange(3.0 * size).reshape(size, 3) / 10 - index
        yield x, x.sum(1, keepdim=True)


def fit(net, optimizer, scaler, rounds=6, accumulate=2, limit=0.5):
    history = []
    for index, (x, y) in enumerate(batches(rounds)):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = net(x)
        loss = (out.float() - y).square().mean() / accumulate
        scaler.scale(loss).backward()
        if (index + 1) % accumulate == 0:
            scaler.unscale_(optimizer)
            norm = nn.utils.clip_grad_norm_(net.parameters(), limit)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            history.append((loss.item(), norm.item()))
    return history


def main():
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    print(fit(net, optimizer, scaler), scaler.get_scale())
    print([weight.tolist() for weight in net.parameters()])


main()
