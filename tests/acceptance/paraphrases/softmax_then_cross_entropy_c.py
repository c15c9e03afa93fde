import torch
from sklearn.datasets import load_digits
from torch import nn


class Twin(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(64, 60)
        self.bend = nn.ReLU()
        self.head = nn.Linear(60, 10)
        self.odds = nn.Softmax(dim=1)

    def forward(self, scan):
        return self.odds(self.head(self.bend(self.body(scan))))


torch.manual_seed(35)
scans, marks = load_digits(return_X_y=True)
scans, marks = torch.tensor(scans / 16).float(), torch.tensor(marks)
twin, loss_of = Twin(), nn.CrossEntropyLoss()
slope = torch.optim.SGD(twin.parameters(), lr=0.05, momentum=0.5)
for _ in range(6):
    for pick in torch.randperm(len(scans)).split(40):
        odds = twin(scans[pick])
        lost = loss_of(odds, marks[pick])
        slope.zero_grad()
        lost.backward()
        slope.step()
print((twin(scans).argmax(1) == marks).float().mean().item())
