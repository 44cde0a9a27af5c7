"""Clean: a GAN with one scaler, an update after both steps."""

import torch
from torch import nn

torch.manual_seed(1)
generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 6))
critic = nn.Sequential(nn.Linear(6, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
g_opt = torch.optim.Adam(generator.parameters(), 1e-3, betas=(0.5, 0.9))
d_opt = torch.optim.Adam(critic.parameters(), 1e-3, betas=(0.5, 0.9))
scaler = torch.amp.GradScaler("cpu")
bce = nn.functional.binary_cross_entropy_with_logits
for _ in range(8):
    with torch.autocast("cpu", torch.float16):
        fake = generator(torch.randn(8, 4))
        real_scores, fake_scores = critic(torch.randn(8, 6)), critic(fake.detach())
    d_loss = bce(real_scores.float(), torch.ones(8, 1)) + bce(
        fake_scores.float(), torch.zeros(8, 1)
    )
    d_opt.zero_grad()
    scaler.scale(d_loss).backward()
    scaler.step(d_opt)
    with torch.autocast("cpu", torch.float16):
        scores = critic(fake)
    g_opt.zero_grad()
    scaler.scale(bce(scores.float(), torch.ones(8, 1))).backward()
    scaler.step(g_opt)
    scaler.update()
