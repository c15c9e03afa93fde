import sys

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
torch.manual_seed(seed)


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(64, 100)
        self.fc2 = nn.Linear(100, 50)
        self.out = nn.Linear(50, 10)
        for layer in (self.fc1, self.fc2):
            nn.init.kaiming_normal_(layer.weight)
            nn.init.constant_(layer.bias, -10.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.out(x)


digits = load_digits()
x = torch.tensor(digits.data / 16.0, dtype=torch.float32)
y = torch.tensor(digits.target)
shuffled = torch.randperm(len(x))
train, test = shuffled[:1400], shuffled[1400:]

net = Classifier()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for epoch in range(10):
    for batch in train[torch.randperm(len(train))].split(32):
        loss = F.cross_entropy(net(x[batch]), y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("epoch", epoch, "loss", round(loss.item(), 4))

with torch.no_grad():
    accuracy = (net(x[test]).argmax(dim=1) == y[test]).float().mean()
print("accuracy on held-out digits:", round(accuracy.item(), 4))
