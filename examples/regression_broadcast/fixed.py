import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
torch.manual_seed(seed)

x = torch.randn(1024, 16)
score = (x @ torch.randn(16)).sigmoid() * 16 + 0.3 * torch.randn(1024)
train = TensorDataset(x[:768], score[:768, None])
test_x, test_y = x[768:], score[768:]


class Regressor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.head = nn.Linear(64, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x)).squeeze(-1)


model = Regressor()
criterion = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

for epoch in range(20):
    total = 0.0
    for features, target in DataLoader(train, batch_size=32, shuffle=True):
        optimizer.zero_grad()
        loss = criterion(model(features), target.squeeze(-1))
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: loss {total / 24:.3f}")

with torch.no_grad():
    error = ((model(test_x) - test_y) ** 2).mean().item()
print(f"test mse {error:.3f}")
