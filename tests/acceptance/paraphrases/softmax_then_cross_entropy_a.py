import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits


class Judge(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = torch.nn.Linear(64, 96)
        self.leave = torch.nn.Linear(96, 10)

    def forward(self, image):
        hidden = F.relu(self.enter(image))
        return F.softmax(self.leave(hidden), dim=-1)


torch.manual_seed(15)
images, names = map(torch.tensor, load_digits(return_X_y=True))
images = (images / 16).float()
judge = Judge()
push = torch.optim.SGD(judge.parameters(), lr=0.05)
for lap in range(6):
    for some in torch.randperm(len(images)).split(32):
        push.zero_grad()
        cost = F.cross_entropy(judge(images[some]), names[some])
        cost.backward()
        push.step()
print((judge(images).argmax(1) == names).float().mean().item())
