"""Every optimizer of torch.optim has a description."""

import json

import pytest
import torch
from torch import nn

from stethoscope.codec import encode
from stethoscope.torch.describe import optimizer_spec
from stethoscope.types import SourceRef

CLASSES = {
    name: value
    for name, value in vars(torch.optim).items()
    if isinstance(value, type)
    and issubclass(value, torch.optim.Optimizer)
    and value is not torch.optim.Optimizer
}


@pytest.mark.parametrize("name", CLASSES)
def test_every_optimizer_is_described(name):
    layer = nn.Linear(3, 2, bias=False)
    source = SourceRef("train.py", 9)
    optimizer = CLASSES[name](layer.parameters(), lr=0.125)
    spec = optimizer_spec(optimizer, {id(layer.weight): "fc/weight"}, source)
    assert (spec.name, spec.type, spec.learning_rate) == (name.lower(), name, 0.125)
    assert (spec.params, spec.source) == (("fc/weight",), source)
    assert not {"params", "lr", "eps", "groups"} & set(spec.config)
    assert json.loads(json.dumps(encode(spec.config))) == spec.config


def test_settings_of_the_first_group_and_rates_of_all():
    a, b = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(3))
    optimizer = torch.optim.AdamW([{"params": [a]}, {"params": [b], "lr": 0.5}], lr=0.25)
    spec = optimizer_spec(optimizer, {id(a): "one/a", id(b): "two/b"}, None)
    assert (spec.learning_rate, spec.params) == (0.25, ("one/a", "two/b"))
    assert spec.config["groups"] == [0.25, 0.5]
    assert (spec.config["betas"], spec.config["epsilon"]) == ([0.9, 0.999], 1e-8)
    assert spec.config["weight_decay"] == 0.01


def test_a_rate_held_in_a_tensor_is_a_number():
    weight = nn.Parameter(torch.ones(2))
    spec = optimizer_spec(torch.optim.Adam([weight], lr=torch.tensor(0.5)), {}, None)
    assert (spec.learning_rate, spec.params) == (0.5, ())


def test_a_schedule_leaves_its_initial_rate_out_of_the_config():
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(2))], lr=0.5, momentum=0.9)
    torch.optim.lr_scheduler.StepLR(optimizer, 1)
    spec = optimizer_spec(optimizer, {}, None)
    assert "initial_lr" not in spec.config
    assert spec.config["momentum"] == 0.9


class Own(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {"step_size": 1.0})


class Tuned(torch.optim.SGD):
    """A user's SGD."""


def test_optimizers_of_the_user():
    weight = nn.Parameter(torch.ones(2))
    own = optimizer_spec(Own([weight]), {}, None)
    assert (own.name, own.learning_rate, own.config) == ("own", None, {"step_size": 1.0})
    tuned = optimizer_spec(Tuned([weight], lr=0.1), {}, None)
    assert (tuned.name, tuned.type) == ("sgd", "Tuned")
