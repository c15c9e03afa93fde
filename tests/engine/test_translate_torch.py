"""torch programs, translated: the same losses, weights and state on the same batches."""

from __future__ import annotations

import numpy as np
import pytest

from stethoscope.engine.describe import program
from stethoscope.engine.translate import TorchReader, TranslationError, translate
from stethoscope.types import SourceRef
from stethoscope.vocabulary import Expects

torch = pytest.importorskip("torch")
nn = torch.nn
STEPS = 20
SGD, ADAM = torch.optim.SGD, torch.optim.Adam


def mlp(*middle, outputs=3):
    torch.manual_seed(0)
    return nn.Sequential(nn.Sequential(nn.Linear(4, 6), *middle), nn.Linear(6, outputs))


def step_of(model, loss, optimizer, x, y):
    optimizer.zero_grad()
    value = loss(model(torch.from_numpy(x)), torch.from_numpy(y))
    value.backward()
    optimizer.step()
    return value.item()


def equal(found, expected, name=""):
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-6, err_msg=name)


def compare(model, loss, optimizer, targets, *, shape=(4,), before=0, batch=8, draw=None):
    """Both are trained; the second half again in torch, from what the engine gave back."""
    rng = np.random.default_rng(0)
    draw = draw or (lambda: rng.normal(size=(batch, *shape)).astype(np.float32))
    batches = [draw() for _ in range(STEPS + before)]
    first, later = batches[:before], batches[before:]
    for x in first:
        step_of(model, loss, optimizer, x, targets(x))
    reader = TorchReader(model, loss, optimizer, shape, {}, "float32")
    found = reader.read()
    losses = [found.train_on_batch(x, targets(x)).loss for x in later[: STEPS // 2]]
    start = {name: value.clone() for name, value in model.state_dict().items()}
    expected = [step_of(model, loss, optimizer, x, targets(x)) for x in later[: STEPS // 2]]
    equal(losses, expected)
    trained = {name: value.clone() for name, value in model.state_dict().items()}
    state = [{k: v.clone() for k, v in kept.items()} for kept in optimizer.state.values()]
    model.load_state_dict(start)
    optimizer.state.clear()
    reader.give_back(found)
    for name, value in model.state_dict().items():
        if not name.endswith("num_batches_tracked"):
            equal(value, trained[name], name)
    given = [optimizer.state[p] for p in optimizer.param_groups[0]["params"] if p.requires_grad]
    for one, kept in zip([g for g in given if g], [k for k in state if k], strict=True):
        assert one.keys() == kept.keys()
        for name in kept:
            equal(one[name], kept[name], name)
    losses = [found.train_on_batch(x, targets(x)).loss for x in later[STEPS // 2 :]]
    expected = [step_of(model, loss, optimizer, x, targets(x)) for x in later[STEPS // 2 :]]
    equal(losses, expected)
    model.eval()
    equal(found.predict(later[0]), model(torch.from_numpy(later[0])).detach().numpy())


def ids(x):
    return np.argmax(x.reshape(len(x), -1)[:, :3], axis=1)


def real(x):
    return x[:, :3] ** 2


def bits(x):
    return (x[:, :3] > 0).astype(np.float32)


def signs(x):
    return np.sign(x[:, :3])


def shares(x):
    y = np.maximum(real(x), 0.1) * (x[:, :3] > -1)  # some are 0
    return y / y.sum(axis=1, keepdims=True).clip(0.1)


LAYERS = {
    "relu": [nn.ReLU()],
    "relu6": [nn.ReLU6()],
    "leaky-relu": [nn.LeakyReLU(0.2)],
    "leaky-relu-at-kink": [nn.ReLU(), nn.LeakyReLU(0.5)],
    "prelu": [nn.PReLU()],
    "prelu-of-units-at-kink": [nn.ReLU(), nn.PReLU(6)],
    "elu": [nn.ELU(0.5)],
    "celu": [nn.CELU(0.5)],
    "selu": [nn.SELU()],
    "silu": [nn.SiLU()],
    "mish": [nn.Mish()],
    "gelu": [nn.GELU()],
    "gelu-tanh": [nn.GELU(approximate="tanh")],
    "sigmoid": [nn.Sigmoid()],
    "log-sigmoid": [nn.LogSigmoid()],
    "hard-sigmoid": [nn.Hardsigmoid()],
    "hard-swish": [nn.Hardswish()],
    "hard-tanh": [nn.Hardtanh()],
    "hard-tanh-at-kink": [nn.ReLU(), nn.Hardtanh(0, 0.5), nn.Hardtanh(0, 0.5)],
    "hard-shrink": [nn.Hardshrink(0.2)],
    "soft-shrink": [nn.Softshrink(0.2)],
    "tanh-shrink": [nn.Tanhshrink()],
    "threshold": [nn.Threshold(0.1, -0.5)],
    "softplus": [nn.Softplus()],
    "softplus-beta": [nn.Softplus(beta=3.0)],
    "softsign": [nn.Softsign()],
    "softmax": [nn.Softmax(dim=-1)],
    "softmin": [nn.Softmin(dim=1)],
    "log-softmax": [nn.LogSoftmax(dim=1)],
    "glu": [nn.GLU(), nn.Linear(3, 6)],
    "norm": [nn.LayerNorm(6), nn.Tanh()],
    "norm-epsilon": [nn.LayerNorm(6, eps=0.1, bias=False), nn.Identity()],
    "norm-plain": [nn.LayerNorm(6, elementwise_affine=False)],
    "batch-norm": [nn.BatchNorm1d(6)],
    "batch-norm-settings": [nn.BatchNorm1d(6, eps=0.1, momentum=0.4, affine=False)],
    "group-norm": [nn.GroupNorm(2, 6)],
    "group-norm-plain": [nn.GroupNorm(2, 6, affine=False)],
    "flatten": [nn.Flatten(), nn.Linear(6, 6, bias=False), nn.Dropout(0.0), nn.AlphaDropout(0.0)],
    "unflatten": [nn.Unflatten(1, (3, 2)), nn.LayerNorm((3, 2)), nn.Flatten(1, 2)],
    "unflatten-rest": [nn.Unflatten(1, (-1, 2)), nn.Softmax(dim=1), nn.Flatten()],
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    model = mlp(*LAYERS[name])
    compare(model, nn.CrossEntropyLoss(), SGD(model.parameters(), 0.1), ids)


# name -> shape of a sample, layers before a last Linear
SPATIAL = {
    "conv": ((2, 5, 6), [nn.Conv2d(2, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]),
    "conv-all": (
        (4, 7, 6),
        [
            nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(2, 1), dilation=(1, 2), groups=2),
            nn.Flatten(),
        ],
    ),
    "conv-same": ((2, 5, 4), [nn.Conv2d(2, 3, (2, 3), padding="same", bias=False), nn.Flatten()]),
    "conv-1d": ((2, 7), [nn.Conv1d(2, 4, 3, padding=1), nn.AvgPool1d(3, 2), nn.Flatten()]),
    "conv-1d-same": ((2, 7), [nn.Conv1d(2, 4, 4, padding="same", dilation=2), nn.Flatten()]),
    "transposed": (
        (3, 3, 2),
        [
            nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1, output_padding=1),
            nn.ConvTranspose2d(2, 2, (2, 3), dilation=(1, 2), bias=False),
            nn.Flatten(),
        ],
    ),
    "transposed-1d": ((3, 4), [nn.ConvTranspose1d(3, 2, 4, stride=3, padding=2), nn.Flatten()]),
    "batch-norm-2d": ((2, 3, 3), [nn.Conv2d(2, 4, 2), nn.BatchNorm2d(4), nn.SiLU(), nn.Flatten()]),
    "batch-norm-1d": ((2, 4), [nn.BatchNorm1d(2), nn.Flatten()]),
    "group-norm": ((4, 3, 3), [nn.GroupNorm(2, 4), nn.Flatten()]),
    "instance-norm": (
        (3, 2, 3),
        [nn.InstanceNorm2d(3, affine=True), nn.InstanceNorm2d(3), nn.Flatten()],
    ),
    "instance-norm-1d": ((3, 4), [nn.InstanceNorm1d(3, affine=True), nn.Flatten()]),
    "layer-norm": ((3, 2, 4), [nn.LayerNorm((2, 4)), nn.Flatten()]),
    "prelu": ((3, 2, 4), [nn.PReLU(3), nn.PReLU(), nn.Flatten()]),
    "softmax": ((3, 2, 4), [nn.Softmax2d(), nn.Softmax(dim=2), nn.LogSoftmax(-1), nn.Flatten()]),
    "max-pool": ((2, 7, 6), [nn.MaxPool2d(3, 2, padding=1, ceil_mode=True), nn.Flatten()]),
    "max-pool-ceil": ((2, 5), [nn.MaxPool1d(2, ceil_mode=True), nn.Flatten()]),
    "max-pool-ceil-beyond": ((2, 4), [nn.MaxPool1d(1, 3, ceil_mode=True), nn.Flatten()]),
    "max-pool-ties": ((2, 6), [nn.ReLU(), nn.MaxPool1d(3, 1), nn.Flatten()]),
    "mean-pool": ((2, 5, 4), [nn.AvgPool2d(2, 1, padding=1), nn.Flatten()]),
    "mean-pool-not-padding": (
        (2, 5, 4),
        [nn.AvgPool2d((2, 3), padding=1, count_include_pad=False), nn.Flatten()],
    ),
    "mean-pool-ceil": (
        (2, 5),
        [nn.AvgPool1d(2, ceil_mode=True, count_include_pad=False), nn.Flatten()],
    ),
    "adaptive": (
        (2, 6, 4),
        [nn.AdaptiveAvgPool2d((3, None)), nn.AdaptiveMaxPool2d((1, 2)), nn.Flatten()],
    ),
    "adaptive-one": ((2, 6, 4), [nn.Conv2d(2, 5, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(-3)]),
    "adaptive-1d": ((2, 6), [nn.AdaptiveAvgPool1d(1), nn.Flatten()]),
    "pad": ((2, 3, 3), [nn.ZeroPad2d((1, 0, 2, 3)), nn.Conv2d(2, 2, 3), nn.Flatten()]),
    "pad-1d": ((2, 3), [nn.ConstantPad1d((1, 2), 0.0), nn.ZeroPad1d(1), nn.Flatten()]),
    "upsample": ((2, 3, 2), [nn.Upsample(scale_factor=(2, 3)), nn.Flatten()]),
    "upsample-size": ((2, 3), [nn.Upsample(size=6), nn.Flatten()]),
    "upsample-2d": ((2, 3, 2), [nn.UpsamplingNearest2d(scale_factor=2), nn.Flatten()]),
    "channels-dropped": ((2, 3, 2), [nn.Dropout2d(0.0), nn.Flatten()]),
}


@pytest.mark.parametrize("name", SPATIAL)
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
def test_layers_of_lengths(name):
    shape, layers = SPATIAL[name]
    torch.manual_seed(0)
    body = nn.Sequential(*layers)
    with torch.no_grad():
        features = body.eval()(torch.zeros(2, *shape)).shape[1]
    model = nn.Sequential(body.train(), nn.Linear(features, 3))
    optimizer = SGD(model.parameters(), 0.05)
    compare(model, nn.CrossEntropyLoss(), optimizer, ids, shape=shape)


def test_values_of_every_stage_are_in_the_order_of_torch():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 4, 2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    x = np.random.default_rng(0).normal(size=(3, 2, 5, 5)).astype(np.float32)
    found = translate(model, input_shape=(2, 5, 5))
    done, value = found.network.forward([x]), torch.from_numpy(x)
    for ours, module in zip(done.values[1:], model, strict=True):
        value = module(value)
        equal(ours, value.detach().numpy())
    assert [layer.unit_axis for layer in found.network.layers[:3]] == [1, 1, 1]


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


@pytest.mark.parametrize("affine", [True, False])
def test_normalization_that_is_left_in_evaluation_mode(affine):
    model = mlp(nn.BatchNorm1d(6, affine=affine), nn.Dropout(0.5))
    model(torch.randn(20, 4))  # statistics of their own
    model[0][1].requires_grad_(False).eval()
    model[0][2].eval()
    compare(model, nn.CrossEntropyLoss(), SGD(model.parameters(), 0.1), ids)


def test_a_module_that_is_used_twice():
    torch.manual_seed(0)
    shared = nn.Linear(4, 4)
    model = nn.Sequential(shared, nn.Tanh(), shared, nn.Tanh(), nn.Linear(4, 3))
    compare(model, nn.CrossEntropyLoss(), ADAM(model.parameters(), 0.01), ids)
    assert [n.path for n in translate(model).network.nodes][:3] == ["0", "1", "0#2"]


def test_embedding():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(5, 3), nn.Flatten(), nn.Linear(6, 3))
    rng = np.random.default_rng(0)
    compare(
        model,
        nn.CrossEntropyLoss(),
        ADAM(model.parameters(), 0.01),
        lambda x: x[:, 0] % 3,
        shape=(2,),
        draw=lambda: rng.integers(0, 5, (8, 2)),
    )


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


def test_lines_are_handed_on():
    model = mlp(nn.Bilinear(2, 2, 2))
    line = SourceRef("train.py", 7, exact=True)
    with pytest.raises(TranslationError, match=r"'0.1' \(Bilinear, train.py:7\)"):
        translate(model, sources={id(model[0][1]): line})
    model = mlp()
    assert translate(model, sources={id(model[1]): line}).network.layers[1].source == line


class Own(nn.Module):
    def forward(self, x):
        return x


class OwnChain(nn.Sequential):
    def forward(self, x):
        return x


def hooked():
    model = mlp()
    model[1].register_forward_hook(lambda *_: None)
    return model


def replaced():
    model = mlp()
    model[1].forward = lambda x: x
    return model


def tied():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight
    return model


def partly_frozen():
    model = mlp()
    model[1].bias.requires_grad_(False)
    return model


def frozen_scale():
    model = mlp(nn.BatchNorm1d(6))
    model[0][1].requires_grad_(False)
    return model


def in_evaluation():
    model = mlp(nn.BatchNorm1d(6))
    model[0][1].eval()
    return model


def two_rates(parameters):
    first, *rest = parameters
    return SGD([{"params": [first]}, {"params": rest, "lr": 0.5}], 0.1)


def scheduled(parameters):
    optimizer = SGD(parameters, 0.1)
    torch.optim.lr_scheduler.StepLR(optimizer, 1)
    return optimizer


def uneven(parameters):
    first, *rest = parameters
    optimizer = ADAM([first, *rest])
    first.grad = torch.ones_like(first)
    optimizer.step()
    return optimizer


MSE = nn.MSELoss()
ERRORS = {
    "own-model": (Own(), None, None, "Own cannot be translated.*torch.nn.Sequential"),
    "own-chain": (OwnChain(), None, None, "OwnChain cannot be translated.*torch.nn.Sequential"),
    "own-layer": (nn.Sequential(nn.Linear(4, 3), Own()), None, None, r"layer '1' \(Own\)"),
    "empty": (nn.Sequential(nn.Sequential()), None, None, "give input_shape"),
    "unknown-layer": (mlp(nn.Bilinear(2, 2, 2)), None, None, r"layer '0.1' \(Bilinear\).*Linear"),
    "recurrent": (mlp(nn.LSTM(6, 6)), None, None, r"layer '0.1' \(LSTM\)"),
    "no-shape": (nn.Sequential(nn.Tanh()), None, None, "give input_shape"),
    "lazy": (mlp(nn.LazyLinear(6)), None, None, "no shape before the first batch"),
    "half": (mlp().half(), None, None, "computes in float16"),
    "meta": (mlp().to("meta"), None, None, "has no values"),
    "hook": (hooked(), None, None, r"layer '1' \(Linear\).*forward hooks"),
    "replaced": (replaced(), None, None, r"layer '1' \(Linear\).*forward has been replaced"),
    "tied": (tied(), None, None, "layer '1'.*shares its parameters"),
    "weight-norm": (
        mlp(torch.nn.utils.parametrizations.weight_norm(nn.Linear(6, 6))),
        None,
        None,
        "layer '0.1'.*class of your own",
    ),
    "partly-frozen": (partly_frozen(), None, None, "layer '1'.*a part of it is frozen"),
    "frozen-scale": (frozen_scale(), None, None, "frozen while it uses .* each batch"),
    "evaluation": (in_evaluation(), None, None, "trained while it uses .* all batches"),
    "mean-of-batches": (mlp(nn.BatchNorm1d(6, momentum=None)), None, None, "momentum=None"),
    "no-statistics": (mlp(nn.BatchNorm1d(6, track_running_stats=False)), None, None, "outside"),
    "does-not-fit": (mlp(nn.Linear(5, 6)), None, None, r"needs a weight of shape \(6, 6\)"),
    "softmax-of-batch": (mlp(nn.Softmax(dim=0)), None, None, "but the first; got 0"),
    "softplus-threshold": (mlp(nn.Softplus(threshold=2)), None, None, "linear from 2"),
    "flat-batch": (mlp(nn.Flatten(0)), None, None, "flattens the batch axis"),
    "odd-glu": (mlp(nn.GLU(), nn.GLU()), None, None, r"layer '0.2' \(GLU\).*even"),
    "element-weights": (mlp(), nn.BCELoss(weight=torch.ones(3)), SGD, "without weight.*weight="),
    "full": (mlp(), nn.PoissonNLLLoss(full=True), SGD, "got PoissonNLLLoss .*full=True"),
    "no-reduction": (mlp(), nn.MSELoss(reduction="none"), SGD, "reduction 'none'"),
    "two-inputs": (mlp(), nn.TripletMarginLoss(), SGD, "loss TripletMarginLoss cannot"),
    "own-loss": (mlp(), Own(), SGD, "loss Own cannot.*class of your own"),
    "two-rates": (mlp(), MSE, two_rates, "group 1 has lr=0.5, another one 0.1"),
    "schedule": (mlp(), MSE, scheduled, "scheduler changes its learning rate"),
    "uneven": (mlp(), MSE, uneven, "have made 0 to 1 steps"),
    "other-parameters": (mlp(), MSE, lambda p: SGD([*p, *mlp().parameters()]), "other parameters"),
    "no-parameters": (mlp().requires_grad_(False), MSE, SGD, "moves no parameter"),
    "radam": (mlp(), MSE, OPT.RAdam, "optimizer RAdam cannot"),
}


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_what_cannot_be_translated(name):
    model, loss, make, message = ERRORS[name]
    optimizer = make(model.parameters()) if make else None
    with pytest.raises(TranslationError, match=message):
        translate(model, loss=loss, optimizer=optimizer)


def test_old_weight_norm_and_pruning_are_found():
    from torch.nn.utils import prune

    model = mlp()
    prune.random_unstructured(model[1], "weight", amount=0.5)
    with pytest.raises(TranslationError, match="layer '1'"):
        translate(model)
    model[1]._forward_pre_hooks.clear()
    with pytest.raises(TranslationError, match=r"all of its parameters.*weight_orig"):
        translate(model)


TARGETS = {
    "repeated": (nn.MSELoss(), np.zeros(8), r"shape \(8, 3\); got \(8,\)"),
    "probabilities": (nn.CrossEntropyLoss(), np.zeros((8, 3)), "takes class ids, integers"),
    "beyond": (nn.CrossEntropyLoss(), np.full(8, 3), "class ids are from 0 to 2.*got 3 to 3"),
}


@pytest.mark.parametrize("name", TARGETS)
def test_targets_that_do_not_fit(name):
    loss, targets, message = TARGETS[name]
    model = mlp()
    found = translate(model, loss=loss, optimizer=SGD(model.parameters()))
    with pytest.raises(ValueError, match=message):
        found.train_on_batch(np.zeros((8, 4), np.float32), targets)


def test_one_value_for_each_channel_has_no_variance():
    model = mlp(nn.BatchNorm1d(6))
    found = translate(model, loss=MSE, optimizer=SGD(model.parameters()))
    with pytest.raises(ValueError, match="one value for each channel"):
        found.train_on_batch(np.zeros((1, 4), np.float32), np.zeros((1, 3)))
