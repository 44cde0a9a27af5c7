"""Clean: PPO with a clipped ratio, several epochs on one batch of states, one optimizer."""

import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(12)
body, policy, value = nn.Linear(4, 16), nn.Linear(16, 3), nn.Linear(16, 1)
parameters = [*body.parameters(), *policy.parameters(), *value.parameters()]
optimizer = torch.optim.Adam(parameters, 3e-4, eps=1e-5)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)


def act(states):
    with torch.autocast("cpu", torch.float16):
        h = body(states).tanh()
        scores, values = policy(h), value(h)
    return Categorical(logits=scores.float()), values.float().squeeze(-1)


for _ in range(2):
    states, returns = torch.randn(16, 4), torch.randn(16)
    with torch.no_grad():
        old, values = act(states)
        actions = old.sample()
        old_logs = old.log_prob(actions)
    advantages = returns - values
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    for _ in range(3):
        now, values = act(states)
        ratio = (now.log_prob(actions) - old_logs).exp()
        clipped = ratio.clamp(0.8, 1.2)
        loss = -torch.min(ratio * advantages, clipped * advantages).mean()
        loss = loss + 0.5 * (values - returns).square().mean() - 0.01 * now.entropy().mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(parameters, 0.5)
        scaler.step(optimizer)
        scaler.update()
