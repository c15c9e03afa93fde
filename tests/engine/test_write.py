"""A model as text: what the text makes is the model again."""

import inspect
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from stethoscope import engine
from stethoscope.engine import (
    LSTM,
    Activation,
    Bidirectional,
    Dense,
    Input,
    Model,
    Sequential,
    activations,
    initializers,
    losses,
    optimizers,
    regularizers,
    schedules,
)
from stethoscope.engine.translate.expressions import flat, of
from stethoscope.engine.translate.settings import TranslationError, is_layer
from stethoscope.engine.translate.write import Training, definition, program

RNG = np.random.default_rng(0)
NAMESPACE = {**vars(engine), **{n: getattr(engine, n) for n in ("losses", "optimizers")}}
NAMESPACE |= {
    "activations": activations,
    "initializers": initializers,
    "regularizers": regularizers,
    "schedules": schedules,
}
VALUES = {  # of arguments without a default
    "units": 3,
    "filters": 2,
    "kernel_size": 2,
    "activation": "tanh",
    "rate": 0.5,
    "stddev": 0.1,
    "input_dim": 5,
    "output_dim": 2,
    "axes": 1,
    "dims": (2, 1),
    "target_shape": (-1,),
    "layer": LSTM(2, "relu", go_backwards=True),
}
LAYERS = sorted(name for name in engine.__all__ if is_layer(getattr(engine, name)))
LOSSES = sorted(set(losses.__all__) - {"Loss", "get"})
OPTIMIZERS = ["SGD", "Adam", "AdamW", "Nadam", "Adamax", "RMSprop", "Adagrad", "Adadelta", "Lion"]
SETTINGS = {
    "he": initializers.get("he_normal"),
    "constant": initializers.Constant(0.3),
    "array": initializers.Constant([1.0, 2.0]),
    "zeros": initializers.Zeros(),
    "identity": initializers.Identity(2.0),
    "normal": initializers.RandomNormal(0.1, 0.2),
    "truncated": initializers.TruncatedNormal(stddev=0.2),
    "uniform": initializers.RandomUniform(-1, 1),
    "orthogonal": initializers.Orthogonal(2.0),
    "l1l2": regularizers.L1L2(0.1, 0.2),
    "orthogonal_regularizer": regularizers.OrthogonalRegularizer(0.1, "columns"),
    "exponential": schedules.ExponentialDecay(0.1, 10, 0.5, staircase=True),
    "inverse": schedules.InverseTimeDecay(0.1, 10, 0.5),
    "polynomial": schedules.PolynomialDecay(0.1, 10, power=2.0),
    "piecewise": schedules.PiecewiseConstantDecay([1, 5], [0.1, 0.05, 0.01]),
    "cosine": schedules.CosineDecay(0.1, 10, warmup_target=0.2, warmup_steps=3),
    "restarts": schedules.CosineDecayRestarts(0.1, 10),
}


def made(kind, **settings):
    needed = [
        one.name
        for one in inspect.signature(kind).parameters.values()
        if one.default is one.empty and one.kind is not one.VAR_KEYWORD
    ]
    return kind(**{name: VALUES[name] for name in needed} | settings)


def run(model):
    """The model that the text of a model makes."""
    parts, arrays = definition(model)
    namespace = {**NAMESPACE, "stored": Stored(arrays)}
    exec(parts.text(), namespace)
    return namespace["model"]


class Stored(dict):
    """As a file of NumPy arrays."""

    @property
    def files(self):
        return list(self)


def same(model, again, inputs):
    assert again.network.weights.keys() == model.network.weights.keys()
    for name, weight in model.network.weights.items():
        assert_array_equal(again.network.weights[name], weight)
    found = again.network.forward(inputs)
    expected = model.network.forward(inputs)
    for position, other in zip(model.network.outputs, again.network.outputs, strict=True):
        assert_array_equal(found.values[other], expected.values[position])
    assert definition(again)[0].text() == definition(run(again))[0].text()


def input_of(layer):
    """The shape of a sample that a layer takes."""
    name = type(layer).__name__
    if "2D" in name:
        return (6, 6, 2)
    if "1D" in name or name in ("LSTM", "GRU", "SimpleRNN", "Bidirectional", "Dot", "Permute"):
        return (6, 2)
    return (2,)


