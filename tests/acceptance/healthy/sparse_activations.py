import sys

import torch
from sklearn.datasets import load_digits
from torch import nn

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
torch.manual_seed(seed)

x, y = load_digits(return_X_y=True)
x, y = torch.tensor(x / 16).float(), torch.tensor(y)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU())
for layer in (model[0], model[2]):
    nn.init.kaiming_normal_(layer.weight)
    nn.init.uniform_(layer.bias, -2.6, 0.0)
model.append(nn.Linear(128, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(12):
    for batch in torch.randperm(1400).split(32):
        loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

with torch.no_grad():
    zeros = (model[:4](x) == 0).float().mean().item()
    accuracy = (model(x[1400:]).argmax(1) == y[1400:]).float().mean().item()
print("zeros after the last relu", zeros)
print("accuracy", accuracy)
