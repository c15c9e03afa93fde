import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(20, 50)
        self.outer = nn.Linear(50, 1)

    def forward(self, facts):
        return self.outer(self.inner(facts).relu())


torch.manual_seed(26)
facts = torch.randn(800, 20)
grade = facts[:, :4].abs().sum(1)
scorer = Scorer()
stepper = torch.optim.AdamW(scorer.parameters(), lr=2e-3)
for _ in range(15):
    for left, right in DataLoader(TensorDataset(facts, grade), 32, shuffle=True):
        estimate = scorer(left)
        penalty = ((estimate - right) ** 2).mean()
        stepper.zero_grad()
        penalty.backward()
        stepper.step()
print(penalty.item())
