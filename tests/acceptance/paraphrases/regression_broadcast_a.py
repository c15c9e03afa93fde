import torch
from torch import nn

torch.manual_seed(12)
rows = torch.randn(900, 10)
price = (rows[:, :3].sum(1) * 4 + 8).unsqueeze(1)

net = nn.Sequential(nn.Linear(10, 48), nn.Tanh(), nn.Linear(48, 1), nn.Flatten(0))
distance = nn.MSELoss(reduction="mean")
descent = torch.optim.Adam(net.parameters(), lr=0.005)
for lap in range(12):
    for part in torch.randperm(900).split(30):
        descent.zero_grad()
        guess = net(rows[part])
        cost = distance(guess, price[part])
        cost.backward()
        descent.step()
print(cost.item())
