"""Training in torch and, translated, in the engine."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from stethoscope.engine.translate import TorchReader

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
