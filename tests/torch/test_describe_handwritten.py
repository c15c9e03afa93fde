"""Losses written out of tensor operations: recognised from the calls, with hand-computed facts."""

import inspect

import pytest
import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from stethoscope.torch.describe import Call, hand_written_loss
from stethoscope.types import SourceRef
from stethoscope.vocabulary import Expects

N, C = 6, 4


class Recording(TorchFunctionMode):
    """Keeps every call with the caller's line."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        frame = inspect.currentframe()
        while frame and frame.f_code.co_filename != __file__:
            frame = frame.f_back
        while frame and frame.f_code is Recording.__torch_function__.__code__:
            frame = frame.f_back
        while frame and frame.f_code.co_filename != __file__:
            frame = frame.f_back
        source = SourceRef("test", frame.f_lineno) if frame else None
        self.calls.append(Call(func, args, kwargs or {}, result, source))
        return result


def describe(write, *tensors, output=None):
    """The description of `write(*tensors)`, where the first tensor is what a model gave."""
    output = tensors[0] if output is None else output
    with Recording() as mode:
        loss = write(*tensors)
    return hand_written_loss(mode.calls, loss, outputs={id(output): "head"})


def real(*shape):
    torch.manual_seed(0)
    return torch.randn(*shape, requires_grad=True)


def values(*shape):
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape)


MSE = {
    "power": lambda p, y: ((p - y) ** 2).mean(),
    "torch.pow": lambda p, y: torch.mean(torch.pow(y - p, 2)),
    "square": lambda p, y: torch.square(p.sub(y)).mean(),
    "product": lambda p, y: (lambda d: (d * d).mean())(p - y),
    "sum over count": lambda p, y: ((p - y) ** 2).sum() / p.numel(),
    "two means": lambda p, y: (p - y).pow(2).mean(dim=1).mean(),
    "negated": lambda p, y: -(-((p - y) ** 2)).mean(),
    "in place": lambda p, y: (p - y).pow_(2).mean(),
    "keyword": lambda p, y: torch.mean(input=torch.sub(p, other=y) ** 2),
    "added negation": lambda p, y: ((p + (-y)) ** 2).mean(),
    "flattened": lambda p, y: ((p.reshape(-1) - y.reshape(-1)) ** 2).mean(),
}


@pytest.mark.parametrize("write", MSE.values(), ids=MSE)
def test_mean_squared_error_in_every_spelling(write):
    spec = describe(write, real(N, 2), values(N, 2))
    assert (spec.name, spec.type, spec.expects) == ("mse", "hand-written", Expects.VALUES)
    assert (spec.output, spec.reduction, spec.weighted) == ("head", "mean", False)
    assert (spec.target.min, spec.target.max, spec.target.mean) == (0.0, 11.0, 5.5)


@pytest.mark.parametrize(
    ("write", "name", "reduction", "config"),
    [
        pytest.param(lambda p, y: torch.abs(p - y).mean(), "mae", "mean", {}, id="mae"),
        pytest.param(lambda p, y: (y - p).abs().sum(), "mae", "sum", {}, id="sum of absolutes"),
        pytest.param(lambda p, y: ((p - y) ** 2).sum(), "mse", "sum", {}, id="sum of squares"),
        pytest.param(
            lambda p, y: torch.sqrt(((p - y) ** 2).mean()), "mse", "mean", {"root": True}, id="rmse"
        ),
        pytest.param(
            lambda p, y: (((p - y) ** 2).mean() + 1e-8) ** 0.5,
            "mse",
            "mean",
            {"root": True},
            id="rmse with epsilon",
        ),
        pytest.param(
            lambda p, y: 0.5 * ((p - y) ** 2).mean(), "mse", "mean", {"scale": 0.5}, id="half"
        ),
        pytest.param(
            lambda p, y: torch.log(torch.cosh(p - y)).mean(), "log_cosh", "mean", {}, id="log cosh"
        ),
        pytest.param(lambda p, y: torch.relu(1 - y * p).mean(), "hinge", "mean", {}, id="hinge"),
        pytest.param(
            lambda p, y: (torch.clamp(1 - p * y, min=0) ** 2).mean(),
            "squared_hinge",
            "mean",
            {},
            id="squared hinge",
        ),
    ],
)
def test_other_regression_losses(write, name, reduction, config):
    spec = describe(write, real(N, 2), values(N, 2))
    assert (spec.name, spec.reduction, dict(spec.config)) == (name, reduction, config)
    assert spec.weighted == ("scale" in config)


def test_operands_decide_the_sides_whatever_their_order():
    for write in (lambda p, y: ((p - y) ** 2).mean(), lambda p, y: ((y - p) ** 2).mean()):
        spec = describe(write, real(N, 1), values(N, 1) + 100)
        assert spec.target.min == 100.0
        assert spec.prediction.max < 100.0


@pytest.mark.parametrize(
    ("prediction", "target"),
    [((N, 1), (N,)), ((N,), (N, 1))],
    ids=["column against flat", "flat against column"],
)
def test_broadcast_shapes_are_those_of_the_operands(prediction, target):
    spec = describe(lambda p, y: ((p - y) ** 2).mean(), real(*prediction), values(*target))
    assert (spec.name, spec.prediction_shape, spec.target_shape) == ("mse", prediction, target)


def test_broadcast_is_told_of_a_formula_that_is_not_recognised():
    def write(p, y):
        wrong = p / (y + 1)
        return wrong.exp().mean()

    spec = describe(write, real(N, 1), values(N))
    assert spec.name is None
    assert (spec.prediction_shape, spec.target_shape) == ((N, 1), (N,))
    assert spec.source.line == write.__code__.co_firstlineno + 1


def test_what_is_computed_from_an_output_is_none_itself():
    p, y = real(N, 1), values(N)
    with Recording() as mode:
        wrong = p / (y + 1)
        big = wrong.exp()
        loss = big.mean()
    outputs = {id(tensor): "head" for tensor in (p, wrong, big)}
    spec = hand_written_loss(mode.calls, loss, outputs=outputs)
    assert (spec.output, spec.prediction_shape, spec.target_shape) == ("head", (N, 1), (N,))


def test_source_is_the_line_that_compares():
    def write(p, y):
        difference = p - y
        squares = difference**2
        return squares.mean()

    spec = describe(write, real(N, 1), values(N))
    assert spec.source.line == write.__code__.co_firstlineno + 1


def binary_crossentropy(p, y):
    return -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()


BINARY = {
    "as in the books": binary_crossentropy,
    "with epsilon": lambda p, y: (
        -(y * torch.log(p + 1e-7) + (1 - y) * torch.log(1 - p + 1e-7)).mean()
    ),
    "signs inside": lambda p, y: (-y * torch.log(p) - (1 - y) * torch.log(1 - p)).sum() / p.numel(),
    "two means": lambda p, y: -(y * p.log()).mean() - ((1.0 - y) * torch.log(1.0 - p)).mean(),
    "other order": lambda p, y: -((1 - y) * (1 - p).log() + y * p.log()).mean(),
    "clamped": lambda p, y: binary_crossentropy(p.clamp(1e-7, 1 - 1e-7), y),
}


@pytest.mark.parametrize("write", BINARY.values(), ids=BINARY)
def test_binary_crossentropy_on_probabilities(write):
    target = torch.tensor([[0.0], [1.0]] * 3)
    spec = describe(write, torch.sigmoid(real(N, 1)), target)
    assert (spec.name, spec.expects) == ("binary_crossentropy", Expects.PROBABILITIES)
    assert (spec.output, spec.reduction, spec.weighted) == ("head", "mean", False)
    assert spec.target.class_counts == ((0.0, 3), (1.0, 3))
    assert 0 < spec.prediction.min < spec.prediction.max < 1


def test_binary_crossentropy_with_a_sigmoid_of_its_own_takes_logits():
    spec = describe(
        lambda x, y: binary_crossentropy(torch.sigmoid(x), y), real(N, 1), torch.ones(N, 1)
    )
    assert (spec.name, spec.expects, spec.output) == (
        "binary_crossentropy",
        Expects.LOGITS,
        "head",
    )


def test_binary_crossentropy_with_class_weights_is_weighted():
    def write(p, y):
        return -(5 * y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()

    spec = describe(write, torch.sigmoid(real(N, 1)), torch.ones(N, 1))
    assert (spec.name, spec.weighted) == ("binary_crossentropy", True)


IDS = torch.tensor([0, 1, 2, 3, 0, 0])

PICKED = {
    "index": lambda x: -functional.log_softmax(x, dim=1)[range(N), IDS].mean(),
    "index of the negated": lambda x: (-x.log_softmax(1))[torch.arange(N), IDS].mean(),
    "gather": lambda x: -torch.log_softmax(x, 1).gather(1, IDS.unsqueeze(1)).mean(),
    "gather by keyword": lambda x: (
        -x.log_softmax(dim=-1).gather(dim=-1, index=IDS[:, None]).squeeze().mean()
    ),
    "log of softmax": lambda x: -torch.log(torch.softmax(x, 1))[range(N), IDS].sum() / N,
    "log of the picked": lambda x: -torch.log(torch.softmax(x, 1)[range(N), IDS] + 1e-9).mean(),
    "logsumexp": lambda x: -(x - x.logsumexp(1, keepdim=True))[range(N), IDS].mean(),
}


@pytest.mark.parametrize("write", PICKED.values(), ids=PICKED)
def test_crossentropy_with_class_ids(write):
    spec = describe(write, real(N, C))
    assert (spec.name, spec.expects) == ("sparse_categorical_crossentropy", Expects.LOGITS)
    assert (spec.output, spec.reduction, spec.weighted) == ("head", "mean", False)
    assert (spec.class_axis, spec.prediction_shape) == (1, (N, C))
    assert spec.target.class_counts == ((0.0, 3), (1.0, 1), (2.0, 1), (3.0, 1))


def test_crossentropy_on_the_output_of_a_softmax_takes_probabilities():
    spec = describe(lambda p: -torch.log(p)[range(N), IDS].mean(), torch.softmax(real(N, C), 1))
    assert spec.name == "sparse_categorical_crossentropy"
    assert spec.expects is Expects.PROBABILITIES
    assert spec.prediction.rows_sum_to_one is True


@pytest.mark.parametrize("logs", [True, False], ids=["log-probabilities", "raw"])
def test_picking_from_the_output_itself_is_nll(logs):
    output = functional.log_softmax(real(N, C), 1) if logs else real(N, C) + 1
    spec = describe(lambda x: -x[range(N), IDS].mean(), output)
    assert (spec.name, spec.expects) == ("nll", Expects.LOG_PROBABILITIES)
    assert spec.config["log_probabilities"] is logs


HOT = functional.one_hot(IDS, C).float()

WEIGHTED_ROWS = {
    "sum then mean": (lambda x: -(HOT * functional.log_softmax(x, 1)).sum(1).mean(), {}),
    "sum over batch": (lambda x: -torch.sum(HOT * torch.log(torch.softmax(x, 1))) / N, {}),
    "mean over classes too": (lambda x: -(HOT * x.log_softmax(1)).mean(), {"scale": 1 / C}),
    "negated weights": (lambda x: (-HOT * x.log_softmax(1)).sum(1).mean(), {}),
    "logarithm first": (lambda x: -(x.log_softmax(-1) * HOT).sum(-1).mean(), {}),
}


@pytest.mark.parametrize(("write", "scale"), WEIGHTED_ROWS.values(), ids=WEIGHTED_ROWS)
def test_crossentropy_with_distributions(write, scale):
    spec = describe(write, real(N, C))
    assert (spec.name, spec.expects) == ("categorical_crossentropy", Expects.LOGITS)
    assert (spec.output, spec.reduction, spec.class_axis) == ("head", "mean", 1)
    assert spec.target.one_hot is True
    assert {k: v for k, v in spec.config.items() if k == "scale"} == pytest.approx(scale)


def test_a_penalty_on_the_weights_makes_it_weighted():
    weight = real(3)
    spec = describe(
        lambda p, y: ((p - y) ** 2).mean() + 0.01 * (weight**2).sum(), real(N, 1), values(N, 1)
    )
    assert (spec.name, spec.weighted) == ("mse", True)


ADVANTAGE = torch.tensor([1.0, -2.0, 0.5, 3.0, -1.0, 0.1])

NOT_RECOGNISED = {
    "policy gradient": lambda x: (
        -(x.log_softmax(1).gather(1, IDS[:, None]).squeeze(1) * ADVANTAGE).mean()
    ),
    "policy gradient over all actions": lambda x: -(x.log_softmax(1) * values(N, C)).sum(1).mean(),
    "distribution to be unlearned": lambda x: (HOT * x.log_softmax(1)).sum(1).mean(),
    "bits to be unlearned": lambda x: -binary_crossentropy(x.sigmoid(), HOT),
    "entropy": lambda x: -(x.softmax(1) * x.log_softmax(1)).sum(1).mean(),
    "wasserstein critic": lambda x: x[:3].mean() - x[3:].mean(),
    "least squares critic": lambda x: ((x[:3] - 1) ** 2).mean() + (x[3:] ** 2).mean(),
    "distance of two outputs": lambda x: ((x[:3] - x[3:]) ** 2).mean(),
    "all pairs": lambda x: ((x.unsqueeze(1) - values(1, N, C)) ** 2).mean(),
    "likelihood to be lowered": lambda x: x.log_softmax(1)[range(N), IDS].mean(),
    "negative error": lambda x: -((x - values(N, C)) ** 2).mean(),
    "mean of the output": lambda x: x.mean(),
    "two targets": lambda x: ((x - HOT) ** 2).mean() + (x - values(N, C)).abs().mean(),
}


@pytest.mark.parametrize("write", NOT_RECOGNISED.values(), ids=NOT_RECOGNISED)
def test_other_formulas_are_not_named(write):
    spec = describe(write, real(N, C))
    assert (spec.name, spec.type) == (None, "hand-written")
    assert spec.prediction_shape is None
    assert spec.source is not None


def test_a_tensor_that_no_call_made_has_no_description():
    assert hand_written_loss([], real(1), outputs={}) is None


def test_describing_draws_no_random_number_and_changes_no_tensor():
    p, y = real(N, 2), values(N, 2)
    before, state = p.detach().clone(), torch.get_rng_state()
    describe(lambda p, y: ((p - y) ** 2).mean(), p, y)
    assert torch.equal(state, torch.get_rng_state())
    assert torch.equal(before, p)
