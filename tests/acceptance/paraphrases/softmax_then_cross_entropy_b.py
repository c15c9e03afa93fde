import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Sorter(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))

    def forward(self, picture):
        return self.layers(picture).softmax(1)


torch.manual_seed(25)
bag = load_digits()
pairs = TensorDataset(torch.tensor(bag.data).float() / 16, torch.tensor(bag.target))
sorter = Sorter(72)
judge = nn.CrossEntropyLoss()
walk = torch.optim.SGD(sorter.parameters(), lr=0.1)
for lap in range(5):
    for picture, name in DataLoader(pairs, batch_size=24, shuffle=True):
        walk.zero_grad()
        judge(sorter(picture), name).backward()
        walk.step()
right = sorter(pairs.tensors[0]).argmax(1) == pairs.tensors[1]
print(right.float().mean().item())
