"""What of torch cannot be translated is a TranslationError; no module or optimizer is another."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from stethoscope.engine.describe import program
from stethoscope.engine.translate import TranslationError, translate
from stethoscope.engine.translate.torch_layers import known
from stethoscope.types import SourceRef

pytest.importorskip("torch")

from tests.engine.against_torch import ADAM, SGD, mlp, nn, torch

OPT = torch.optim


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


def hung(where):
    """A model, a loss and what makes its optimizer, one of them with a hook."""
    model, loss = mlp(), nn.MSELoss()
    hooks = {
        "backward": lambda: model[1].register_full_backward_pre_hook(lambda *_: None),
        "parameter": lambda: model[1].weight.register_hook(lambda g: 2 * g),
        "after-gradient": lambda: model[1].weight.register_post_accumulate_grad_hook(print),
        "whole": lambda: model.register_full_backward_hook(lambda *_: None),
        "loss": lambda: loss.register_forward_hook(lambda *_: None),
    }
    if where in hooks:
        hooks[where]()
    if where == "loss-forward":
        loss.forward = lambda *_: None

    def optimizer(parameters):
        made = SGD(parameters)
        if where == "optimizer":
            made.register_step_pre_hook(lambda *_: None)
        return made

    return model, loss, optimizer


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
    "half-statistics": (mlp(nn.BatchNorm1d(6, affine=False).half()), None, None, "in float16"),
    "meta": (mlp().to("meta"), None, None, "has no values"),
    "hook": (hooked(), None, None, r"layer '1' \(Linear\).*forward hooks"),
    "backward-hook": (*hung("backward"), r"layer '1'.*backward hooks"),
    "parameter-hook": (*hung("parameter"), r"layer '1'.*its weight has hooks"),
    "after-gradient-hook": (*hung("after-gradient"), r"layer '1'.*its weight has hooks"),
    "hook-of-the-whole": (*hung("whole"), "model Sequential cannot"),
    "loss-hook": (*hung("loss"), "loss MSELoss cannot.*forward hooks"),
    "loss-replaced": (*hung("loss-forward"), "loss MSELoss cannot.*its forward has been replaced"),
    "optimizer-hook": (*hung("optimizer"), "optimizer SGD cannot.*hooks"),
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


@pytest.mark.parametrize(
    ("loss", "optimizer", "message"),
    [
        (nn.functional.mse_loss, None, r"loss mse_loss, no object .* torch\.nn\.MSELoss\(\)"),
        (nn.MSELoss, None, r"loss MSELoss, no object .* torch\.nn\.MSELoss\(\)"),
        ("mse", None, r"loss 'mse' .* torch\.nn\.MSELoss\(\)"),
        (MSE, "adam", r"optimizer 'adam' .* object such as torch\.optim\.SGD"),
        (MSE, OPT.Adam, r"optimizer 'Adam' .* object such as torch\.optim\.SGD"),
    ],
    ids=["function", "class", "name", "optimizer-name", "optimizer-class"],
)
def test_what_is_no_object_of_torch(loss, optimizer, message):
    model = mlp()
    with pytest.raises(TranslationError, match=message):
        translate(model, loss=loss, optimizer=optimizer or SGD(model.parameters()))


@pytest.mark.parametrize("loss", [nn.MSELoss(), nn.CrossEntropyLoss()], ids=["mse", "classes"])
def test_a_report_names_the_loss_of_torch(loss):
    model = mlp()
    optimizer, line = SGD(model.parameters()), SourceRef("train.py", 7)
    sources = {id(loss): line, id(optimizer): line}
    found = program(translate(model, loss=loss, optimizer=optimizer, sources=sources))
    assert found.losses[0].type == type(loss).__name__
    assert found.losses[0].source == found.optimizers[0].source == line


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


# What classes of torch.nn are constructed with, where they need arguments.
ARGUMENTS = dict(
    [
        ("Bilinear", (2, 2, 2)),
        *((f"Conv{t}{n}d", (4, 4, 3)) for t in ("", "Transpose") for n in (1, 2, 3)),
        *((f"Lazy{k}{n}d", (4, 3)) for k in ("Conv", "ConvTranspose") for n in (1, 2, 3)),
        *((f"Adaptive{k}Pool{n}d", (1,)) for k in ("Avg", "Max") for n in (1, 2, 3)),
        *((f"{k}Pool{n}d", (2,)) for k in ("Avg", "Max") for n in (1, 2, 3)),
        *((f"LPPool{n}d", (2, 2)) for n in (1, 2, 3)),
        *((f"MaxUnpool{n}d", (2,)) for n in (1, 2, 3)),
        *((f"FractionalMaxPool{n}d", (2, 1)) for n in (2, 3)),
        *((f"{k}Norm{n}d", (4,)) for k in ("Batch", "Instance") for n in (1, 2, 3)),
        *(
            (f"{k}Pad{n}d", (1,))
            for k in ("Circular", "Reflection", "Replication", "Zero")
            for n in (1, 2, 3)
        ),
        *((f"ConstantPad{n}d", (1, 0.0)) for n in (1, 2, 3)),
        *((k, (4, 4)) for k in ("Linear", "RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell")),
        *(
            (k, (4, 1))
            for k in ("TransformerEncoderLayer", "TransformerDecoderLayer", "MultiheadAttention")
        ),
        ("AdaptiveLogSoftmaxWithLoss", (4, 6, [2])),
        ("ChannelShuffle", (2,)),
        ("CrossMapLRN2d", (2,)),
        ("DataParallel", (nn.Linear(4, 4),)),
        ("Embedding", (4, 4)),
        ("EmbeddingBag", (4, 4)),
        ("Fold", (4, 2)),
        ("GroupNorm", (2, 4)),
        ("LayerNorm", (4,)),
        ("LazyLinear", (4,)),
        ("LinearCrossEntropyLoss", (4, 4)),
        ("LocalResponseNorm", (2,)),
        ("PixelShuffle", (2,)),
        ("PixelUnshuffle", (2,)),
        ("RMSNorm", (4,)),
        ("RNNBase", ("LSTM", 4, 4)),
        ("RNNCellBase", (4, 4, True, 4)),
        ("Softmax", (1,)),
        ("Softmin", (1,)),
        ("LogSoftmax", (1,)),
        ("SyncBatchNorm", (4,)),
        ("Threshold", (0.1, 1.0)),
        ("Transformer", (4, 1, 1, 1, 4)),
        ("TransformerEncoder", (nn.Linear(4, 4), 1)),
        ("TransformerDecoder", (nn.Linear(4, 4), 1)),
        ("Unflatten", (1, (2, 2))),
        ("Unfold", (2,)),
        ("Upsample", (None, 2)),
        ("UpsamplingBilinear2d", (None, 2)),
        ("UpsamplingNearest2d", (None, 2)),
    ]
)
SHAPES = [(4,), (4, 4), (4, 4, 4), (4, 4, 4, 4)]
MODULES = {
    name: kind
    for name, kind in vars(nn).items()
    if inspect.isclass(kind) and issubclass(kind, nn.Module)
}


def made(name):
    torch.manual_seed(0)
    return MODULES[name](*ARGUMENTS.get(name, ()))


@pytest.mark.parametrize("name", sorted(MODULES))
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
def test_every_module_of_torch_is_translated_or_refused(name):
    translated = 0
    for shape in SHAPES:
        module = made(name)
        model = nn.Sequential(module) if name != "Sequential" else nn.Sequential(nn.Linear(4, 4))
        try:
            found = translate(model, input_shape=shape)
        except TranslationError as error:
            assert name in str(error)
            continue
        translated += 1
        x = np.random.default_rng(0).normal(size=(3, *shape)).astype(np.float32)
        if name == "Embedding":
            x = np.abs(x).astype(np.int64) % 4
        expected = model.eval()(torch.from_numpy(x)).detach().numpy()
        assert expected.shape[1:] == found.network.nodes[-1].shape
        np.testing.assert_allclose(found.predict(x), expected, rtol=1e-5, atol=1e-6)
    assert bool(translated) == (name in known() or name == "Sequential")


@pytest.mark.parametrize("name", sorted(MODULES))
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
def test_every_module_of_torch_as_a_loss(name):
    model = mlp()
    try:
        found = translate(model, loss=made(name), optimizer=SGD(model.parameters()))
    except TranslationError as error:
        assert f"loss {name} cannot be translated" in str(error)
    else:
        assert found.losses


@pytest.mark.parametrize("name", sorted(n for n, k in vars(OPT).items() if inspect.isclass(k)))
def test_every_optimizer_of_torch_is_translated_or_refused(name):
    model = nn.Sequential(nn.Linear(4, 3, bias=False))  # Muon moves matrices only
    kind = getattr(OPT, name)
    optimizer = kind(model.parameters(), *([{}] if name == "Optimizer" else []))
    try:
        found = translate(model, loss=nn.MSELoss(), optimizer=optimizer)
    except TranslationError as error:
        assert f"optimizer {name} cannot be translated" in str(error)
    else:
        assert found.optimizer.name == name.lower()
