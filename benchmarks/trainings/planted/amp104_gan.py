"""AMP104: the discriminator of a GAN is stepped without the scaler."""

import torch
from torch import nn

torch.manual_seed(12)
generator = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 6))
critic = nn.Sequential(nn.Linear(6, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
opt_g = torch.optim.Adam(generator.parameters(), 1e-4, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(critic.parameters(), 1e-4, betas=(0.5, 0.999))
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
bce = nn.BCEWithLogitsLoss()
for _ in range(4):
    real, noise = torch.randn(8, 6), torch.randn(8, 4)
    with torch.autocast("cpu", torch.float16):
        fake = generator(noise)
        on_real, on_fake = critic(real), critic(fake.detach())
    loss_d = bce(on_real.float(), torch.ones(8, 1)) + bce(on_fake.float(), torch.zeros(8, 1))
    opt_d.zero_grad()
    scaler.scale(loss_d).backward()
    opt_d.step()  # AMP104

    with torch.autocast("cpu", torch.float16):
        on_fake = critic(fake)
    opt_g.zero_grad()
    scaler.scale(bce(on_fake.float(), torch.ones(8, 1))).backward()
    scaler.step(opt_g)
    scaler.update()
