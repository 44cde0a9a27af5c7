"""Clean: WGAN-GP with the gradient penalty of the documentation, several critic steps, two scalers."""

import torch
from torch import nn

torch.manual_seed(2)
generator, critic = (
    nn.Linear(3, 5),
    nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1)),
)
g_opt = torch.optim.Adam(generator.parameters(), 1e-3)
d_opt = torch.optim.Adam(critic.parameters(), 1e-3)
g_scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
d_scaler = torch.amp.GradScaler("cpu", init_scale=256.0)


def penalty(real, fake):
    mix = torch.rand(len(real), 1)
    between = (mix * real + (1 - mix) * fake).requires_grad_()
    with torch.autocast("cpu", torch.float16):
        scores = critic(between)
    scaled = d_scaler.scale(scores.float().sum())
    (gradient,) = torch.autograd.grad(scaled, between, create_graph=True)
    gradient = gradient.float() / d_scaler.get_scale()
    return (gradient.norm(2, 1) - 1).square().mean()


for _ in range(4):
    for _ in range(2):
        real = torch.randn(6, 5)
        with torch.autocast("cpu", torch.float16):
            fake = generator(torch.randn(6, 3)).detach().float()
            scores = critic(fake) - critic(real)
        loss = scores.float().mean() + 10 * penalty(real, fake)
        d_opt.zero_grad()
        d_scaler.scale(loss).backward()
        d_scaler.step(d_opt)
        d_scaler.update()
    with torch.autocast("cpu", torch.float16):
        scores = critic(generator(torch.randn(6, 3)))
    g_opt.zero_grad()
    g_scaler.scale(-scores.float().mean()).backward()
    g_scaler.step(g_opt)
    g_scaler.update()
