"""The loss that is followed is the one that is trained on."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch_watching import Watched, watched

from stethoscope.stats import FloatArray
from stethoscope.types import Severity, Stage

X = torch.randn(64, 4, generator=torch.Generator().manual_seed(1))
Y = X.sum(1) + 3
FEW = (X[:, 0] > 0.5).float()
STEPS = 40


def trained(
    loss: Callable[[Tensor], tuple[Tensor, Tensor]],
    folder: Path,
    steps: int = STEPS,
    outputs: int = 1,
    rate: float = 0.01,
) -> tuple[Watched, list[float]]:
    """Trains on the first tensor of `loss`; what was seen, and the values of the second."""
    wanted: list[float] = []

    def train() -> None:
        model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, outputs))
        optimizer = torch.optim.Adam(model.parameters(), rate)
        for _ in range(steps):
            optimizer.zero_grad()
            root, value = loss(model(X))
            root.backward()
            wanted.append(value.item())
            optimizer.step()

    return watched(train, folder), wanted


def column(seen: Watched, stage: Stage, param: str = "") -> FloatArray:
    return np.array([row.scalar(stage, param=param) for row in seen.trace.rows()])


def masked_mean(out: Tensor) -> tuple[Tensor, Tensor]:
    each = F.mse_loss(out.squeeze(1), Y, reduction="none")
    loss = (each * FEW).sum() / FEW.sum()
    return loss, loss


def indexed(out: Tensor) -> tuple[Tensor, Tensor]:
    loss = F.mse_loss(out.squeeze(1), Y, reduction="none")[FEW > 0].mean()
    return loss, loss


def weighted(out: Tensor) -> tuple[Tensor, Tensor]:
    loss = (F.l1_loss(out.squeeze(1), Y, reduction="none") * (1 + FEW)).mean()
    return loss, loss


def summed(out: Tensor) -> tuple[Tensor, Tensor]:
    penalty = 5 + out.square().mean()
    loss = F.mse_loss(out.squeeze(1), Y) + penalty
    return loss, loss


def several(out: Tensor) -> tuple[Tensor, Tensor]:
    loss = F.mse_loss(out.squeeze(1), Y) + 0.1 * F.l1_loss(out.squeeze(1), Y)
    return loss, loss


def by_tensor(out: Tensor) -> tuple[Tensor, Tensor]:
    loss = F.mse_loss(out.squeeze(1), Y, reduction="sum") / torch.tensor(len(Y))
    return loss, loss


def accumulated(out: Tensor) -> tuple[Tensor, Tensor]:
    loss = F.mse_loss(out.squeeze(1), Y)
    return loss / 4, loss


def scaled_mask(out: Tensor) -> tuple[Tensor, Tensor]:
    loss, _ = masked_mean(out)
    return torch.amp.GradScaler("cpu", init_scale=1024.0).scale(loss), loss


def log_first(out: Tensor) -> tuple[Tensor, Tensor]:
    F.l1_loss(out.squeeze(1) * 1000, Y)
    loss = F.mse_loss(out.squeeze(1), Y)
    return loss, loss


def log_beside_by_hand(out: Tensor) -> tuple[Tensor, Tensor]:
    F.l1_loss(out.squeeze(1) * 1000, Y)
    loss = (out.squeeze(1) - Y).square().mean()
    return loss, loss


BASELINE = ("accumulated", "log first", "by hand")
CASES = {
    "masked": masked_mean,
    "indexed": indexed,
    "weighted": weighted,
    "summed": summed,
    "several": several,
    "by a tensor": by_tensor,
    "accumulated": accumulated,
    "masked and scaled": scaled_mask,
    "log first": log_first,
    "by hand": log_beside_by_hand,
}


@pytest.mark.parametrize("name", CASES)
def test_the_course_is_that_of_what_backward_came_from(name: str, tmp_path: Path) -> None:
    seen, wanted = trained(CASES[name], tmp_path, steps=6)
    trace = seen.trace
    np.testing.assert_allclose(column(seen, Stage.LOSS), wanted, rtol=1e-5)
    losses = trace.program.losses
    assert len(losses) == (2 if name == "several" else 1)
    assert len(trace.program.targets) == len(losses)
    if name != "several":
        assert losses[0].weighted == (name not in BASELINE)


@pytest.mark.parametrize("reduce", [Tensor.mean, Tensor.sum])
def test_elements_that_the_program_reduces_as_a_whole_keep_their_meaning(
    reduce: Callable[[Tensor], Tensor], tmp_path: Path
) -> None:
    def loss(out: Tensor) -> tuple[Tensor, Tensor]:
        root = reduce(F.mse_loss(out.squeeze(1), Y, reduction="none"))
        return root, root

    seen, _ = trained(loss, tmp_path, steps=3)
    spec = seen.trace.program.losses[0]
    assert (spec.reduction, spec.weighted) == ("mean" if reduce is Tensor.mean else "none", False)


def test_a_weight_that_is_another_at_each_step_leaves_no_baseline(tmp_path: Path) -> None:
    weights = iter(range(1, 1000))

    def loss(out: Tensor) -> tuple[Tensor, Tensor]:
        root = F.mse_loss(out.squeeze(1), Y)
        return root * next(weights), root

    seen, _ = trained(loss, tmp_path)
    assert seen.trace.program.losses[0].weighted


def test_a_sum_over_growing_batches_does_not_rise(tmp_path: Path) -> None:
    def train() -> None:
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.0)
        for step in range(5):
            x = torch.ones(8 * 2**step, 4)
            loss = F.mse_loss(model(x).squeeze(1), torch.ones(len(x)), reduction="sum")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    course = column(watched(train, tmp_path), Stage.LOSS)
    np.testing.assert_allclose(course, course[0], rtol=1e-5)


def test_the_metric_of_elements_that_are_masked_is_not_computed(tmp_path: Path) -> None:
    seen, _ = trained(masked_mean, tmp_path, steps=4)
    assert np.isnan(column(seen, Stage.METRIC, "r2")).all()


def errors(seen: Watched) -> list[str]:
    return [d.fault for d in seen.reports[0].diagnoses if d.severity is not Severity.NOTE]


def test_far_targets_under_a_mask_are_no_harm(tmp_path: Path) -> None:
    kept = FEW > 0
    far = torch.where(kept, Y, 255.0)

    def loss(out: Tensor) -> tuple[Tensor, Tensor]:
        root = F.mse_loss(out.squeeze(1), far, reduction="none")[kept].mean()
        return root, root

    seen, _ = trained(loss, tmp_path, steps=150)
    assert errors(seen) == []
    assert seen.reports[0].meta["harm"] == "learning"


def test_a_table_that_is_only_logged_is_not_accused(tmp_path: Path) -> None:
    def loss(out: Tensor) -> tuple[Tensor, Tensor]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            F.l1_loss(out, Y)
        root = F.mse_loss(out.squeeze(1), Y)
        return root, root

    assert errors(trained(loss, tmp_path)[0]) == []


def energy(out: Tensor) -> tuple[Tensor, Tensor]:
    between, within = (out - Y).abs().mean(), (out - out.t()).abs().mean()
    root = 2 * between - within
    return root, root


def row(out: Tensor) -> tuple[Tensor, Tensor]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        root = F.mse_loss(out, Y.unsqueeze(0))
    return root, root


@pytest.mark.parametrize(
    ("loss", "severity"), [(energy, Severity.WARNING), (row, Severity.ERROR)], ids=["energy", "row"]
)
def test_a_table_is_an_error_only_where_it_cannot_be_meant(
    loss: Callable[[Tensor], tuple[Tensor, Tensor]], severity: Severity, tmp_path: Path
) -> None:
    seen, _ = trained(loss, tmp_path, steps=60)
    first = seen.reports[0].diagnoses[0]
    assert (first.fault, first.severity) == ("loss-broadcast", severity)


def test_accuracy_of_probabilities_read_as_logits_has_its_threshold_at_a_half(
    tmp_path: Path,
) -> None:
    wanted: list[float] = []

    def loss(out: Tensor) -> tuple[Tensor, Tensor]:
        probabilities = torch.sigmoid(out.squeeze(1) * 4)
        truth = (X[:, 0] > 0).float()
        wanted.append(float(((probabilities > 0.5) == (truth > 0.5)).float().mean()))
        root = F.binary_cross_entropy_with_logits(probabilities, truth)
        return root, root

    seen, _ = trained(loss, tmp_path, steps=4)
    np.testing.assert_allclose(column(seen, Stage.METRIC, "accuracy"), wanted)


def test_transforms_and_nested_tensors_are_passed_by(tmp_path: Path) -> None:
    def train() -> None:
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)

        def one(weights: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
            out = torch.func.functional_call(model, weights, (x[None],))
            return F.mse_loss(out[:, 0], y[None])

        weights = dict(model.named_parameters())
        for _ in range(3):
            optimizer.zero_grad()
            loss = F.mse_loss(model(X).squeeze(1), Y)
            torch.func.vmap(torch.func.grad(one), (None, 0, 0))(weights, X[:4], Y[:4])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                model(torch.nested.nested_tensor([X[:2], X[:3]]))
            loss.backward()
            optimizer.step()

    assert len(column(watched(train, tmp_path), Stage.LOSS)) == 3
