import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Readings(Dataset):
    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.rows = rng.normal(size=(1200, 6)).astype("float32")
        self.kinds = (self.rows[:, 0] * self.rows[:, 1] > 0).astype("int64")
        self.rows[600] = np.nan

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index], self.kinds[index]


torch.manual_seed(50)
feed = DataLoader(Readings(50), batch_size=16, shuffle=False)
brain = nn.Sequential(nn.Linear(6, 64), nn.LeakyReLU(), nn.Linear(64, 2))
measure = nn.CrossEntropyLoss()
tune = torch.optim.SGD(brain.parameters(), lr=0.05)
for lap in range(4):
    for row, kind in feed:
        tune.zero_grad()
        bad = measure(brain(row), kind)
        bad.backward()
        tune.step()
print(bad.item())