@pytest.mark.parametrize("name", LAYERS)
def test_every_layer(name):
    settings = {"groups": 2} if name == "GroupNormalization" else {}
    layer = made(getattr(engine, name), name="it", **settings)
    shape = input_of(layer)
    merges = layer.__class__.__module__.endswith("merge")
    ends = [Input(shape) for _ in range(1 + merges)]
    model = Model(ends, layer(ends), seed=1)
    kind = np.int64 if name == "Embedding" else np.float32
    inputs = [RNG.integers(0, 2, (4, *shape)).astype(kind) for _ in ends]
    again = run(model)
    same(model, again, inputs)
    assert type(again.network.layers[0]) is type(layer)


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"weight_decay": 0.01, "clipnorm": 1.0},
        {"learning_rate": SETTINGS["cosine"], "global_clipnorm": 0.5},
    ],
    ids=["plain", "decay-clipnorm", "schedule-global"],
)
def test_every_optimizer_goes_on_where_it_stood(kind, settings):
    model = Sequential([Dense(3, "tanh"), Dense(1)], input_shape=(2,), seed=1)
    model.compile(getattr(optimizers, kind)(**settings), "mse", metrics=["mae"])
    if "weight_decay" in settings:
        model.optimizer.exclude_from_weight_decay(["dense/kernel"], ["bias"])
    x, y = RNG.normal(size=(32, 2)), RNG.normal(size=(32, 1))
    model.fit(x, y, epochs=2, shuffle=False)
    again = run(model)
    for one in (model, again):
        one.fit(x, y, epochs=3, batch_size=8, shuffle=False)
    for name, weight in model.network.weights.items():
        assert_array_equal(again.network.weights[name], weight)
    assert again.optimizer.excluded_from_weight_decay == model.optimizer.excluded_from_weight_decay
    assert list(again.metrics) == ["mae"]


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss(name):
    loss = getattr(losses, name)(reduction="sum")
    again = eval(flat(of(loss)), NAMESPACE)
    assert type(again) is type(loss)
    assert again.reduction == "sum"
    assert flat(of(again)) == flat(of(loss)) == f'losses.{name}(reduction="sum")'


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting(name):
    assert eval(flat(of(SETTINGS[name])), NAMESPACE) == SETTINGS[name]


@pytest.mark.parametrize("name", sorted(set(activations.__all__) - {"Activation", "get", "glu"}))
def test_every_activation(name):
    maker = getattr(activations, name)
    x = RNG.normal(size=(5, 4))
    needed = {"threshold": {"threshold": 0.2, "default_value": 1.5}}.get(name, {})
    changed = {"leaky_relu": {"negative_slope": 0.4}, "elu": {"alpha": 0.5}}.get(name, {})
    activation = maker(**needed, **changed)
    again = activations.get(eval(flat(of(activation)), NAMESPACE))
    assert_array_equal(again.forward(x), activation.forward(x))


def test_only_what_differs_is_written():
    layer = Dense(3, use_bias=False, kernel_initializer="glorot_uniform", name="out")
    assert flat(of(layer)) == 'Dense(3, use_bias=False, name="out")'
    rate = float(np.float32(0.01))
    assert flat(of(optimizers.Adam(rate))) == "optimizers.Adam(learning_rate=0.01)"
    assert flat(of(optimizers.Adam())) == "optimizers.Adam()"


def test_an_activation_is_a_step_of_its_own():
    model = Sequential([Dense(3, "relu", name="a"), Dense(1, "linear", name="b")], input_shape=(2,))
    lines = definition(model)[0].lines
    assert [line.split("  #")[0] for line in lines[1:6]] == [
        "model = Sequential()",
        'model.add(Dense(3, name="a"))',
        'model.add(Activation("relu", name="a_relu"))',
        'model.add(Dense(1, name="b"))',
        "model.build((2,))",
    ]


