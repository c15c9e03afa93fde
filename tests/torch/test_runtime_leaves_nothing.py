"""Nothing of ours is on the user's objects, and nothing is left after the run."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from torch_watching import assert_nothing_left, watched

import stethoscope
from stethoscope.config import Config
from stethoscope.monitor import FaultyTrainingError, Session
from stethoscope.torch import install


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 8)
        self.out = nn.Linear(8, 1)
        self.fail_at: str | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.fail_at == "forward":
            raise ValueError("the user's own")
        hidden = torch.relu(self.fc(x))
        if self.fail_at == "backward":
            hidden.register_hook(self.complain)
        return self.out(hidden)

    @staticmethod
    def complain(gradient: Tensor) -> None:
        raise ValueError("the user's own")


def saved(model: nn.Module) -> bytes:
    stream = io.BytesIO()
    torch.save(model, stream)
    return stream.getvalue()


def snapshots(steps: int = 4) -> list[Any]:
    """What a program may do with its model in mid-run, at every point of a step."""
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    found: list[Any] = []
    for _ in range(steps):
        found.append(saved(model))
        out = model(torch.ones(2, 4))
        found.append(saved(copy.deepcopy(model)))
        loss = F.mse_loss(out, torch.zeros(2, 1))
        found.append(sorted(vars(model)))
        loss.backward()
        found.append(saved(model.fc))
        optimizer.step()
        found.append(sorted(vars(model.fc)))
        found.append(
            [len(h) for m in model.modules() for h in (m._forward_hooks, m._forward_pre_hooks)]
        )
        found.append(len(optimizer._optimizer_step_pre_hooks))
        optimizer.zero_grad()
    return found


def test_saving_and_copying_in_mid_run_equal_the_bare_run(tmp_path: Path) -> None:
    torch.manual_seed(0)
    bare = snapshots()
    assert watched(snapshots, tmp_path).value == bare


def fail(where: str) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(30):
        model.fail_at = where if step == 3 else None
        loss = F.mse_loss(model(torch.ones(2, 4)), torch.zeros(2, 1))
        if where == "loop" and step == 3:
            raise ValueError("the user's own")
        if where == "interrupt" and step == 3:
            raise KeyboardInterrupt
        loss.backward()
        optimizer.step()


@pytest.mark.parametrize("where", ["forward", "backward", "loop", "interrupt"])
def test_the_users_exception_passes_and_nothing_is_left(where: str, tmp_path: Path) -> None:
    session = Session(Config(trace_dir=str(tmp_path)), stderr=io.StringIO())
    uninstall = install(session)
    expected = KeyboardInterrupt if where == "interrupt" else ValueError
    try:
        with pytest.raises(expected):
            fail(where)
    finally:
        uninstall()
    session.close()
    assert_nothing_left()
    assert session.notes == []
    assert session.reports[0].meta["steps"] == 3


@pytest.mark.parametrize("where", ["forward", "backward"])
def test_training_that_survives_its_exception_goes_on(where: str, tmp_path: Path) -> None:
    def program() -> None:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(6):
            model.fail_at = where if step == 3 else None
            try:
                F.mse_loss(model(torch.ones(2, 4)), torch.zeros(2, 1)).backward()
            except ValueError:
                continue
            optimizer.step()

    assert len(list(watched(program, tmp_path).trace.rows())) == 5


@pytest.mark.parametrize("wrap", [False, True], ids=["install", "watch"])
def test_evaluation_takes_the_fast_path(
    wrap: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fused kernel of a transformer layer is used in evaluation as in a bare run."""
    calls = []
    original = torch._transformer_encoder_layer_fwd

    def counted(*args: Any, **kwargs: Any) -> Tensor:
        calls.append(1)
        return original(*args, **kwargs)

    monkeypatch.setattr(torch, "_transformer_encoder_layer_fwd", counted)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def program() -> Tensor:
        model.train()
        model(torch.ones(2, 3, 8)).square().mean().backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            return model(torch.ones(2, 3, 8))

    if wrap:
        with stethoscope.watch(model, optimizer, quiet=True, trace_dir=str(tmp_path)):
            program()
    else:
        watched(program, tmp_path)
    assert len(calls) == 2
    assert_nothing_left()


class Rows(Dataset):
    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            return torch.ones(4), nn.Linear(4, 1)(torch.ones(4)) * 0


def test_workers_of_a_loader_are_not_watched(tmp_path: Path) -> None:
    def program() -> None:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in DataLoader(Rows(), batch_size=4, num_workers=1):
            optimizer.zero_grad()
            F.mse_loss(model(x), y).backward()
            optimizer.step()

    assert len(list(watched(program, tmp_path).trace.rows())) == 4


def test_disabled_watching_supports_the_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STETHOSCOPE_DISABLE", "1")
    with stethoscope.watch(Net()) as scope:
        assert_nothing_left()
        assert not scope.should_stop
    assert scope.report.meta["steps"] == 0


def test_an_error_of_ours_ends_the_watching_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stethoscope.torch import probe

    def broken(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("ours")

    monkeypatch.setattr(probe, "statistics", broken)
    session = Session(Config(trace_dir=str(tmp_path)), stderr=io.StringIO())
    uninstall = install(session)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = model.out.bias.clone()
    for _ in range(3):
        F.mse_loss(model(torch.ones(2, 4)), torch.zeros(2, 1)).backward()
        optimizer.step()
    assert_hooks_gone: Callable[[], None] = assert_nothing_left
    uninstall()
    assert_hooks_gone()
    assert len(session.notes) == 1
    assert "ours" in session.notes[0]
    assert not torch.equal(before, model.out.bias)


def test_raise_reaches_the_training_loop(tmp_path: Path) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    bad = torch.full((2, 4), float("nan"))
    with (
        stethoscope.watch(model, optimizer, on_error="raise", quiet=True, trace_dir=str(tmp_path)),
        pytest.raises(FaultyTrainingError),
    ):
        for _ in range(40):
            F.mse_loss(model(bad), torch.zeros(2, 1)).backward()
            optimizer.step()
    assert_nothing_left()


def test_modes_of_the_user_are_left_alone(tmp_path: Path) -> None:
    """`with torch.device(...)` around the call, and a mode of the user's around everything."""
    seen = []

    class Mine(torch.overrides.TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    def program() -> None:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(8):
            if step < 2:
                out = model(torch.ones(2, 4))
                with torch.device("cpu"):
                    F.mse_loss(out, torch.zeros(2, 1)).backward()
                    optimizer.step()
                assert torch._C._len_torch_function_stack() == 0
            elif step < 4:
                with torch.device("cpu"):
                    out = model(torch.ones(2, 4))
                assert torch._C._len_torch_function_stack() == 0
                F.mse_loss(out, torch.zeros(2, 1)).backward()
                optimizer.step()
            else:
                with Mine():
                    out = model(torch.ones(2, 4))
                    assert torch._C._len_torch_function_stack() == 1
                assert torch._C._len_torch_function_stack() == 0
                F.mse_loss(out, torch.zeros(2, 1)).backward()
                optimizer.step()

    trace = watched(program, tmp_path).trace
    assert "loss" in trace.program.unseen
    assert trace.program.losses[0].name == "mse"
    assert seen
