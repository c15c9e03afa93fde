import sys

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
torch.manual_seed(seed)

x, y = load_digits(return_X_y=True)
x, y = torch.tensor(x / 16).float().reshape(-1, 1, 8, 8), torch.tensor(y)
model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1),
    nn.BatchNorm2d(16),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Linear(256, 10),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
loader = DataLoader(TensorDataset(x[:1400], y[:1400]), batch_size=8, shuffle=True, drop_last=True)
accumulate = 4
for _ in range(6):
    for index, (images, labels) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(images), labels)
        (loss / accumulate).backward()
        if (index + 1) % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()

model.eval()
with torch.no_grad():
    print("accuracy", (model(x[1400:]).argmax(1) == y[1400:]).float().mean().item())
