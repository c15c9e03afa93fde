import torch
import torch.nn.functional as F


class Net(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = torch.nn.Linear(8, width)
        self.down = torch.nn.Linear(width, 1)

    def forward(self, v):
        return self.down(F.relu(self.up(v)))


torch.manual_seed(18)
table = torch.rand(1000, 8)
value = 16 * table[:, 0] * table[:, 1] + table[:, 2]
net = Net(96)
opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
for turn in range(10):
    for chosen in torch.randperm(1000).split(25):
        error = F.mse_loss(net(table[chosen]), value[chosen])
        opt.zero_grad()
        error.backward()
        opt.step()
print(error.item())
