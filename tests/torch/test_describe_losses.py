"""Every loss of torch is described, and the description says how to compute the call's value."""

import math

import numpy as np
import pytest
import torch
from scipy import special
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from stethoscope.torch.calls import LOSS_NAMES
from stethoscope.torch.describe import (
    batch_metric,
    is_loss,
    loss_spec,
    prediction_and_target,
)
from stethoscope.torch.losses import METRIC_SAMPLE
from stethoscope.types import SourceRef
from stethoscope.vocabulary import LOSSES, Expects, TargetKind

N, C = 6, 4


def describe(func, *args, **kwargs):
    return loss_spec(func, args, kwargs, output=None, source=None)


def randn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


IDS = torch.tensor([0, 1, 2, 3, 0, 0])
LOGITS = randn(N, C)
LOGS = LOGITS.log_softmax(1)
PROBABILITIES = LOGITS.softmax(1)
BITS = torch.tensor([[0.0], [1.0]] * 3)
SIGNS = 2 * BITS - 1
REAL = torch.arange(float(N)).reshape(N, 1) - 2
VALUES = randn(N, 1)
IMAGE, IMAGE_IDS = randn(N, C, 2, 3), torch.arange(36).reshape(N, 2, 3) % C

CTC = (
    randn(5, 2, C).log_softmax(2),
    torch.tensor([[1, 2], [3, 1]]),
    torch.tensor([5, 5]),
    torch.tensor([2, 2]),
)
ROWS = (randn(N, 3), randn(N, 3) + 1, randn(N, 3) - 1)

# function -> arguments, canonical name, expects, class axis, elementwise
CASES = {
    "cross_entropy": ((LOGITS, IDS), "sparse_categorical_crossentropy", Expects.LOGITS, 1, False),
    "nll_loss": ((LOGS, IDS), "nll", Expects.LOG_PROBABILITIES, 1, False),
    "binary_cross_entropy": (
        (VALUES.sigmoid(), BITS),
        "binary_crossentropy",
        Expects.PROBABILITIES,
        None,
        True,
    ),
    "binary_cross_entropy_with_logits": (
        (VALUES, BITS),
        "binary_crossentropy",
        Expects.LOGITS,
        None,
        True,
    ),
    "multilabel_soft_margin_loss": (
        (VALUES, BITS),
        "binary_crossentropy",
        Expects.LOGITS,
        None,
        True,
    ),
    "kl_div": (
        (LOGS, LOGITS.flip(0).softmax(1)),
        "kl_divergence",
        Expects.LOG_PROBABILITIES,
        None,
        True,
    ),
    "mse_loss": ((VALUES, REAL), "mse", Expects.VALUES, None, True),
    "l1_loss": ((VALUES, REAL), "mae", Expects.VALUES, None, True),
    "huber_loss": ((VALUES, REAL), "huber", Expects.VALUES, None, True),
    "smooth_l1_loss": ((VALUES, REAL), "huber", Expects.VALUES, None, True),
    "poisson_nll_loss": ((VALUES, REAL.abs()), "poisson", Expects.VALUES, None, True),
    "gaussian_nll_loss": (
        (VALUES, REAL, torch.ones(N, 1)),
        "gaussian_nll",
        Expects.VALUES,
        None,
        True,
    ),
    "ctc_loss": (CTC, "ctc", Expects.LOG_PROBABILITIES, 2, False),
    "soft_margin_loss": ((VALUES, SIGNS), None, Expects.VALUES, None, True),
    "hinge_embedding_loss": ((VALUES, SIGNS), None, Expects.VALUES, None, True),
    "multi_margin_loss": ((LOGITS, IDS), None, Expects.VALUES, 1, False),
    "multilabel_margin_loss": (
        (LOGITS, torch.tensor([[0, 1, -1, -1]] * N)),
        None,
        Expects.VALUES,
        None,
        True,
    ),
}
# function -> arguments: these compare no single prediction with a target.
WITHOUT_PREDICTION = {
    "cosine_embedding_loss": (ROWS[0], ROWS[1], torch.ones(N)),
    "margin_ranking_loss": (VALUES, REAL, SIGNS),
    "triplet_margin_loss": ROWS,
    "triplet_margin_with_distance_loss": ROWS,
    "linear_cross_entropy": (randn(N, 3), randn(C, 3), IDS),
}


# Torch warns of the plain mean of a divergence.
MEAN = {"kl_div": "batchmean"}


