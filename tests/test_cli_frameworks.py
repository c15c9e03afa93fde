"""`run` on real PyTorch and Keras scripts that use what a user's script may use."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

TORCH_LOOP = """
import torch
from torch import nn
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 2)
    def forward(self, x):
        return self.b(torch.relu(self.a(x)))
def train(net, steps=30):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(steps):
        x = torch.randn(16, 4)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), (x[:, 0] > 0).long())
        loss.backward()
        optimizer.step()
    return net
"""

WORKERS = (
    TORCH_LOOP
    + """
import sys
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        assert "stethoscope" not in sys.modules, "a worker is watched"
        x = torch.full((4,), float(index % 2))
        return x, index % 2
if __name__ == "__main__":
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loader = DataLoader(Rows(), batch_size=16, num_workers=1, multiprocessing_context="spawn")
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    print("trained")
"""
)

SAVED = (
    TORCH_LOOP
    + """
net = train(Net())
torch.save(net, "net.pt")
again = torch.load("net.pt", weights_only=False)
print(type(again).__module__, sorted(vars(net)) == sorted(vars(Net())), len(net._forward_hooks))
for value in again.state_dict().values():
    print(value.sum().item().hex())
"""
)

RANKS = (
    TORCH_LOOP
    + """
import torch.distributed as dist
dist.init_process_group("gloo")
net = nn.parallel.DistributedDataParallel(Net())
torch.manual_seed(dist.get_rank())
train(net)
dist.barrier()
del net
dist.destroy_process_group()
"""
)

KERAS = """
import numpy as np, keras
keras.utils.set_random_seed(0)
x = np.random.rand(128, 4).astype("float32")
y = (x[:, 0] > 0.5).astype("float32")
model = keras.Sequential()
model.add(keras.layers.Dense(8, activation="relu"))
model.add(keras.layers.Dense(1, activation="{activation}"))
model.compile(keras.optimizers.Adam(0.05), "binary_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=12, batch_size=32, verbose=0)
for weight in model.get_weights():
    print(float(weight.sum()).hex())
"""


def runs(path="r.json"):
    return json.loads(Path(path).read_text())["runs"]


def test_spawned_workers_are_not_watched(stethoscope, write):
    watched = stethoscope("run", write("train.py", WORKERS))
    assert (watched.returncode, watched.stdout) == (0, "trained\n"), watched.stderr


def test_model_of_main_is_saved_loaded_and_bit_identical(stethoscope, bare, write):
    path = write("train.py", SAVED)
    watched, expected = stethoscope("run", path), bare(path)
    assert watched.stdout == expected.stdout
    assert watched.stdout.startswith("__main__ True 0\n")


def test_five_trainings_are_five_runs(stethoscope, write):
    path = write("train.py", TORCH_LOOP + "for _ in range(5):\n    train(Net())\n")
    stethoscope("run", "--format", "json", "--output-file", "r.json", path)
    assert [run["steps"] for run in runs()] == [30] * 5


def test_each_rank_of_torchrun_keeps_a_trace_and_one_reports(folder, write):
    path = write("train.py", RANKS)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--standalone", "-m", "stethoscope", "run", str(path)]
    watched = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=180, check=False
    )
    assert watched.returncode == 0, watched.stderr
    names = sorted(path.name for path in Path(".stethoscope").glob("*.sqlite"))
    assert names == ["train-1.rank0.sqlite", "train-1.rank1.sqlite"]
    assert watched.stderr.count("checks ran") == 1


@pytest.mark.parametrize(
    ("backend", "activation", "verdict"),
    [
        ("jax", "softmax", "faulty"),
        ("torch", "softmax", "faulty"),
        ("tensorflow", "softmax", "faulty"),
        ("jax", "sigmoid", "healthy"),
    ],
)
def test_keras_script(stethoscope, bare, write, monkeypatch, backend, activation, verdict):
    monkeypatch.setenv("KERAS_BACKEND", backend)
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    path = write("train.py", KERAS.format(activation=activation))
    watched = stethoscope("run", "--format", "json", "--output-file", "r.json", path)
    assert watched.stdout == bare(path).stdout
    (run,) = runs()
    assert run["verdict"] == verdict, watched.stderr
    assert watched.returncode == (verdict == "faulty")
    assert watched.stderr.count("checks ran") == 1
    if verdict == "faulty":
        first = run["diagnoses"][0]
        assert first["fault"] == "single-unit-softmax"
        assert first["place"]["source"]["line"] == 8
        assert first["place"]["source"]["exact"] is True
        assert first["first_seen"] == 0


def test_the_engine_has_nothing_to_do_for_a_pytorch_script(stethoscope, write):
    path = write("train.py", TORCH_LOOP + "train(Net())\n")
    watched = stethoscope("run", "--engine", "numpy", path)
    assert watched.stderr.count("--engine numpy did nothing: train.py calls no fit of a Keras") == 1
    assert "did nothing" not in stethoscope("run", path).stderr
