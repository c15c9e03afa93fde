"""One program whose learning rate and feature scale are arguments: LR SCALE [STANDARDIZE]."""

import json
import sys

import torch
from torch import nn

rate, scale = float(sys.argv[1]), float(sys.argv[2])
torch.manual_seed(0)
x = torch.randn(1200, 8) * scale
y = (x[:, :3].sum(1, keepdim=True) - x[:, 3:4].abs()) / scale + 0.1 * torch.randn(1200, 1)
if len(sys.argv) > 3:
    columns = json.loads(sys.argv[3])
    if "mean" in columns:
        x = (x - columns["mean"]) / columns["std"]
    else:
        for index, column in columns.items():
            x[:, int(index)] = (x[:, int(index)] - column["mean"]) / column["std"]

model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=rate)
for _ in range(8):
    for batch in torch.randperm(960).split(16):
        loss = nn.functional.mse_loss(model(x[batch]), y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

with torch.no_grad():
    error = nn.functional.mse_loss(model(x[960:]), y[960:])
print("r2", (1 - error / y[960:].var()).item())