def test_the_cases_are_all_losses_of_torch():
    assert {*CASES, *WITHOUT_PREDICTION} == LOSS_NAMES


def reference(spec, func, prediction, target):
    """The mean loss in NumPy, computed from what the description says."""
    p, y = prediction.double().numpy(), target.double().numpy()
    if spec.class_axis is not None:
        p = np.moveaxis(p, spec.class_axis, -1)
    name, expects = spec.name, spec.expects
    if name in ("sparse_categorical_crossentropy", "nll"):
        logs = special.log_softmax(p, -1) if expects is Expects.LOGITS else p
        return -np.mean(np.take_along_axis(logs, target.numpy()[..., None], -1))
    if name == "categorical_crossentropy":
        y = np.moveaxis(y, spec.class_axis, -1)
        return -np.mean((y * special.log_softmax(p, -1)).sum(-1))
    if name == "binary_crossentropy":
        p = special.expit(p) if expects is Expects.LOGITS else p
        return -np.mean(special.xlogy(y, p) + special.xlog1py(1 - y, -p))
    if name == "kl_divergence":
        return np.sum(special.xlogy(y, y) - y * p) / len(p)
    if name == "huber":
        return np.mean(special.huber(spec.config.get("delta", spec.config.get("beta")), p - y))
    formulas = {
        "mse": lambda: (p - y) ** 2,
        "mae": lambda: abs(p - y),
        "poisson": lambda: np.exp(p) - y * p,
        "gaussian_nll": lambda: 0.5 * (p - y) ** 2,
    }
    return np.mean(formulas[name]()) if name in formulas else None


@pytest.mark.parametrize("function", CASES)
def test_every_loss_function_is_described_as_it_computes(function):
    args, name, expects, axis, elementwise = CASES[function]
    func = getattr(functional, function)
    assert is_loss(func)
    source = SourceRef("train.py", 12)
    mean = {"reduction": MEAN.get(function, "mean")}
    spec = loss_spec(func, args, mean, output="head", source=source)
    assert (spec.name, spec.type, spec.expects) == (name, function, expects)
    assert (spec.output, spec.source, spec.reduction) == ("head", source, *mean.values())
    assert (spec.class_axis, spec.weighted) == (axis, False)
    assert spec.config.get("elementwise", True) is elementwise
    prediction, target = prediction_and_target(func, args, {})
    assert prediction is args[0]
    assert target is args[1]
    assert spec.prediction_shape == spec.prediction.batch_shape == tuple(prediction.shape)
    assert spec.target_shape == spec.target.batch_shape == tuple(target.shape)
    assert spec.prediction.min == pytest.approx(float(prediction.min()))
    assert spec.target.mean == pytest.approx(float(target.double().mean()))
    assert spec.name is None or spec.target_kind is LOSSES[name].target
    value = reference(spec, func, prediction, target)
    if value is None:
        assert name in (None, "ctc")
    else:
        assert float(func(*args, **mean)) == pytest.approx(value, rel=1e-5)


@pytest.mark.parametrize("function", WITHOUT_PREDICTION)
def test_losses_without_a_single_prediction_are_described(function):
    func, args = getattr(functional, function), WITHOUT_PREDICTION[function]
    assert is_loss(func)
    assert prediction_and_target(func, args, {}) is None
    spec = loss_spec(func, args, {}, output=None, source=None)
    assert (spec.type, spec.reduction) == (function, "mean")
    assert (spec.prediction, spec.target, spec.prediction_shape) == (None, None, None)
    assert batch_metric(spec, args[0], args[1]) is None


MODULES = {
    name: cls
    for name, cls in vars(nn).items()
    if isinstance(cls, type) and name.endswith("Loss") and not name.startswith("_")
}
FUNCTION_OF = {
    "BCELoss": "binary_cross_entropy",
    "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
    "CTCLoss": "ctc_loss",
    "CosineEmbeddingLoss": "cosine_embedding_loss",
    "CrossEntropyLoss": "cross_entropy",
    "GaussianNLLLoss": "gaussian_nll_loss",
    "HingeEmbeddingLoss": "hinge_embedding_loss",
    "HuberLoss": "huber_loss",
    "KLDivLoss": "kl_div",
    "L1Loss": "l1_loss",
    "LinearCrossEntropyLoss": "linear_cross_entropy",
    "MSELoss": "mse_loss",
    "MarginRankingLoss": "margin_ranking_loss",
    "MultiLabelMarginLoss": "multilabel_margin_loss",
    "MultiLabelSoftMarginLoss": "multilabel_soft_margin_loss",
    "MultiMarginLoss": "multi_margin_loss",
    "NLLLoss": "nll_loss",
    "PoissonNLLLoss": "poisson_nll_loss",
    "SmoothL1Loss": "smooth_l1_loss",
    "SoftMarginLoss": "soft_margin_loss",
    "TripletMarginLoss": "triplet_margin_loss",
    "TripletMarginWithDistanceLoss": "triplet_margin_with_distance_loss",
}


