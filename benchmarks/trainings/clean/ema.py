"""Clean: an average of the weights in float32, SWA, a schedule that asks whether a step was skipped."""

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn

torch.manual_seed(5)
model = nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 2))
ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999))
optimizer = torch.optim.SGD(model.parameters(), 1e-2, momentum=0.9, nesterov=True)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 12)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20)
batches = [(torch.randn(8, 6), torch.randint(0, 2, (8,))) for _ in range(12)]
for x, y in batches:
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        logits = model(x)
    scaler.scale(nn.functional.cross_entropy(logits.float(), y)).backward()
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    if scaler.get_scale() >= before:
        schedule.step()
        ema.update_parameters(model)
update_bn(batches, ema)
