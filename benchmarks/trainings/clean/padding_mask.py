"""Clean: torch's own encoder with a padding mask, whose padded rows are left out of the loss."""

import torch
from torch import nn

torch.manual_seed(7)
layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True, norm_first=True)
encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
head = nn.Linear(16, 3)
parameters = [*encoder.parameters(), *head.parameters()]
optimizer = torch.optim.AdamW(parameters, 1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14)
for _ in range(5):
    x, lengths = torch.randn(4, 7, 16), torch.tensor([7, 3, 5, 1])
    padding = torch.arange(7)[None] >= lengths[:, None]
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        logits = head(encoder(x, src_key_padding_mask=padding))
    target = torch.randint(0, 3, (4, 7)).masked_fill(padding, -100)
    loss = nn.functional.cross_entropy(logits.float().transpose(1, 2), target)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