class Losses(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if is_loss(func):
            self.seen.append((func, args, kwargs or {}))
        return func(*args, **(kwargs or {}))


def test_the_loss_modules_are_all_of_torch():
    assert {*FUNCTION_OF, "AdaptiveLogSoftmaxWithLoss"} == set(MODULES)


@pytest.mark.parametrize("name", FUNCTION_OF)
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_every_loss_module_is_seen_as_its_function(name, reduction):
    function = FUNCTION_OF[name]
    reduction = MEAN.get(function, reduction)
    args = WITHOUT_PREDICTION[function] if function in WITHOUT_PREDICTION else CASES[function][0]
    if name == "LinearCrossEntropyLoss":
        module, args = MODULES[name](3, C, reduction=reduction), (args[0], args[2])
    else:
        module = MODULES[name](reduction=reduction)
    with Losses() as mode:
        module(*args)
    ((func, seen_args, seen_kwargs),) = mode.seen
    spec = loss_spec(func, seen_args, seen_kwargs, output=None, source=None)
    assert (spec.type, spec.reduction) == (function, reduction)
    if function in CASES:
        prediction, target = prediction_and_target(func, seen_args, seen_kwargs)
        assert prediction is args[0]
        assert target is args[1]
        assert (spec.name, spec.expects) == CASES[function][1:3]


@pytest.mark.parametrize(
    ("func", "kwargs", "weighted", "config"),
    [
        pytest.param(
            functional.cross_entropy, {"weight": torch.ones(C)}, True, {}, id="class weights"
        ),
        pytest.param(
            functional.cross_entropy,
            {"label_smoothing": 0.1},
            True,
            {"label_smoothing": 0.1},
            id="label smoothing",
        ),
        pytest.param(functional.cross_entropy, {"ignore_index": 2}, False, {}, id="ignored class"),
    ],
)
def test_settings_of_a_loss(func, kwargs, weighted, config):
    spec = describe(func, LOGITS, IDS, **kwargs)
    assert spec.weighted is weighted
    assert spec.ignore_index == kwargs.get("ignore_index", -100)
    assert {name: spec.config[name] for name in config} == config


def test_position_weights_make_it_weighted():
    spec = describe(
        functional.binary_cross_entropy_with_logits, VALUES, BITS, pos_weight=torch.ones(1)
    )
    assert spec.weighted is True


@pytest.mark.parametrize(
    ("arguments", "reduction"),
    [
        ({"reduction": "none"}, "none"),
        ({"size_average": False}, "sum"),
        ({"reduce": False}, "none"),
        ({"size_average": True, "reduction": "sum"}, "mean"),
    ],
    ids=["by name", "old sum", "old none", "the old one wins"],
)
def test_reduction_in_every_spelling(arguments, reduction):
    assert describe(functional.mse_loss, VALUES, REAL, **arguments).reduction == reduction


def test_arguments_by_keyword():
    spec = describe(functional.cross_entropy, target=IDS, input=LOGITS)
    assert (spec.prediction_shape, spec.target_shape) == ((N, C), (N,))


def test_a_distribution_as_target():
    spec = describe(functional.cross_entropy, LOGITS, PROBABILITIES)
    assert (spec.name, spec.ignore_index) == ("categorical_crossentropy", None)
    assert spec.target_kind is TargetKind.DISTRIBUTION
    assert spec.target.rows_sum_to_one is True
    expected = reference(spec, None, LOGITS, PROBABILITIES)
    assert float(functional.cross_entropy(LOGITS, PROBABILITIES)) == pytest.approx(expected)


def test_class_axis_of_images_and_of_single_samples():
    spec = describe(functional.cross_entropy, IMAGE.softmax(1), IMAGE_IDS)
    assert (spec.class_axis, spec.prediction.rows_sum_to_one) == (1, True)
    assert (spec.prediction.shape, spec.target.shape) == ((C, 2, 3), (2, 3))
    assert spec.target.class_counts == ((0.0, 9), (1.0, 9), (2.0, 9), (3.0, 9))
    wrong = describe(functional.cross_entropy, IMAGE.softmax(-1), IMAGE_IDS)
    assert wrong.prediction.rows_sum_to_one is False
    single = describe(functional.cross_entropy, LOGITS[0], IDS[0])
    assert (single.class_axis, single.name) == (0, "sparse_categorical_crossentropy")
    assert (single.prediction_shape, single.target_shape) == ((C,), ())


@pytest.mark.parametrize(
    ("given", "expected"), [(LOGS, True), (LOGITS, False), (PROBABILITIES, False)]
)
def test_log_probabilities_are_told_from_other_numbers(given, expected):
    for func in (functional.nll_loss, functional.cross_entropy):
        assert describe(func, given, IDS).config["log_probabilities"] is expected


def test_half_precision_log_probabilities_are_still_some():
    spec = describe(functional.nll_loss, LOGITS.bfloat16().log_softmax(1).float(), IDS)
    exact = describe(functional.nll_loss, LOGITS.half().log_softmax(1), IDS)
    assert exact.config["log_probabilities"] is True
    assert exact.prediction.dtype == "float16"
    assert isinstance(spec.config["log_probabilities"], bool)


def test_ignored_targets_are_left_out_of_their_facts():
    ids = torch.tensor([0, 1, -100, -100, -100, 2])
    spec = describe(functional.cross_entropy, LOGITS, ids)
    assert spec.config["ignored_share"] == 0.5
    assert (spec.target.min, spec.target.class_counts) == (0.0, ((0.0, 1), (1.0, 1), (2.0, 1)))
    everything = describe(functional.cross_entropy, LOGITS, torch.full((N,), -100))
    assert everything.config["ignored_share"] == 1.0
    assert everything.target.class_counts == ()


def test_broadcast_shapes_are_as_passed():
    spec = describe(functional.mse_loss, VALUES, REAL[:, 0])
    assert (spec.prediction_shape, spec.target_shape) == ((N, 1), (N,))
    assert batch_metric(spec, VALUES, REAL[:, 0]) is None


def test_large_tensors_are_looked_at_in_part():
    big = torch.zeros(20_000, 4)
    big[:, 1] = 1.0
    spec = describe(functional.cross_entropy, big, torch.ones(20_000, dtype=torch.long))
    assert sum(count for _, count in spec.target.class_counts) <= 4096
    assert (spec.prediction.batch_shape, spec.prediction.one_hot) == ((20_000, 4), True)
    assert spec.prediction.rows_seen == 20_000
    assert batch_metric(spec, big, torch.ones(20_000, dtype=torch.long)) == ("accuracy", 1.0)
    pixels = torch.rand(4, 3, 300, 300)
    assert describe(functional.mse_loss, pixels, pixels).target.shape == (3, 300, 300)


def test_wide_rows_are_looked_at_in_part_but_add_up_as_a_whole():
    wide = randn(40, 20_000).softmax(1)
    ids = torch.arange(40)
    spec = describe(functional.cross_entropy, wide, ids)
    assert (spec.prediction.rows_sum_to_one, spec.prediction.one_hot) == (True, False)
    assert spec.prediction.columns == ()
    assert describe(functional.cross_entropy, 2 * wide, ids).prediction.rows_sum_to_one is False
    logs = describe(functional.nll_loss, wide.log(), ids)
    assert (logs.config["log_probabilities"], logs.prediction.max < 0) == (True, True)
    assert len(spec.target.class_counts) == 40


def test_sequences_of_divergences_have_their_classes_last():
    logs = randn(2, 5, 4).log_softmax(-1)
    spec = describe(functional.kl_div, logs, logs.exp(), reduction="sum")
    assert spec.config["log_probabilities"] is True
    assert spec.target.rows_sum_to_one is True
    assert spec.prediction.columns == ()


def test_the_metric_of_a_large_prediction_takes_both_sides_at_the_same_places():
    ids = torch.arange(4 * 600 * 600).reshape(4, 600, 600) % 3
    prediction = functional.one_hot(ids, 3).float().movedim(-1, 1)
    assert prediction.numel() > METRIC_SAMPLE
    spec = describe(functional.cross_entropy, prediction, ids)
    assert batch_metric(spec, prediction, ids) == ("accuracy", 1.0)
    values = torch.linspace(0, 1, METRIC_SAMPLE + 2).reshape(-1, 2)
    assert batch_metric(describe(functional.mse_loss, values, values), values, values) == ("r2", 1)


@pytest.mark.parametrize("bad", [math.nan, math.inf], ids=["nan", "inf"])
def test_non_finite_arguments_are_counted(bad):
    values = VALUES.clone()
    values[0] = bad
    spec = describe(functional.mse_loss, values, REAL)
    assert spec.prediction.nonfinite_share == pytest.approx(1 / N)
    assert describe(functional.cross_entropy, LOGITS * bad, IDS).prediction.min is None


def test_what_has_no_numbers_still_has_shapes():
    meta = torch.ones(N, C, device="meta")
    spec = describe(functional.mse_loss, meta, meta)
    assert (spec.prediction_shape, spec.prediction) == ((N, C), None)
    assert batch_metric(spec, meta, meta) is None


def test_description_needs_no_gradient_and_draws_no_number():
    output = LOGITS.clone().requires_grad_()
    state, version = torch.get_rng_state(), output._version
    spec = describe(functional.cross_entropy, output, IDS)
    batch_metric(spec, output, IDS)
    assert torch.equal(state, torch.get_rng_state())
    assert (output._version, output.grad, output.requires_grad) == (version, None, True)


def test_other_functions_are_no_losses():
    for func in (functional.relu, torch.mean, torch.Tensor.mul, functional.cosine_similarity):
        assert not is_loss(func)

    def mse_loss(a, b):
        return a

    assert not is_loss(mse_loss)


ONES = torch.ones(N, dtype=torch.long)
SURE = functional.one_hot(ONES, C).float()

METRICS = {
    "class ids": (functional.cross_entropy, (SURE, torch.tensor([1, 1, 1, 0, 0, 0])), 0.5),
    "ignored ids": (functional.cross_entropy, (SURE, torch.tensor([1, 0, -100, -100, 1, 1])), 0.75),
    "distributions": (functional.cross_entropy, (SURE, SURE), 1.0),
    "log-probabilities": (functional.nll_loss, (LOGS, LOGS.argmax(1)), 1.0),
    "images": (functional.cross_entropy, (IMAGE, IMAGE.argmax(1)), 1.0),
    "a single sample": (functional.cross_entropy, (SURE[0], ONES[0]), 1.0),
    "logits": (
        functional.binary_cross_entropy_with_logits,
        (torch.tensor([0.2, -0.2, 3.0, -3.0]), torch.tensor([1.0, 0.0, 0.0, 0.0])),
        0.75,
    ),
    "probabilities": (
        functional.binary_cross_entropy,
        (torch.tensor([0.2, 0.6, 0.7, 0.1]), torch.tensor([1.0, 1.0, 1.0, 0.0])),
        0.75,
    ),
}


@pytest.mark.parametrize(("func", "args", "expected"), METRICS.values(), ids=METRICS)
def test_accuracy_is_that_of_the_batch(func, args, expected):
    spec = describe(func, *args)
    assert batch_metric(spec, *args) == ("accuracy", pytest.approx(expected))


def test_accuracy_of_nothing_is_none():
    ids = torch.full((N,), -100)
    assert batch_metric(describe(functional.cross_entropy, LOGITS, ids), LOGITS, ids) is None


@pytest.mark.parametrize("func", [functional.mse_loss, functional.l1_loss, functional.huber_loss])
def test_r2_is_that_of_the_batch(func):
    from sklearn.metrics import r2_score

    spec = describe(func, VALUES, REAL)
    name, value = batch_metric(spec, VALUES, REAL)
    assert (name, value) == ("r2", pytest.approx(r2_score(REAL.numpy(), VALUES.numpy())))


@pytest.mark.parametrize(
    ("prediction", "target"),
    [
        (VALUES, torch.ones(N, 1)),
        (VALUES, REAL * math.nan),
        (VALUES[:1], REAL[:1]),
    ],
    ids=["constant target", "nan target", "one sample"],
)
def test_r2_without_a_meaning_is_none(prediction, target):
    assert (
        batch_metric(describe(functional.mse_loss, prediction, target), prediction, target) is None
    )


def test_r2_of_a_prediction_that_is_nan_is_nan():
    spec = describe(functional.mse_loss, VALUES, REAL)
    name, value = batch_metric(spec, VALUES * math.nan, REAL)
    assert name == "r2" and math.isnan(value)
