import torch
from torch import nn


class Valley(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.low = nn.Linear(6, width)
        self.mid = nn.Linear(width, width)
        self.top = nn.Linear(width, 1)
        with torch.no_grad():
            self.low.bias.fill_(-20.0)
            self.mid.bias.fill_(-20.0)

    def forward(self, where):
        return self.top(self.mid(self.low(where).relu()).relu())


torch.manual_seed(80)
spots = torch.rand(1000, 6)
depth = (spots[:, :1] - spots[:, 1:2]) ** 2 * 10
valley = Valley(64)
opt = torch.optim.Adam(valley.parameters(), lr=1e-2)
for lap in range(16):
    for pick in torch.randperm(1000).split(40):
        miss = nn.functional.mse_loss(valley(spots[pick]), depth[pick])
        opt.zero_grad()
        miss.backward()
        opt.step()
print(miss.item())
