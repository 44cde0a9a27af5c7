"""Clean: a transformer with masks of -inf, tied embeddings, evaluation between the steps."""

import math

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(
            width, width
        )
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 32), nn.GELU())
        self.down = nn.Linear(32, width)

    def forward(self, x, mask):
        b, t, c = x.shape
        q, k, v = (
            part.view(b, t, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm(x)).chunk(3, -1)
        )
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(mask, float("-inf"))
        mixed = (scores.softmax(-1).to(v.dtype) @ v).transpose(1, 2).reshape(b, t, c)
        x = x + self.out(mixed)
        return x + self.down(self.mlp(x))


class Model(nn.Module):
    def __init__(self, words=20, width=16):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, 2) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.table.weight
        self.register_buffer("mask", torch.ones(12, 12, dtype=torch.bool).triu(1))

    def forward(self, tokens):
        x = self.table(tokens)
        for block in self.blocks:
            x = block(x, self.mask[: tokens.shape[1], : tokens.shape[1]])
        return self.head(self.norm(x))


@torch.no_grad()
def evaluate(model, tokens):
    model.eval()
    with torch.autocast("cpu", torch.float16):
        logits = model(tokens[:, :-1])
    model.train()
    return nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten()).item()


torch.manual_seed(6)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), 1e-3, betas=(0.9, 0.95))
scaler = torch.amp.GradScaler("cpu")
for step in range(8):
    tokens = torch.randint(0, 20, (4, 11))
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cpu", torch.float16):
        logits = model(tokens[:, :-1])
    loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    if step % 4 == 3:
        evaluate(model, tokens)
