"""AMP301: log-probabilities of actions, gathered before the logarithm."""

import torch
from torch import nn

torch.manual_seed(57)
policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(policy.parameters(), 1e-3)
for _ in range(3):
    states = torch.randn(8, 4)
    with torch.autocast("cpu", torch.bfloat16):
        scores = policy(states)
    probabilities = scores.softmax(-1)
    actions = torch.multinomial(probabilities.detach().float(), 1)
    chosen = probabilities.gather(1, actions)
    log_probability = torch.log(chosen)  # AMP301
    loss = -(log_probability.float() * torch.randn(8, 1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
