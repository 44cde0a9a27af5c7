"""AMP101: `unscale_` depends on another flag than the clip does."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--clip", type=float, default=1.0)
parser.add_argument("--log-norm", action="store_true")
args = parser.parse_args([])

torch.manual_seed(4)
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 2))
opt = torch.optim.SGD(model.parameters(), 0.05)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)


def finish(loss):
    scaler.scale(loss).backward()
    if args.log_norm:
        scaler.unscale_(opt)
    if args.clip:
        nn.utils.clip_grad_norm_(model.parameters(), args.clip)  # AMP101
    scaler.step(opt)
    scaler.update()
    opt.zero_grad(set_to_none=True)


for _ in range(4):
    with torch.autocast("cpu", dtype=torch.float16):
        scores = model(torch.randn(3, 1, 8, 8))
    finish(nn.functional.cross_entropy(scores.float(), torch.tensor([0, 1, 1])))
