"""What watching costs: CPU time per step, watched against bare, interleaved, with an A/A control.

    python benchmarks/overhead.py torch-cnn torch-transformer

Each case is a function that sets up a training and returns `step()`. Copies of it run in turn in
one process, a few steps each, in random order; what is printed is the median over rounds of
watched / bare and of bare / bare (the control, which shows the noise).
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

Case = tuple[Callable[[], None], Callable[[], Any]]
"""One training step, and what gives the scope that watches it: a context manager that has
`pause()` and `resume()`, which may be called twice."""

CASES: dict[str, Callable[[], Case]] = {}


def case(name: str) -> Callable[[Callable[[], Case]], Callable[[], Case]]:
    """Registers a case under `name`."""

    def add(make: Callable[[], Case]) -> Callable[[], Case]:
        CASES[name] = make
        return make

    return add


def measure(make: Callable[[], Case], rounds: int, steps: int, warm: int) -> dict[str, float]:
    """Ratios of CPU time per step.

    Args:
        make: The case; called once for each copy.
        rounds: How many times every copy has its turn.
        steps: Steps in one turn.
        warm: Steps of each copy before; those of the dense start are watched but not timed.

    Returns:
        `watched`, `control` (ratios to bare), `bare_ms` and `dense` (the dense start's ratio).
    """
    # Only one copy is watched, and only during its turns: the global hooks must not see the rest.
    copies = {name: make() for name in ("bare", "control", "watched")}
    step, watch = copies["watched"]
    turns: dict[str, list[float]] = {name: [] for name in copies}
    with watch() as scope:
        dense = _turn(step, warm)
        scope.pause()
        for name in ("bare", "control"):
            plain = _turn(copies[name][0], warm)
        for _ in range(rounds):
            for name in random.sample(sorted(copies), len(copies)):
                if name == "watched":
                    scope.resume()
                turns[name].append(_turn(copies[name][0], steps))
                scope.pause()
    pairs = list(zip(turns["watched"], turns["control"], turns["bare"], strict=True))
    return {
        "watched": statistics.median(2 * w / (c + b) for w, c, b in pairs),
        "control": statistics.median(c / b for _, c, b in pairs),
        "bare_ms": 1e3 * statistics.median(turns["bare"]) / steps,
        "dense": dense / plain,
    }


def _turn(step: Callable[[], None], count: int) -> float:
    begun = time.process_time()
    for _ in range(count):
        step()
    return time.process_time() - begun


def _torch_watch(model: Any, optimizer: Any) -> Any:
    import stethoscope

    return stethoscope.watch(model, optimizer, quiet=True, trace_dir=tempfile.mkdtemp())


@case("torch-cnn")
def torch_cnn() -> Case:
    """A CIFAR-size network: 3 convolutional and 2 dense layers, batch 64."""
    import torch
    from torch import nn

    model = nn.Sequential(
        *(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.Flatten()),
        *(nn.Linear(64 * 64, 128), nn.ReLU(), nn.Linear(128, 10)),
    )
    return _torch_case(model, torch.randn(64, 3, 32, 32), torch.randint(0, 10, (64,)))


@case("torch-transformer")
def torch_transformer() -> Case:
    """Four transformer layers of width 256 over 8 sequences of 128 tokens."""
    import torch
    from torch import nn

    layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)
    model = nn.Sequential(
        nn.Embedding(1000, 256), nn.TransformerEncoder(layer, 4), nn.Linear(256, 1000)
    )
    tokens = torch.randint(0, 1000, (8, 128))
    return _torch_case(model, tokens, tokens)


@case("torch-mlp")
def torch_mlp() -> Case:
    """784-512-256-10, batch 128: little work for each module."""
    import torch
    from torch import nn

    layers = (nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))
    return _torch_case(nn.Sequential(*layers), torch.randn(128, 784), torch.randint(0, 10, (128,)))


def _torch_case(model: Any, inputs: Any, targets: Any) -> Case:
    import torch
    from torch import nn

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        scores = model(inputs)
        axis = scores.ndim - 1
        loss = nn.functional.cross_entropy(scores.movedim(axis, 1), targets)
        loss.backward()
        optimizer.step()

    return step, lambda: _torch_watch(model, optimizer)


def main() -> None:
    """Prints one line for each case asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", help=", ".join(CASES))
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--steps", type=int, default=20, help="steps in one turn: one is probed")
    parser.add_argument("--warm", type=int, default=21, help="steps of the dense start")
    arguments = parser.parse_args()
    with suppress(ImportError):
        import torch

        torch.set_num_threads(1)
    print("case                bare ms   watched   control   dense start")
    for name in arguments.cases or CASES:
        found = measure(CASES[name], arguments.rounds, arguments.steps, arguments.warm)
        print(
            f"{name:<18} {found['bare_ms']:8.1f} {found['watched']:9.3f} "
            f"{found['control']:9.3f} {found['dense']:13.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
