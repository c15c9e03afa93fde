"""torch programs, translated: the same losses and weights on the same batches."""

from __future__ import annotations

import numpy as np
import pytest

from stethoscope.engine.translate import TranslationError, translate

torch = pytest.importorskip("torch")
nn = torch.nn
STEPS = 20


def mlp(*middle, outputs=3):
    torch.manual_seed(0)
    return nn.Sequential(nn.Sequential(nn.Linear(4, 6), *middle), nn.Linear(6, outputs))


def step_of(model, loss, optimizer, x, y):
    optimizer.zero_grad()
    value = loss(model(torch.from_numpy(x)), torch.from_numpy(y))
    value.backward()
    optimizer.step()
    return value.item()


def compare(model, loss, optimizer, targets, before=0):
    rng = np.random.default_rng(0)
    batches = [rng.normal(size=(8, 4)).astype(np.float32) for _ in range(STEPS + before)]
    for x in batches[:before]:
        step_of(model, loss, optimizer, x, targets(x))
    found = translate(model, loss=loss, optimizer=optimizer)
    losses = [found.train_on_batch(x, targets(x)).loss for x in batches[before:]]
    expected = [step_of(model, loss, optimizer, x, targets(x)) for x in batches[before:]]
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    same = translate(model).network.weights
    for name, weight in found.network.weights.items():
        np.testing.assert_allclose(weight, same[name], rtol=1e-3, atol=1e-5, err_msg=name)


def ids(x):
    return np.argmax(x[:, :3], axis=1)


def real(x):
    return x[:, :3] ** 2


def bits(x):
    return (x[:, :3] > 0).astype(np.float32)


LAYERS = {
    "relu": [nn.ReLU],
    "relu6": [nn.ReLU6],
    "leaky-relu": [lambda: nn.LeakyReLU(0.2)],
    "elu": [lambda: nn.ELU(0.5)],
    "selu": [nn.SELU],
    "silu": [nn.SiLU],
    "gelu": [lambda: nn.GELU(approximate="tanh")],
    "sigmoid": [nn.Sigmoid],
    "softplus": [nn.Softplus],
    "softsign": [nn.Softsign],
    "softmax": [lambda: nn.Softmax(dim=-1)],
    "log-softmax": [lambda: nn.LogSoftmax(dim=1)],
    "norm": [lambda: nn.LayerNorm(6), nn.Tanh],
    "norm-epsilon": [lambda: nn.LayerNorm(6, eps=0.1, bias=False), nn.Identity],
    "flatten": [nn.Flatten, lambda: nn.Linear(6, 6, bias=False), lambda: nn.Dropout(0.0)],
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    model = mlp(*(make() for make in LAYERS[name]))
    compare(model, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), 0.1), ids)


LOSSES = {
    "mse": (nn.MSELoss(), real),
    "mae": (nn.L1Loss(), real),
    "huber": (nn.HuberLoss(delta=0.3), real),
    "smooth": (nn.SmoothL1Loss(), real),
    "entropy": (nn.CrossEntropyLoss(ignore_index=1), ids),
    "binary": (nn.BCEWithLogitsLoss(), bits),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name):
    loss, targets = LOSSES[name]
    model = mlp(nn.Tanh())
    compare(model, loss, torch.optim.SGD(model.parameters(), 0.05), targets)


OPTIMIZERS = {
    "momentum": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9),
    "nesterov": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, 0.01, betas=(0.8, 0.99), eps=1e-2),
    "adamw": lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.5),
}


@pytest.mark.parametrize("before", [0, 5], ids=["new", "mid-training"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name, before):
    model = mlp(nn.Tanh())
    compare(model, nn.CrossEntropyLoss(), OPTIMIZERS[name](model.parameters()), ids, before)


def test_embedding():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(5, 3), nn.Flatten(), nn.Linear(6, 2))
    x = np.array([[0, 4], [3, 3], [1, 2]])
    found = translate(model, input_shape=(2,)).predict(x)
    expected = model(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


class Own(nn.Module):
    def forward(self, x):
        return x


SGD, ADAM = torch.optim.SGD, torch.optim.Adam
ERRORS = {
    "own-model": (Own(), None, None, "Own cannot be translated.*torch.nn.Sequential"),
    "own-layer": (nn.Sequential(nn.Linear(4, 3), Own()), None, None, r"layer '1' \(Own\)"),
    "unknown-layer": (mlp(nn.Bilinear(2, 2, 2)), None, None, r"layer '0.1' \(Bilinear\)"),
    "exact-gelu": (mlp(nn.GELU()), None, None, r"layer '0.1' \(GELU\)"),
    "no-shape": (nn.Sequential(nn.Tanh()), None, None, "give input_shape"),
    "class-weights": (mlp(), nn.CrossEntropyLoss(weight=torch.ones(3)), SGD, "CrossEntropyLoss"),
    "sum": (mlp(), nn.MSELoss(reduction="sum"), SGD, "reduction 'sum'"),
    "decay": (mlp(), nn.MSELoss(), lambda p: ADAM(p, weight_decay=0.1), "weight_decay=0.1"),
    "amsgrad": (mlp(), nn.MSELoss(), lambda p: ADAM(p, amsgrad=True), "without amsgrad"),
    "rmsprop": (mlp(), nn.MSELoss(), torch.optim.RMSprop, "optimizer RMSprop cannot"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_cannot_be_translated(name):
    model, loss, make, message = ERRORS[name]
    optimizer = make(model.parameters()) if make else None
    with pytest.raises(TranslationError, match=message):
        translate(model, loss=loss, optimizer=optimizer)


def test_what_depends_on_the_rank():
    embedding = nn.Sequential(nn.Embedding(5, 3), nn.Softmax(dim=1))
    with pytest.raises(TranslationError, match=r"layer '1'.*dim 1"):
        translate(embedding, input_shape=(2,))
    with pytest.raises(TranslationError, match="classes are axis 1"):
        translate(embedding[:1], loss=nn.CrossEntropyLoss(), input_shape=(2,))


def test_targets_that_torch_would_repeat():
    model = mlp(outputs=1)
    found = translate(model, loss=nn.MSELoss(), optimizer=SGD(model.parameters()))
    with pytest.raises(ValueError, match=r"shape \(8, 1\); got \(8,\)"):
        found.train_on_batch(np.zeros((8, 4), np.float32), np.zeros(8))
