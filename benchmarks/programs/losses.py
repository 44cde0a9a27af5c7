"""Computes losses that are written so that float16 bears them, and prints them."""

import torch
import torch.nn.functional as F

EPS = 1e-6
TEMPERATURE = 0.5


def entropy(logits):
    log_p = F.log_softmax(logits, dim=-1)
    return -(log_p.exp() * log_p).sum(-1).mean()


def contrast(query, keys, target):
    query = F.normalize(query, dim=-1)
    keys = F.normalize(keys, dim=-1)
    return F.cross_entropy(query @ keys.T / TEMPERATURE, target)


def masked(scores, mask):
    filled = scores.masked_fill(mask, torch.finfo(scores.dtype).min)
    return torch.softmax(filled, dim=-1)


def length(vector):
    return torch.sqrt((vector * vector).sum(-1) + EPS)


def main():
    generator = torch.Generator().manual_seed(1)
    a, b = (torch.randn(4, 4, generator=generator) for _ in range(2))
    mask = torch.arange(16).reshape(4, 4) % 3 == 0
    print(entropy(a).item(), contrast(a, b, torch.arange(4)).item())
    print(masked(a, mask).tolist(), length(a - b).tolist())
    print(F.binary_cross_entropy_with_logits(a, torch.sigmoid(b), reduction="sum").item())


main()
