"""AMP109: the dtype of the region comes from a table, the scaler stays enabled."""

import torch
from torch import nn

CONFIG = {"precision": "bf16", "lr": 1e-2}
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}

torch.manual_seed(27)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), CONFIG["lr"])
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)  # AMP109
for _ in range(4):
    optimizer.zero_grad()
    with torch.autocast("cpu", DTYPES[CONFIG["precision"]]):
        out = model(torch.randn(4, 8))
    scaler.scale(out.float().square().mean()).backward()
    scaler.step(optimizer)
    scaler.update()