def test_a_recurrence_keeps_its_activation():
    layer = Bidirectional(LSTM(2, "relu", dropout=0.5), "sum", name="both")
    model = Sequential([layer], input_shape=(4, 3), seed=1)
    same(model, run(model), [RNG.normal(size=(2, 4, 3))])
    assert flat(of(layer)) == (
        'Bidirectional(LSTM(2, activation="relu", dropout=0.5), merge_mode="sum", name="both")'
    )


def graph():
    a, b = Input((3,), "first"), Input((3,), "class")
    shared = Dense(3, "tanh", name="shared/one")
    left, right = shared(a), shared(b)
    both = engine.Add(name="np")([left, right, a])
    one = Dense(2, "softmax", name="Dense")(both)
    return Model([a, b], [one, Activation("relu", name="9")(both)], seed=1, dtype="float64")


def test_a_graph_with_shared_layers_and_odd_names():
    model = graph()
    model.compile("adam", ["mse", "mae"], loss_weights=[1.0, 0.5])
    model.network.layers[0].trainable = False
    again = run(model)
    same(model, again, [RNG.normal(size=(4, 3)), RNG.normal(size=(4, 3))])
    assert again.network.dtype == np.float64
    assert again.loss_weights == [1.0, 0.5]
    assert again.network.trained == model.network.trained


def test_what_is_the_users_own_is_named():
    def halved(step):
        return 0.1 / (1 + step)

    model = Sequential([Dense(1)], input_shape=(2,))
    model.compile(optimizers.SGD(halved), "mse")
    with pytest.raises(TranslationError, match="halved cannot be written"):
        definition(model)


@pytest.mark.parametrize("name", ["row", "graph"])
def test_the_program_is_formatted(name, tmp_path):
    deep = [Dense(9, "relu", kernel_regularizer="l1_l2", bias_regularizer="l1", name="a" * 40)]
    model = graph() if name == "graph" else Sequential(deep, input_shape=(2,))
    optimizer = optimizers.SGD(SETTINGS["piecewise"], momentum=0.9, nesterov=True, clipnorm=1.0)
    model.compile(optimizer, "mse", metrics=["mae", "mse", "mean_absolute_percentage_error"])
    data = [np.zeros((4, 3))] * len(model.network.inputs)
    held_out = (data, data)
    training = Training(data, data, 2, 32, np.zeros((2, 1, 4)), np.ones(4), held_out)
    written = program(model, training, path="imperative.py", origin=model.compile_source)
    path = tmp_path / "imperative.py"
    written.save(path)
    for command in (["format", "--check"], ["check", "--select", "E,F,I,W,D"]):
        settings = ["--isolated", "--config", "lint.pydocstyle.convention='google'"]
        found = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *settings, path],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert found.returncode == 0, found.stdout + path.read_text()


def test_an_order_of_samples():
    def train(**settings):
        model = Sequential([Dense(1)], input_shape=(2,), seed=1)
        model.compile("sgd", "mse")
        return model.fit(x, y, epochs=2, batch_size=4, **settings).history["loss"]

    x, y = RNG.normal(size=(6, 2)), RNG.normal(size=(6, 1))
    in_order = [[[0, 1, 2, 3], [4, 5, -1, -1]]] * 2
    assert train(order=in_order) == train(shuffle=False)
    assert train(order=[[[3, 2, 1, 0]], [[5, 4, 5, 4]]]) != train(shuffle=False)
    with pytest.raises(ValueError, match=r"order is \[2 epochs, step, sample\]; got shape"):
        train(order=in_order[:1])


def test_what_look_shows_in_comments_runs(capsys):
    made = engine.Sequential([engine.Dense(3, "tanh"), engine.Dense(1)], input_shape=(4,), seed=0)
    made.compile("sgd", "mse")
    x, y = np.ones((4, 4), "float32"), np.ones((4, 1), "float32")
    text = program(made, Training([x], [y], 1), path="program.py", origin=None).source
    look = text[text.index("def look") : text.index("# A report")].replace("    # ", "    ")
    namespace = {"model": made}
    exec(look, namespace)
    namespace["look"](made.train_on_batch(x, y))
    assert "['inputs', 'dense', 'dense_1']" in capsys.readouterr().out
