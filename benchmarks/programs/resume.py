"""Saves a run with its scaler, goes on from there, and prints how both runs end."""

import copy

import torch


def step(weight, optimizer, scaler, factor):
    loss = (weight * factor).square().sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    return loss.item()


def save(weight, optimizer, scaler, epoch):
    state = {
        "weight": weight.detach().clone(),
        "optimizer": optimizer.state_dict(),
        "scaler": scaler.state_dict(),
        "epoch": epoch,
    }
    return copy.deepcopy(state)


def load(state, weight, optimizer, scaler):
    with torch.no_grad():
        weight.copy_(state["weight"])
    optimizer.load_state_dict(state["optimizer"])
    scaler.load_state_dict(state["scaler"])
    return state["epoch"] + 1


def make():
    weight = torch.tensor([1.0, -2.0], requires_grad=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=2)
    return weight, torch.optim.Adam([weight], lr=0.05), scaler


def main():
    weight, optimizer, scaler = make()
    losses = [step(weight, optimizer, scaler, 1.0 + i / 4) for i in range(3)]
    state = save(weight, optimizer, scaler, 2)
    weight, optimizer, scaler = make()
    first = load(state, weight, optimizer, scaler)
    losses += [step(weight, optimizer, scaler, 1.0 + i / 4) for i in range(first, 6)]
    print(losses, weight.tolist(), scaler.get_scale())


main()
