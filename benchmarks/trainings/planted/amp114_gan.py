"""AMP114: the loss of the generator is scaled by the scaler of the discriminator."""

import torch
from torch import nn

torch.manual_seed(38)
generator, critic = nn.Linear(3, 5), nn.Linear(5, 1)
g_opt = torch.optim.Adam(generator.parameters(), 1e-3)
d_opt = torch.optim.Adam(critic.parameters(), 1e-3)
g_scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
d_scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
for _ in range(4):
    with torch.autocast("cpu", torch.float16):
        fake = generator(torch.randn(6, 3))
        scores = critic(torch.cat([fake.detach(), torch.randn(6, 5)]))
    d_opt.zero_grad()
    d_scaler.scale(scores.float()[:6].mean() - scores.float()[6:].mean()).backward()
    d_scaler.step(d_opt)
    d_scaler.update()
    with torch.autocast("cpu", torch.float16):
        scores = critic(fake)
    g_opt.zero_grad()
    d_scaler.scale(-scores.float().mean()).backward()
    g_scaler.step(g_opt)  # AMP114
    g_scaler.update()
