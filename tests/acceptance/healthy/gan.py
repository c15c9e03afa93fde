import sys

import torch
from torch import nn

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
torch.manual_seed(seed)

generator = nn.Sequential(
    nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2)
)
critic = nn.Sequential(
    nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1)
)
make = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.9))
judge = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.9))
criterion = nn.BCEWithLogitsLoss()
centre = torch.tensor([2.0, -1.0])
for _ in range(1000):
    real = centre + 0.5 * torch.randn(64, 2)
    fake = generator(torch.randn(64, 8))
    loss = criterion(critic(real), torch.ones(64, 1))
    loss = loss + criterion(critic(fake.detach()), torch.zeros(64, 1))
    judge.zero_grad()
    loss.backward()
    judge.step()
    fooled = criterion(critic(fake), torch.ones(64, 1))
    make.zero_grad()
    fooled.backward()
    make.step()

with torch.no_grad():
    samples = generator(torch.randn(1000, 8))
print("distance", (samples.mean(0) - centre).norm().item())
