"""Losses and optimizers of torch, translated: the same training."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from stethoscope.engine.describe import program
from stethoscope.engine.translate import translate
from stethoscope.vocabulary import Expects

pytest.importorskip("torch")

from tests.engine.against_torch import (
    ADAM,
    SGD,
    STEPS,
    bits,
    compare,
    equal,
    ids,
    mlp,
    nn,
    real,
    shares,
    signs,
    step_of,
    torch,
)

LOSSES = {
    "mse": (nn.MSELoss(), real),
    "mse-sum": (nn.MSELoss(reduction="sum"), real),
    "mae": (nn.L1Loss(), real),
    "huber": (nn.HuberLoss(delta=0.3), real),
    "smooth": (nn.SmoothL1Loss(), real),
    "smooth-beta": (nn.SmoothL1Loss(beta=0.2), real),
    "smooth-0": (nn.SmoothL1Loss(beta=0.0), real),
    "entropy": (nn.CrossEntropyLoss(ignore_index=1), ids),
    "entropy-weights": (nn.CrossEntropyLoss(weight=torch.tensor([0.5, 1.0, 3.0])), ids),
    "entropy-smooth": (nn.CrossEntropyLoss(label_smoothing=0.2, ignore_index=2), ids),
    "entropy-all": (
        nn.CrossEntropyLoss(
            weight=torch.tensor([0.5, 1.0, 3.0]), label_smoothing=0.2, ignore_index=0
        ),
        ids,
    ),
    "entropy-sum": (nn.CrossEntropyLoss(reduction="sum", label_smoothing=0.1), ids),
    "binary": (nn.BCEWithLogitsLoss(), bits),
    "binary-weights": (nn.BCEWithLogitsLoss(pos_weight=torch.tensor([0.5, 1.0, 3.0])), bits),
    "labels": (nn.MultiLabelSoftMarginLoss(), bits),
    "poisson": (nn.PoissonNLLLoss(), real),
    "soft-margin": (nn.SoftMarginLoss(), signs),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name):
    loss, targets = LOSSES[name]
    model = mlp(nn.Tanh())
    compare(
        model, loss, SGD(model.parameters(), 0.005 if loss.reduction == "sum" else 0.05), targets
    )


LOSSES_AFTER = {
    "bce": (nn.Sigmoid(), nn.BCELoss(), bits),
    "nll": (nn.LogSoftmax(1), nn.NLLLoss(weight=torch.tensor([0.5, 1.0, 3.0])), ids),
    "divergence": (nn.LogSoftmax(1), nn.KLDivLoss(reduction="batchmean"), shares),
    "divergence-sum": (nn.LogSoftmax(1), nn.KLDivLoss(reduction="sum"), shares),
    "divergence-logs": (
        nn.LogSoftmax(1),
        nn.KLDivLoss(reduction="batchmean", log_target=True),
        lambda x: np.log(shares(x) + 0.1),
    ),
    "poisson": (nn.Softplus(), nn.PoissonNLLLoss(log_input=False), real),
}


@pytest.mark.parametrize("name", LOSSES_AFTER)
def test_losses_after_an_activation(name):
    last, loss, targets = LOSSES_AFTER[name]
    model = nn.Sequential(*mlp(nn.Tanh()), last)
    compare(model, loss, SGD(model.parameters(), 0.01), targets)


@pytest.mark.parametrize("name", [*LOSSES, *LOSSES_AFTER])
def test_losses_in_float64(name):
    last, loss, targets = LOSSES_AFTER.get(name) or (nn.Identity(), *LOSSES[name])
    loss = copy.deepcopy(loss).double()
    model = nn.Sequential(nn.Linear(4, 3))
    ours = translate(model, loss=loss, optimizer=SGD(model.parameters())).losses[0]
    x = np.random.default_rng(0).normal(size=(8, 4))
    y = targets(x) if targets is ids else targets(x).astype(np.float64)
    prediction = last(torch.from_numpy(x[:, 1:])).requires_grad_()
    expected = loss(prediction, torch.from_numpy(y))
    expected.backward()
    value, gradient = ours(y, prediction.detach().numpy())
    np.testing.assert_allclose(value, expected.item(), rtol=1e-10)
    np.testing.assert_allclose(gradient, prediction.grad.numpy(), rtol=1e-9, atol=1e-14)
    assert gradient.dtype == np.float64
    single = ours(y, prediction.detach().numpy().astype(np.float32))[1]
    assert single.dtype == np.float32


def test_losses_of_more_axes():
    for loss, targets in (
        (nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0])), lambda x: ids_of_places(x)),
        (nn.MSELoss(), lambda x: x[:, :1].repeat(3, axis=1)),
        (nn.KLDivLoss(reduction="batchmean"), lambda x: np.abs(x[:, :1]).repeat(3, axis=1)),
    ):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv1d(2, 3, 1))
        compare(model, loss, SGD(model.parameters(), 0.05), targets, shape=(2, 5))


def ids_of_places(x):
    return (x[:, 0] > 0).astype(np.int64) + (x[:, 1] > 0)


def test_probabilities_of_exactly_0_and_1():
    p = np.array([[0.0, 1.0, 0.0, 1.0, 0.5]], np.float32)
    target = np.array([[0.0, 1.0, 1.0, 0.0, 1.0]], np.float32)
    tensor = torch.tensor(p, requires_grad=True)
    expected = nn.BCELoss()(tensor, torch.from_numpy(target))
    expected.backward()
    model = nn.Sequential(nn.Linear(1, 5))
    found = translate(model, loss=nn.BCELoss(), optimizer=SGD(model.parameters()))
    value, gradient = found.losses[0](target, p)
    equal(value, expected.item())
    equal(gradient, tensor.grad.numpy())


@pytest.mark.parametrize("kind", [nn.CrossEntropyLoss, nn.NLLLoss])
def test_other_classes_that_are_impossible(kind):
    x, ids = np.array([[0.5, -np.inf, 0.2], [-0.1, -0.4, -np.inf]]), np.array([2, 0])
    tensor = torch.tensor(x, requires_grad=True)
    expected = kind()(tensor, torch.from_numpy(ids))
    expected.backward()
    model = mlp()
    found = translate(model, loss=kind(), optimizer=SGD(model.parameters())).losses[0]
    value, gradient = found(ids, x)
    np.testing.assert_allclose(value, expected.item())
    np.testing.assert_allclose(gradient, tensor.grad.numpy(), atol=1e-15)


def test_an_absolute_error_of_0_has_no_gradient():
    model = nn.Sequential(nn.Linear(1, 2))
    found = translate(model, loss=nn.L1Loss(), optimizer=SGD(model.parameters()))
    value, gradient = found.losses[0](np.array([[1.0, 2.0]]), np.array([[1.0, 5.0]]))
    assert (value, gradient.tolist()) == (1.5, [[0.0, 0.5]])


def test_a_batch_of_which_no_sample_counts():
    model = mlp()
    loss = nn.CrossEntropyLoss(ignore_index=0)
    found = translate(model, loss=loss, optimizer=SGD(model.parameters()))
    step = found.train_on_batch(np.zeros((2, 4), np.float32), np.zeros(2, np.int64))
    assert np.isnan(step.loss)


OPT = torch.optim
OPTIMIZERS = {
    "momentum": lambda p: OPT.SGD(p, 0.05, momentum=0.9),
    "nesterov": lambda p: OPT.SGD(p, 0.05, momentum=0.9, nesterov=True, weight_decay=0.1),
    "dampening": lambda p: OPT.SGD(p, 0.05, momentum=0.9, dampening=0.4),
    "maximize": lambda p: OPT.SGD(p, 0.01, maximize=True, weight_decay=0.1),
    "adam": lambda p: OPT.Adam(p, 0.01, betas=(0.8, 0.99), eps=1e-2),
    "adam-decay": lambda p: OPT.Adam(p, torch.tensor(0.01), weight_decay=0.1, amsgrad=True),
    "adam-decay-apart": lambda p: OPT.Adam(p, 0.01, weight_decay=0.1, decoupled_weight_decay=True),
    "adamw": lambda p: OPT.AdamW(p, 0.01, weight_decay=0.5),
    "adamw-amsgrad": lambda p: OPT.AdamW(p, 0.01, weight_decay=0.1, amsgrad=True, eps=1e-2),
    "adamw-no-decay": lambda p: OPT.AdamW(p, 0.01, weight_decay=0.0),
    "nadam": lambda p: OPT.NAdam(p, 0.01, momentum_decay=0.1, weight_decay=0.1),
    "nadam-decay-apart": lambda p: OPT.NAdam(
        p, 0.01, weight_decay=0.1, decoupled_weight_decay=True
    ),
    "adamax": lambda p: OPT.Adamax(p, 0.01, eps=1e-2, weight_decay=0.1),
    "rmsprop": lambda p: OPT.RMSprop(p, 0.01, eps=1e-2),
    "rmsprop-all": lambda p: OPT.RMSprop(
        p, 0.01, alpha=0.9, momentum=0.5, centered=True, weight_decay=0.1, eps=1e-3
    ),
    "adagrad": lambda p: OPT.Adagrad(p, 0.05, lr_decay=0.1, initial_accumulator_value=0.2),
    "adadelta": lambda p: OPT.Adadelta(p, 0.5, rho=0.8, weight_decay=0.1),
}


@pytest.mark.parametrize("before", [0, 5], ids=["new", "mid-training"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name, before):
    model = mlp(nn.Tanh())
    optimizer = OPTIMIZERS[name](model.parameters())
    compare(model, nn.CrossEntropyLoss(), optimizer, ids, before=before)


def test_groups_with_the_same_settings_are_one():
    model = mlp(nn.Tanh())
    groups = [{"params": part.parameters()} for part in model]
    found = translate(model, loss=nn.MSELoss(), optimizer=ADAM(groups, 0.01))
    assert found.optimizer.rate == 0.01


def test_what_no_optimizer_moves_is_frozen():
    model = mlp(nn.Tanh())
    optimizer = ADAM(model[1].parameters(), 0.01)
    compare(model, nn.CrossEntropyLoss(), optimizer, ids)
    model = mlp(nn.Tanh())
    model[0].requires_grad_(False)
    compare(model, nn.CrossEntropyLoss(), ADAM(model.parameters(), 0.01), ids)


def test_float64():
    model = mlp(nn.Tanh()).double()
    optimizer = ADAM(model.parameters(), 0.01)
    found = translate(model, loss=nn.CrossEntropyLoss(), optimizer=optimizer, dtype="float64")
    x = np.random.default_rng(0).normal(size=(8, 4))
    losses = [found.train_on_batch(x, ids(x)).loss for _ in range(STEPS)]
    expected = [step_of(model, nn.CrossEntropyLoss(), optimizer, x, ids(x)) for _ in range(STEPS)]
    np.testing.assert_allclose(losses, expected, rtol=1e-7)


def test_what_a_translated_loss_takes_is_told():
    model = nn.Sequential(*mlp(), nn.LogSoftmax(1))
    optimizer = SGD(model.parameters())
    for loss, expects, weighted in (
        (nn.KLDivLoss(reduction="batchmean"), Expects.LOG_PROBABILITIES, False),
        (nn.NLLLoss(), Expects.LOG_PROBABILITIES, False),
        (nn.CrossEntropyLoss(weight=torch.ones(3)), Expects.LOGITS, True),
        (nn.BCEWithLogitsLoss(pos_weight=torch.ones(3)), Expects.LOGITS, True),
        (nn.BCELoss(), Expects.PROBABILITIES, False),
    ):
        (spec,) = program(translate(model, loss=loss, optimizer=optimizer)).losses
        assert (spec.expects, spec.weighted) == (expects, weighted)
