import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Deep(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a = nn.Linear(14, width)
        self.norm = nn.LayerNorm(width)
        self.b = nn.Linear(width, 1)

    def forward(self, u):
        return self.b(self.norm(self.a(u)).relu())


torch.manual_seed(60)
logs = torch.rand(2000, 14)
rate = logs[:, :2].prod(1, keepdim=True)
logs[37 * 25, 13] = torch.nan
deep = Deep(36)
criterion = nn.L1Loss()
optimiser = torch.optim.AdamW(deep.parameters(), lr=1e-3)
for _ in range(3):
    for piece, wanted in DataLoader(TensorDataset(logs, rate), batch_size=25):
        optimiser.zero_grad(set_to_none=True)
        result = deep(piece)
        off = criterion(result, wanted)
        off.backward()
        optimiser.step()
print(off.item())
