import sys

import torch
from sklearn.datasets import load_digits
from torch import nn

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
torch.manual_seed(seed)

digits = load_digits()
x = torch.tensor(digits.data / 16).float()
y = torch.tensor(digits.target)
backbone = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())


def train(model: nn.Module, labels: torch.Tensor, epochs: int) -> None:
    wanted = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(wanted, lr=2e-3)
    for _ in range(epochs):
        for batch in torch.randperm(1400).split(32):
            loss = nn.functional.cross_entropy(model(x[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


train(nn.Sequential(backbone, nn.Linear(32, 10)), y, 10)
for parameter in backbone.parameters():
    parameter.requires_grad_(False)
model = nn.Sequential(backbone, nn.Linear(32, 2))
train(model, y % 2, 8)
with torch.no_grad():
    print("accuracy", (model(x[1400:]).argmax(1) == y[1400:] % 2).float().mean().item())
