import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(70)
box = load_digits()
pairs = TensorDataset(torch.tensor(box.data).float() / 16, torch.tensor(box.target))
web = nn.Sequential(
    nn.Linear(64, 80),
    nn.ReLU(),
    nn.Linear(80, 40),
    nn.ReLU(),
    nn.Linear(40, 10),
)
for part in (web[0], web[2]):
    nn.init.xavier_normal_(part.weight)
    nn.init.constant_(part.bias, -12)
judge = nn.CrossEntropyLoss()
opt = torch.optim.SGD(web.parameters(), lr=0.1)
for _ in range(5):
    for image, number in DataLoader(pairs, batch_size=32, shuffle=True):
        opt.zero_grad()
        judge(web(image), number).backward()
        opt.step()
print((web(pairs.tensors[0]).argmax(1) == pairs.tensors[1]).float().mean().item())
