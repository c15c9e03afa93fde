"""Small training programs; each returns the tensors that must not depend on watching."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F  # noqa: N812 (as users write it)
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

STEPS = 30


def weights(*models: nn.Module) -> list[Tensor]:
    return [value.detach().clone() for model in models for value in model.state_dict().values()]


def data(rows: int = 64, width: int = 8, classes: int = 3) -> tuple[Tensor, Tensor]:
    x = torch.randn(rows, width)
    return x, (x.sum(1) > 0).long() + (x[:, 0] > 1).long() * (classes - 2)


def dropout() -> list[Tensor]:
    x, y = data()
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    loss_function = nn.CrossEntropyLoss()
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss_function(model(x), y).backward()
        optimizer.step()
    return weights(model)


def batch_norm() -> list[Tensor]:
    x = torch.randn(16, 3, 8, 8)
    y = torch.randint(0, 4, (16,))
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 4),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    for _ in range(STEPS):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return weights(model)


def shuffled_loader() -> list[Tensor]:
    x, y = data(96)
    loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(5):
        model.train()
        for inputs, targets in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            model(x)
    return weights(model)


class Stream(IterableDataset):
    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for _ in range(10):
            x = torch.rand(8)
            yield x, x.sum(0, keepdim=True)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(16, 16)
        self.last = nn.Linear(16, 1)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        hidden = F.relu(self.first(x))
        hidden = hidden + self.second(F.dropout(hidden, 0.2, self.training)).relu_()
        return {"prediction": self.last(hidden)}


def generator() -> list[Tensor]:
    model = Residual()
    optimizer = torch.optim.RMSprop(model.parameters())
    for _ in range(10):
        for inputs, targets in DataLoader(Stream(), batch_size=5):
            optimizer.zero_grad()
            ((model(inputs)["prediction"] - targets) ** 2).mean().backward()
            optimizer.step()
    return weights(model)


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.lstm = nn.LSTM(8, 12, num_layers=2, dropout=0.1, batch_first=True)
        self.head = nn.Linear(12, 20)
        self.head.weight = nn.Parameter(self.head.weight.detach().clone())

    def forward(self, tokens: Tensor) -> Tensor:
        hidden, _ = self.lstm(self.embedding(tokens))
        return self.head(hidden)


def lstm() -> list[Tensor]:
    tokens = torch.randint(0, 20, (8, 11))
    model = Tagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(STEPS):
        optimizer.zero_grad()
        logits = model(tokens[:, :-1])
        F.cross_entropy(logits.transpose(1, 2), tokens[:, 1:]).backward()
        optimizer.step()
    return weights(model)


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 16)
        self.place = nn.Parameter(torch.zeros(1, 10, 16))
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 20, bias=False)
        self.head.weight = self.embedding.weight  # tied

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.norm(self.encoder(self.embedding(tokens) + self.place)))


def transformer() -> list[Tensor]:
    tokens = torch.randint(0, 20, (4, 10))
    model = Reader()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=STEPS)
    for _ in range(STEPS):
        optimizer.zero_grad()
        F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
        optimizer.step()
        schedule.step()
    model.eval()
    with torch.no_grad():
        return [*weights(model), model(tokens)]


def gan() -> list[Tensor]:
    make = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    judge = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    make_optimizer = torch.optim.Adam(make.parameters(), lr=1e-3)
    judge_optimizer = torch.optim.Adam(judge.parameters(), lr=1e-3)
    loss_function = nn.BCEWithLogitsLoss()
    for _ in range(STEPS):
        real = torch.randn(16, 2) + 2
        fake = make(torch.randn(16, 4))
        judge_optimizer.zero_grad()
        loss = loss_function(judge(real), torch.ones(16, 1))
        loss = loss + loss_function(judge(fake.detach()), torch.zeros(16, 1))
        loss.backward()
        judge_optimizer.step()
        make_optimizer.zero_grad()
        loss_function(judge(fake), torch.ones(16, 1)).backward()
        make_optimizer.step()
    return weights(make, judge)


def accumulation() -> list[Tensor]:
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 3))
    average = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4 * STEPS):
        x, y = data(16)
        (F.cross_entropy(model(x), y) / 4).backward()
        if step % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
            with torch.no_grad():
                for slow, fast in zip(average.parameters(), model.parameters(), strict=True):
                    slow.lerp_(fast, 0.1)
    return weights(model, average)


def mixed_precision() -> list[Tensor]:
    x, y = data()
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    return weights(model)


def lbfgs() -> list[Tensor]:
    x, _ = data()
    y = x.sum(1, keepdim=True)
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        return loss

    for _ in range(STEPS // 3):
        optimizer.step(closure)
    return weights(model)


def two_groups() -> list[Tensor]:
    """A backbone held still by a rate of 0, freed later; a worker loads, an average is kept."""
    x, y = data(48)
    loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True, num_workers=1)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU())
    head = nn.Linear(16, 3)
    whole = nn.Sequential(model, head)
    average = copy.deepcopy(whole)
    optimizer = torch.optim.Adam(
        [{"params": model[0].parameters(), "lr": 0.0}, {"params": head.parameters()}], lr=1e-2
    )
    for epoch in range(20):
        if epoch == 3:
            optimizer.add_param_group({"params": model[2].parameters()})
        # A worker is started twice only: starting one takes longer than the steps.
        batches = loader if epoch % 10 == 0 else zip(x.split(16), y.split(16), strict=True)
        for inputs, targets in batches:
            optimizer.zero_grad()
            F.cross_entropy(whole(inputs), targets).backward()
            torch.nn.utils.clip_grad_norm_(whole.parameters(), 1.0)
            optimizer.step()
            with torch.no_grad():
                for slow, fast in zip(average.parameters(), whole.parameters(), strict=True):
                    slow.lerp_(fast, 0.1)
    return weights(whole, average)


PROGRAMS: dict[str, Callable[[], list[Tensor]]] = {
    program.__name__: program
    for program in (
        dropout,
        batch_norm,
        shuffled_loader,
        generator,
        lstm,
        transformer,
        gan,
        accumulation,
        mixed_precision,
        lbfgs,
        two_groups,
    )
}
