"""Clean: a custom Function with the casts of torch.amp."""

import torch
from torch import nn
from torch.amp import custom_bwd, custom_fwd


class Product(torch.autograd.Function):
    @staticmethod
    @custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad @ b.t(), a.t() @ grad


torch.manual_seed(18)
first, weight = nn.Linear(5, 6), nn.Parameter(torch.randn(6, 2))
optimizer = torch.optim.Adam([*first.parameters(), weight], 1e-3)
scaler = torch.amp.GradScaler("cpu")
for _ in range(6):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        out = Product.apply(first(torch.randn(4, 5)).relu(), weight)
    scaler.scale(nn.functional.cross_entropy(out.float(), torch.tensor([0, 1, 0, 1]))).backward()
    scaler.step(optimizer)
    scaler.update()
