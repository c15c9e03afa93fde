"""Tells three kinds of flowers apart by four measurements."""

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)

centres = torch.tensor([[5.0, 3.4, 1.5, 0.2], [5.9, 2.8, 4.3, 1.3], [6.6, 3.0, 5.6, 2.0]])
kinds = torch.randint(3, (600,))
flowers = centres[kinds] + 0.35 * torch.randn(600, 4)
flowers = (flowers - flowers.mean(0)) / flowers.std(0)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(4, 32)
        self.out = nn.Linear(32, 3)

    def forward(self, x):
        x = torch.relu(self.hidden(x))
        return self.out(x)


model = Classifier()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()

for epoch in range(10):
    for batch in torch.randperm(600).split(32):
        optimizer.zero_grad()
        loss = criterion(model(flowers[batch]), kinds[batch])
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}  loss {loss.item():.3f}")
