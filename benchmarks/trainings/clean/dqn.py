"""Clean: Q-learning with a target network, a replay memory, and warm-up without any step."""

import copy
import random
from collections import deque

import torch
from torch import nn

torch.manual_seed(13)
random.seed(13)
q = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
target = copy.deepcopy(q)
optimizer = torch.optim.RMSprop(q.parameters(), 1e-3)
scaler = torch.amp.GradScaler("cpu")
memory = deque(maxlen=50)
for step in range(20):
    memory.append((torch.randn(3), random.randrange(2), random.random(), torch.randn(3)))
    if len(memory) < 8:
        continue
    batch = random.sample(list(memory), 8)
    states, following = (torch.stack([row[i] for row in batch]) for i in (0, 3))
    actions, rewards = (torch.tensor([row[i] for row in batch]) for i in (1, 2))
    with torch.autocast("cpu", torch.float16):
        values = q(states).gather(1, actions[:, None]).squeeze(1)
        with torch.no_grad():
            wanted = rewards + 0.9 * target(following).max(1).values
    loss = nn.functional.smooth_l1_loss(values.float(), wanted.float())
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    if step % 5 == 0:
        target.load_state_dict(q.state_dict())
