"""What cannot be seen is declared, and what runs elsewhere is watched there or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch_watching import assert_nothing_left, watched

import stethoscope
from stethoscope.rules import all_rules
from stethoscope.torch import probe
from stethoscope.trace import read
from stethoscope.types import Slot, Stage, Stat

X = torch.linspace(-1, 1, 40).reshape(10, 4)
Y = torch.arange(10) % 3
INSIDE = {"pre_activation", "output", "output_grad"}
ALL = INSIDE | {"input", "target", "loss", "metric"}


def train(way: str) -> list[Tensor]:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))
    call = model
    if way == "compiled-wrapper":
        call = torch.compile(model, backend="eager")
    elif way == "compiled-in-place":
        model.compile(backend="eager")
    elif way == "compiled-function":
        call = torch.compile(lambda x: model(x), backend="eager")
    elif way == "eval-mode":
        model.eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(25):
        optimizer.zero_grad()
        F.cross_entropy(call(X), Y).backward()
        optimizer.step()
    return [p.detach().clone() for p in model.parameters()]


@pytest.mark.parametrize(
    ("way", "unseen"),
    [
        ("compiled-wrapper", INSIDE),
        ("compiled-in-place", ALL),
        ("compiled-function", ALL),
        ("eval-mode", ALL),
    ],
)
def test_a_model_that_cannot_be_looked_into(way: str, unseen: set[str], tmp_path: Path) -> None:
    torch.manual_seed(0)
    bare = train(way)
    torch._dynamo.reset()
    seen = watched(lambda: train(way), tmp_path)
    torch._dynamo.reset()
    assert all(torch.equal(a, b) for a, b in zip(bare, seen.value, strict=True))
    rows = list(seen.trace.rows())
    assert len(rows) == 25
    declared = seen.trace.program.unseen
    assert set(declared) == unseen
    skipped = seen.reports[0].skipped
    for rule in all_rules():
        if rule.needs and rule.needs <= unseen:
            assert skipped[rule.code] in declared.values()
    assert rows[3].get(Slot("0", "weight", Stage.UPDATE), Stat.NORM) > 0
    assert (rows[3].scalar(Stage.LOSS) > 0) == (way == "compiled-wrapper")


def test_a_part_of_the_model_called_on_its_own_keeps_its_name(tmp_path: Path) -> None:
    class Coder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(4, 2), nn.Tanh())
            self.decoder = nn.Linear(2, 4)

    model = Coder()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    settings = {"quiet": True, "trace_dir": str(tmp_path)}
    with stethoscope.watch(model, optimizer, **settings) as scope:
        for _ in range(3):
            optimizer.zero_grad()
            F.mse_loss(model.decoder(model.encoder(X)), X).backward()
            optimizer.step()
    program = read(scope.report.meta["trace"]).program
    assert [spec.path for spec in program.layers] == ["encoder.0", "encoder.1", "decoder"]
    assert ("encoder.1", "decoder") in program.edges
    assert program.losses[0].output == "decoder"


def test_watch_leaves_other_models_alone(tmp_path: Path) -> None:
    mine, other = nn.Linear(4, 3), nn.Linear(4, 3)
    settings = {"quiet": True, "trace_dir": str(tmp_path)}
    with stethoscope.watch(mine, **settings) as scope:
        for model in (other, mine, other):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            F.cross_entropy(model(X), Y).backward()
            optimizer.step()
    assert [report.meta["steps"] for report in scope.reports] == [1]
    assert_nothing_left()


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(TypeError, match=r"torch\.nn\.Module"):
        stethoscope.watch("model")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"torch\.optim\.Optimizer"):
        stethoscope.watch(nn.Linear(1, 1), "adam")  # type: ignore[arg-type]


SCRIPT = """
import torch, torch.distributed as dist
from torch import nn
dist.init_process_group("gloo")
torch.manual_seed(0)
layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
model = nn.parallel.DistributedDataParallel(layers)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
generator = torch.Generator().manual_seed(dist.get_rank())
for _ in range(25):
    x = torch.randn(16, 4, generator=generator)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), (x.sum(1) > 0).long()).backward()
    optimizer.step()
with open(f"weights-{dist.get_rank()}.txt", "w") as file:
    file.write(sum(p.double().sum().item() for p in model.parameters()).hex())
dist.barrier()
del model
dist.destroy_process_group()
"""


def test_two_ranks_give_two_traces(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2"]
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}

    def run(*arguments: str) -> list[str]:
        ended = subprocess.run(
            [*command, *arguments],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return [(tmp_path / f"weights-{rank}.txt").read_text() for rank in (0, 1)]

    bare = run("train.py")
    assert run("-m", "stethoscope", "run", "--fail-on", "never", "train.py") == bare
    traces = [read(path) for path in (tmp_path / ".stethoscope").glob("*.sqlite")]
    assert sorted(trace.meta["rank"] for trace in traces) == [0, 1]
    for trace in traces:
        assert [spec.path for spec in trace.program.layers] == ["0", "1", "2"]
        assert len(list(trace.rows())) == 25


@pytest.mark.parametrize(
    ("loss", "declared"),
    [
        (lambda out: ((out - X) ** 2).mean(), "probed steps only"),
        (lambda out: (out - X).abs().pow(1.3).mean(), "not recognised"),
        (lambda out: F.mse_loss(out, X), None),
    ],
    ids=["known", "unknown", "function"],
)
def test_the_metric_of_a_hand_written_loss_is_declared(
    loss: Callable[[Tensor], Tensor], declared: str | None, tmp_path: Path
) -> None:
    def program() -> None:
        model = nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(25):
            optimizer.zero_grad()
            loss(model(X)).backward()
            optimizer.step()

    trace = watched(program, tmp_path).trace
    assert (declared or "") in trace.program.unseen.get("metric", "")
    assert ("metric" in trace.program.unseen) == (declared is not None)
    seen = [
        row.scalar(Stage.METRIC, param="r2") == row.scalar(Stage.METRIC, param="r2")
        for row in trace.rows()
    ]
    assert seen[0] == (declared != "not recognised")
    assert seen[-1] == (declared is None)


def test_an_error_of_ours_in_the_backward_pass_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = probe.statistics

    def broken(tensor: Tensor, **settings: object) -> object:
        if not settings and torch._C._current_graph_task_id() != -1:
            raise RuntimeError("of ours")
        return plain(tensor, **settings)

    monkeypatch.setattr(probe, "statistics", broken)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stethoscope.watch(model, optimizer, quiet=True, trace_dir=str(tmp_path)) as scope:
        F.cross_entropy(model(X), Y).backward()
        optimizer.step()
    assert "RuntimeError: of ours" in scope.report.reason
