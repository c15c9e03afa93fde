"""What is recorded of real programs, against what the program itself computes."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch_programs import PROGRAMS
from torch_watching import watched

from stethoscope import stats
from stethoscope.row import Row
from stethoscope.types import Slot, Stage, Stat
from stethoscope.vocabulary import Expects, LayerKind


def rows_of(program: Any, folder: Path, **settings: Any) -> list[Row]:
    return list(watched(program, folder, **settings).trace.rows())


def fit(model: nn.Module, loss_of: Any, steps: int = 3, **optimizer: Any) -> None:
    adapt = torch.optim.SGD(model.parameters(), **{"lr": 0.1, **optimizer})
    for _ in range(steps):
        adapt.zero_grad()
        loss_of(model).backward()
        adapt.step()


class Small(nn.Module):
    """One hidden layer; the activation is called in the way asked for."""

    def __init__(self, activate: Any) -> None:
        super().__init__()
        self.fc1 = nn.Linear(4, 8)
        self.fc2 = nn.Linear(8, 3)
        self.activate = activate

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.activate(self.fc1(x)))


X = torch.linspace(-1, 1, 40).reshape(10, 4)
Y = torch.arange(10) % 3


@pytest.mark.parametrize(
    ("activate", "name"),
    [
        (F.relu, "relu"),
        (torch.relu, "relu"),
        (lambda x: x.relu(), "relu"),
        (lambda x: x.relu_(), "relu"),
        (lambda x: F.relu(x, inplace=True), "relu"),
        (lambda x: x.clamp(min=0), "relu"),
        (torch.sigmoid, "sigmoid"),
        (lambda x: F.softmax(x, dim=-1), "softmax"),
        (lambda x: F.leaky_relu(x, 0.2), "leaky_relu"),
        (lambda x: x.tanh(), "tanh"),
        (lambda x: x, "linear"),
    ],
    ids=[
        *("F.relu", "torch.relu", "x.relu", "x.relu_", "F.relu-inplace", "clamp"),
        *("torch.sigmoid", "F.softmax", "F.leaky_relu", "x.tanh", "none"),
    ],
)
def test_functional_activations_belong_to_their_layer(
    activate: Any, name: str, tmp_path: Path
) -> None:
    row = rows_of(lambda: fit(Small(activate), lambda m: F.cross_entropy(m(X), Y)), tmp_path)[0]
    layer = row.program.layer("fc1")
    assert layer is not None and layer.activation == name
    assert [spec.path for spec in row.program.layers] == ["fc1", "fc2"]
    assert row.program.edges == (("", "fc1"), ("fc1", "fc2"))
    assert (layer.activation_source is None) == (name == "linear")
    torch.manual_seed(0)
    model = Small(activate)
    with torch.no_grad():
        before = model.fc1(X)
        after = activate(before.clone())
    assert_recorded(row, Slot("fc1", "", Stage.OUTPUT), after, unit_axis=-1)
    if name != "linear":
        assert_recorded(row, Slot("fc1", "", Stage.PRE_ACTIVATION), before, unit_axis=-1)


def assert_recorded(row: Row, slot: Slot, tensor: Tensor, **options: Any) -> None:
    expected = stats.describe(tensor.detach().double().numpy(), **options)
    for stat, value in zip(stats.TENSOR_STATS, expected, strict=True):
        if stat is not Stat.SATURATED_SHARE:
            np.testing.assert_allclose(
                row.get(slot, stat), value, rtol=1e-4, atol=1e-6, err_msg=f"{slot} {stat}"
            )


def test_a_value_used_elsewhere_keeps_its_layer_linear(tmp_path: Path) -> None:
    """Logits go to the loss, the softmax beside them to the user: no double activation."""

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            logits = self.fc(x)
            return logits, F.softmax(logits, dim=1)

    row = rows_of(lambda: fit(Both(), lambda m: F.cross_entropy(m(X)[0], Y)), tmp_path)[-1]
    assert [(s.path, s.activation) for s in row.program.layers] == [
        ("fc", "linear"),
        ("softmax", "softmax"),
    ]
    assert row.program.losses[0].output == "fc"


@pytest.mark.parametrize("place", ["module", "inside", "outside"])
def test_softmax_before_cross_entropy(place: str, tmp_path: Path) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 3)
            self.soft = nn.Softmax(dim=1)

        def forward(self, x: Tensor) -> Tensor:
            if place == "module":
                return self.soft(self.fc(x))
            return F.softmax(self.fc(x), dim=1) if place == "inside" else self.fc(x)

    def loss(model: nn.Module) -> Tensor:
        out = model(X)
        return nn.CrossEntropyLoss()(F.softmax(out, dim=1) if place == "outside" else out, Y)

    program = rows_of(lambda: fit(Net(), loss), tmp_path)[0].program
    spec = program.losses[0]
    assert spec.expects is Expects.LOGITS
    assert spec.output is not None
    layer = program.layer(spec.output)
    assert layer is not None and layer.activation == "softmax"
    assert spec.prediction is not None and spec.prediction.rows_sum_to_one


def test_a_broadcast_loss_shows_the_shapes_it_was_called_with(tmp_path: Path) -> None:
    model = nn.Linear(4, 1)
    target = torch.ones(10)
    with pytest.warns(UserWarning, match="broadcasting"):
        row = rows_of(lambda: fit(model, lambda m: F.mse_loss(m(X), target)), tmp_path)[0]
    spec = row.program.losses[0]
    assert (spec.prediction_shape, spec.target_shape) == ((10, 1), (10,))
    assert spec.source is not None and "fit(model" in spec.source.text


def test_loss_and_scaled_loss_are_kept_apart(tmp_path: Path) -> None:
    values: list[tuple[float, float]] = []

    def loss(model: nn.Module) -> Tensor:
        plain = F.cross_entropy(model(X), Y)
        scaled = plain * 64
        values.append((plain.item(), scaled.item()))
        return scaled

    rows = rows_of(lambda: fit(Small(F.relu), loss, steps=30), tmp_path)
    assert [r.scalar(Stage.LOSS) for r in rows] == [v for v, _ in values]
    assert [r.scalar(Stage.LOSS, param="backward") for r in rows] == [v for _, v in values]


@pytest.mark.parametrize("scale", [1, 64])
def test_a_hand_written_loss_is_known_without_its_scale(scale: int, tmp_path: Path) -> None:
    values: list[float] = []
    target = X.sum(1, keepdim=True)

    def loss(model: nn.Module) -> Tensor:
        plain = ((model(X) - target) ** 2).mean()
        values.append(plain.item())
        return plain * scale

    model = nn.Sequential(nn.Linear(4, 1))
    rows = rows_of(lambda: fit(model, loss, steps=30, lr=1e-3), tmp_path)
    assert rows[0].program.losses[0].name == "mse"
    assert rows[0].program.losses[0].output == "0"
    assert [r.scalar(Stage.LOSS) for r in rows] == values


def test_micro_batches_are_averaged_and_losses_summed(tmp_path: Path) -> None:
    values: list[float] = []

    def program() -> None:
        model = Small(F.relu)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            sums = []
            for part in X.split(5):
                out = model(part)
                first, second = F.cross_entropy(out, Y[:5]), F.mse_loss(out, torch.ones(5, 3))
                sums.append(first.item() + second.item())
                ((first + second) / 2).backward()
            values.append(sum(sums) / 2)
            optimizer.step()
            optimizer.zero_grad()

    rows = rows_of(program, tmp_path)
    assert [r.scalar(Stage.LOSS) for r in rows] == pytest.approx(values)


def test_gradients_weights_and_updates_of_every_parameter(tmp_path: Path) -> None:
    kept: list[dict[str, tuple[Tensor, Tensor, Tensor]]] = []

    def program() -> None:
        model = Small(F.relu)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            F.cross_entropy(model(X), Y).backward()
            before = {n: p.detach().clone() for n, p in model.named_parameters()}
            optimizer.step()
            kept.append(
                {
                    n: (before[n], p.grad.clone(), p.detach() - before[n])
                    for n, p in model.named_parameters()
                }
            )

    for row, expected in zip(rows_of(program, tmp_path), kept, strict=True):
        for name, tensors in expected.items():
            layer, own = name.split(".")
            for stage, tensor in zip(
                (Stage.WEIGHT, Stage.WEIGHT_GRAD, Stage.UPDATE), tensors, strict=True
            ):
                assert_recorded(row, Slot(layer, own, stage), tensor)
        assert row.scalar(Stage.HYPER, param="learning_rate") == 0.01


def test_output_gradients_equal_those_of_autograd(tmp_path: Path) -> None:
    row = rows_of(lambda: fit(Small(F.relu), lambda m: F.cross_entropy(m(X), Y)), tmp_path)[0]
    torch.manual_seed(0)
    model = Small(F.relu)
    hidden = F.relu(model.fc1(X))
    out = model.fc2(hidden)
    gradients = torch.autograd.grad(F.cross_entropy(out, Y), [hidden, out])
    for path, gradient in zip(("fc1", "fc2"), gradients, strict=True):
        assert_recorded(row, Slot(path, "", Stage.OUTPUT_GRAD), gradient)


def test_plain_steps_have_loss_metric_and_rate_only(tmp_path: Path) -> None:
    rows = rows_of(
        lambda: fit(Small(F.relu), lambda m: F.cross_entropy(m(X), Y), steps=45), tmp_path
    )
    assert [row.step for row in rows if row.probed] == [*range(21), 40]
    assert all(row.scalar(Stage.LOSS) > 0 for row in rows)
    assert all(0 <= row.scalar(Stage.METRIC, param="accuracy") <= 1 for row in rows)


def test_a_loss_inside_the_model_is_seen_on_every_step(tmp_path: Path) -> None:
    @dataclasses.dataclass
    class Output:
        loss: Tensor
        logits: Tensor

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 3)
            self.criterion = nn.CrossEntropyLoss()

        def forward(self, *, inputs: Tensor, labels: Tensor) -> Output:
            logits = self.fc(inputs)
            return Output(self.criterion(logits, labels), logits)

    rows = rows_of(lambda: fit(Model(), lambda m: m(inputs=X, labels=Y).loss, steps=45), tmp_path)
    assert len(rows) == 45
    assert all(row.scalar(Stage.LOSS) > 0 for row in rows)
    assert rows[0].program.losses[0].output == "fc"
    assert [spec.path for spec in rows[0].program.layers] == ["fc"]


class Raw(nn.Module):
    """Parameters of its own, and no layer."""

    def __init__(self) -> None:
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(4, 8) * 0.3)
        self.w2 = nn.Parameter(torch.randn(8, 3) * 0.3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x @ self.w1) @ self.w2


def test_raw_parameters_belong_to_the_module_that_holds_them(tmp_path: Path) -> None:
    row = rows_of(lambda: fit(Raw(), lambda m: F.cross_entropy(m(X), Y)), tmp_path)[0]
    holder = next(spec for spec in row.program.layers if spec.params)
    assert holder.params == {"w1": (4, 8), "w2": (8, 3)}
    assert [spec.activation for spec in row.program.layers if spec.kind is LayerKind.ACTIVATION]
    assert row.get(Slot(holder.path, "w1", Stage.UPDATE), Stat.NORM) > 0


def test_five_models_one_after_the_other_are_five_runs(tmp_path: Path) -> None:
    def program() -> None:
        for _ in range(5):
            fit(Small(F.relu), lambda m: F.cross_entropy(m(X), Y))

    traces = watched(program, tmp_path).traces
    assert [len(list(trace.rows())) for trace in traces] == [3] * 5


def test_a_gan_is_one_run_with_two_optimizers(tmp_path: Path) -> None:
    trace = watched(PROGRAMS["gan"], tmp_path).trace
    assert len(trace.program.optimizers) == 2
    assert [row.step for row in trace.rows()][:6] == [0, 0, 1, 1, 2, 2]
    probed = [row.order for row in trace.rows() if row.probed]
    assert {order % 2 for order in probed} == {0, 1}


def test_weights_updated_by_hand(tmp_path: Path) -> None:
    def program() -> None:
        model = Small(F.relu)
        for _ in range(5):
            F.cross_entropy(model(X), Y).backward()
            for param in model.parameters():
                param.data -= 0.1 * param.grad
                param.grad = None
            model.eval()
            with torch.no_grad():
                model(X)
            model.train()

    trace = watched(program, tmp_path).trace
    rows = list(trace.rows())
    assert [row.step for row in rows] == [0, 1, 2, 3]  # the last one has no successor
    assert rows[1].get(Slot("fc1", "weight", Stage.UPDATE), Stat.NORM) > 0
    assert set(trace.program.unseen) == {"hyper", "weight_grad"}


def test_lines_of_layers_loss_and_optimizer_are_exact(tmp_path: Path) -> None:
    def program() -> None:
        model = nn.Sequential(
            nn.Linear(4, 8),
            nn.ReLU(),
            nn.Linear(8, 3),
        )
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loss = nn.CrossEntropyLoss()(model(X), Y)
        loss.backward()
        optimizer.step()

    found = watched(program, tmp_path).trace.program
    texts = [spec.source.text for spec in found.layers if spec.source]
    assert texts == ["nn.Linear(4, 8),", "nn.ReLU(),", "nn.Linear(8, 3),"]
    assert all(spec.source.exact for spec in found.layers if spec.source)
    sources = [found.losses[0].source, found.optimizers[0].source, found.fit.source]
    assert [s.text for s in sources if s] == [
        "loss = nn.CrossEntropyLoss()(model(X), Y)",
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
        "optimizer.step()",
    ]


class Twice(nn.Module):
    """One layer, applied to its own output; keeps what the first call gave."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        self.first = self.layer(x)
        self.first.retain_grad()
        return self.layer(torch.tanh(self.first))


def test_of_a_shared_layer_output_and_its_gradient_are_of_the_same_call(tmp_path: Path) -> None:
    model = Twice()
    norms = []

    def train() -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(X).square().mean().backward()
            norms.append([float(v.detach().norm()) for v in (model.first, model.first.grad)])
            optimizer.step()

    rows = rows_of(train, tmp_path)
    stages = (Stage.OUTPUT, Stage.OUTPUT_GRAD)
    seen = [[row.get(Slot("layer", "", stage), Stat.NORM) for stage in stages] for row in rows]
    np.testing.assert_allclose(seen, norms, rtol=1e-5)
