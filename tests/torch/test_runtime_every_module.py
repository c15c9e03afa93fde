"""Every public module and optimizer of torch trains under watch: recorded or declared."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from test_describe_modules import CLASSES, build
from test_describe_optimizers import CLASSES as OPTIMIZERS
from torch import Tensor, nn
from torch_watching import watched

from stethoscope.torch.flow import tensors_in
from stethoscope.types import Slot, Stage, Stat

FLOATS = [(4, 4), (4, 3), (4, 4, 8), (4, 4, 8, 8), (4, 4, 8, 8, 8), (2, 4, 6, 6), (4, 2, 8), (4, 8)]
FLOATS += [(4, 2, 8, 8), (4, 2, 8, 8, 8), (4, 16, 12), (4,), (2, 3, 8), (3, 2, 3)]
LOSS_INPUTS = [
    lambda x: (x.sigmoid(), torch.zeros(4, 4)),
    lambda x: (x, torch.zeros(4, 4)),
    lambda x: (x, torch.zeros(4, dtype=torch.long)),
    lambda x: (x, torch.zeros(4, 4, dtype=torch.long)),
    lambda x: (x, torch.zeros(4, 4), torch.ones(4, 4)),
    lambda x: (x, x.detach() + 1, torch.ones(4)),
    lambda x: (x[:, 0], x[:, 1], torch.ones(4)),
    lambda x: (x, torch.ones(4, 4), torch.ones(4, 4) * 2),
    lambda x: (x[None].log_softmax(-1).transpose(0, 1), torch.ones(1, 2, dtype=torch.long), *LONG),
    lambda x: (x.repeat(1, 2), torch.zeros(4, dtype=torch.long)),
]
LONG = (torch.tensor([4]), torch.tensor([2]))
NO_FORWARD = {"Module", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Container"}
NO_FORWARD |= {"RNNBase", "RNNCellBase"}
NEEDS_DEVICES = {"SyncBatchNorm"}  # its forward pass asks for CUDA


def arguments(x: Tensor) -> Iterator[tuple[Any, ...]]:
    """Whatever a module may want, made from 4 x 4 floats that come from a trained layer."""
    for shape in FLOATS:
        size = int(torch.Size(shape).numel())
        yield (x.flatten().repeat(size // 16 + 1)[:size].reshape(shape),)
    yield (torch.zeros(4, 3, dtype=torch.long),)
    yield (torch.zeros(4, dtype=torch.long), torch.tensor([0, 2]))
    yield (x[:, :2],)
    yield (x[:, :2], x[:, 1:])
    yield (x, x * 2)
    wide = x.repeat(1, 2)
    yield (wide[:, None], wide[:, None], wide[:, None])
    yield (wide[:, None], wide[:, None])
    pooled, where = nn.functional.max_pool1d(x[None].repeat(1, 1, 2), 2, return_indices=True)
    yield (pooled, where)
    pooled, where = nn.functional.max_pool2d(
        x[None, None].repeat(1, 1, 2, 2), 2, return_indices=True
    )
    yield (pooled, where)
    cube = x[None, None, None].repeat(1, 1, 4, 1, 1)
    yield nn.functional.max_pool3d(cube, 2, return_indices=True)
    yield (x.flatten().repeat(3)[:32].reshape(1, 4, 8).repeat(1, 1, 1),)
    yield (torch.cat([x, x], 0).repeat(1, 3)[:4, :12][None].transpose(1, 2)[:, :12],)
    for make in LOSS_INPUTS:
        yield make(x)


def accepted(layer: nn.Module, x: Tensor) -> int:
    """Which arguments the module takes and can be trained on."""
    for index, candidate in enumerate(arguments(x)):
        try:
            outputs = list(tensors_in(layer(*candidate)))
            sum(t.sum() for t in outputs if t.requires_grad).backward(retain_graph=True)
        except Exception:
            continue
        if all(t.isfinite().all() for t in outputs if t.is_floating_point()):
            return index
    raise AssertionError(f"{type(layer).__name__}: no arguments were found that it takes")


class Model(nn.Module):
    def __init__(self, layer: nn.Module, index: int) -> None:
        super().__init__()
        self.entry = nn.Linear(4, 4)
        self.layer = layer
        self.index = index

    def forward(self, x: Tensor) -> Any:
        return self.layer(*list(arguments(self.entry(x)))[self.index])


def train(model: nn.Module) -> list[Tensor]:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(3):
        optimizer.zero_grad()
        outputs = list(tensors_in(model(torch.ones(4, 4) + torch.eye(4))))
        torch.stack([t.sum() for t in outputs if t.requires_grad]).sum().backward()
        optimizer.step()
    return [p.detach().clone() for p in model.parameters()]


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("name", sorted(CLASSES.keys() - NO_FORWARD - NEEDS_DEVICES))
def test_every_public_module_is_recorded(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    probe = torch.nn.Linear(4, 4)(torch.ones(4, 4) + torch.eye(4))
    index = accepted(build(name), probe)

    def program() -> tuple[nn.Module, list[Tensor]]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            layer = build(name)
            # The arguments of some classes are modules, which are the same every time.
            model = Model(layer if name.startswith("Lazy") else copy.deepcopy(layer), index)
        return model, train(model)

    torch.manual_seed(1)
    _, bare = program()
    assert all(t.isfinite().all() for t in bare)
    seen = watched(program, tmp_path, seed=1)
    model, final = seen.value
    assert all(torch.equal(a, b) for a, b in zip(bare, final, strict=True))
    row = list(seen.trace.rows())[1]
    paths = {spec.path for spec in row.program.layers}
    if isinstance(model.layer, nn.modules.loss._Loss):
        assert row.program.losses or row.scalar(Stage.LOSS) == row.scalar(Stage.LOSS)
        return
    inside = {path for path in paths if path == "layer" or path.startswith("layer.")}
    assert inside, paths
    counted = [row.get(Slot(path, "", Stage.OUTPUT), Stat.COUNT) for path in inside]
    assert any(count > 0 for count in counted)
    for path, param in model.named_parameters():
        layer, _, own = path.rpartition(".")
        if "parametrizations" not in path:
            assert row.get(Slot(layer, own, Stage.WEIGHT), Stat.COUNT) == param.numel()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_is_recorded(name: str, tmp_path: Path) -> None:
    def program() -> list[Tensor]:
        tokens = torch.arange(6)
        sparse = name == "SparseAdam"
        first = nn.Embedding(6, 4, sparse=sparse)
        model = nn.Sequential(first) if sparse else nn.Sequential(first, nn.Linear(4, 2))
        optimizer = make(model)
        width = 4 if sparse else 2
        for _ in range(4):

            def closure() -> Tensor:
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(model(tokens), torch.ones(()).expand(6, width))
                loss.backward()
                return loss

            if name == "LBFGS":
                optimizer.step(closure)
            else:
                closure()
                optimizer.step()
        return [p.detach().clone() for p in model.parameters()]

    def make(model: nn.Module) -> torch.optim.Optimizer:
        params = list(model.parameters())
        if name == "Muon":
            params = [p for p in params if p.ndim == 2]
        return OPTIMIZERS[name](params, lr=0.05)

    torch.manual_seed(0)
    bare = program()
    seen = watched(program, tmp_path)
    assert all(torch.equal(a, b) for a, b in zip(bare, seen.value, strict=True))
    row = list(seen.trace.rows())[2]
    assert row.program.optimizers[0].type == name
    assert row.scalar(Stage.HYPER, param="learning_rate") == 0.05
    for stage in (Stage.WEIGHT, Stage.WEIGHT_GRAD, Stage.UPDATE):
        assert row.get(Slot("0", "weight", stage), Stat.NORM) > 0
