"""AMP202: both players of a GAN step inside one region of each round."""

import torch
from torch import nn

torch.manual_seed(45)
generator, critic = nn.Linear(3, 4), nn.Linear(4, 1)
g_opt = torch.optim.SGD(generator.parameters(), 1e-2)
d_opt = torch.optim.SGD(critic.parameters(), 1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
for _ in range(4):
    noise, real = torch.randn(4, 3), torch.randn(4, 4)
    with torch.autocast("cpu", torch.float16):
        d_loss = (critic(generator(noise).detach()) - critic(real)).float().mean()
        d_opt.zero_grad()
        scaler.scale(d_loss).backward()  # too: AMP201
        scaler.step(d_opt)  # AMP202
        g_loss = -critic(generator(noise)).float().mean()
    g_opt.zero_grad()
    scaler.scale(g_loss).backward()
    scaler.step(g_opt)
    scaler.update()
