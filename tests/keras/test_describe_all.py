"""Every public layer, loss, optimizer, schedule and activation of Keras is described."""

import functools
import inspect

import keras
import pytest
from keras import layers

from stethoscope.keras.describe import program
from stethoscope.keras.losses import loss_spec
from stethoscope.keras.names import activation_name, layer_kind, unit_axis
from stethoscope.keras.optimizers import optimizer_spec
from stethoscope.program import Program
from stethoscope.vocabulary import ACTIVATIONS, LOSSES, LayerKind

LAYERS = {
    name: value
    for name, value in sorted(vars(layers).items())
    if inspect.isclass(value) and issubclass(value, keras.Layer)
}
LOSS_NAMES = sorted(
    name
    for name, value in vars(keras.losses).items()
    if callable(value) and name not in ("get", "serialize", "deserialize")
)
OPTIMIZERS = sorted(
    name
    for name, value in vars(keras.optimizers).items()
    if inspect.isclass(value) and issubclass(value, keras.optimizers.Optimizer)
)
SCHEDULES = sorted(
    name
    for name, value in vars(keras.optimizers.schedules).items()
    if inspect.isclass(value) and name != "LearningRateSchedule"
)
ACTIVATION_NAMES = sorted(
    name
    for name, value in vars(keras.activations).items()
    if callable(value) and name not in ("get", "serialize", "deserialize")
)

# Values for the required arguments, by name; (class, name) where a class needs another.
ARGUMENTS = {
    "activation": "relu",
    "output_size": 2,
    "rate": 0.3,
    "stddev": 0.1,
    "pool_size": 2,
    "filters": 3,
    "kernel_size": 2,
    "units": 3,
    "num_tokens": 5,
    "num_bins": 5,
    "height": 4,
    "width": 4,
    "factor": 0.2,
    "height_factor": 0.2,
    "width_factor": 0.2,
    "axes": 1,
    "equation": "ab,bc->ac",
    "output_shape": 3,
    "input_dim": 7,
    "output_dim": 3,
    "head_dim": 4,
    "num_query_heads": 2,
    "num_key_value_heads": 2,
    "num_heads": 2,
    "key_dim": 4,
    "dims": (2, 1),
    "n": 3,
    "scale": 0.5,
    "target_shape": (-1,),
    "max_number": 3,
    ("Bidirectional", "layer"): lambda: layers.LSTM(3),
    "layer": lambda: layers.Dense(3),
    "layers": lambda: [layers.Rescaling(0.5)],
    "cell": lambda: layers.GRUCell(3),
    "cells": lambda: [layers.LSTMCell(3), layers.LSTMCell(2)],
    ("Lambda", "function"): lambda: keras.ops.square,
    ("Discretization", "bin_boundaries"): [0.0, 1.0],
    ("CategoryEncoding", "num_tokens"): 5,
    ("RandomPosterization", "factor"): 4,
}
SHAPES = [(6,), (8, 4), (8, 8, 3), (4, 4, 4, 2), (3, 4, 4, 4, 2)]


def instance(name: str) -> keras.Layer:
    """A layer of that class; a bare one where it needs a file or a package that is not there."""
    cls, found = LAYERS[name], {}
    for parameter in inspect.signature(cls.__init__).parameters.values():
        value = ARGUMENTS.get((cls.__name__, parameter.name))
        if parameter.default is inspect.Parameter.empty:
            value = ARGUMENTS.get(parameter.name) if value is None else value
        if value is not None:
            found[parameter.name] = value() if callable(value) else value
    if name == "InputLayer":
        return cls(shape=(3,))
    try:
        return cls(**found)
    except (TypeError, ImportError, ValueError, NotImplementedError):
        bare = {"__init__": lambda self: keras.Layer.__init__(self), "__module__": cls.__module__}
        return type(cls.__name__, (cls,), bare)()


BARE = {"TFSMLayer", "FlaxLayer", "JaxLayer", "TorchModuleWrapper"}
"""The only layers that a bare instance stands for; GroupQueryAttention and all others are real."""


def called(layer: keras.Layer) -> keras.Model:
    """A functional model of the layer where some input fits, else an unbuilt Sequential."""
    if isinstance(layer, keras.layers.InputLayer):
        return keras.Sequential([layer])
    for shape in SHAPES:
        for arguments in (1, 2):
            inputs = [keras.Input(shape) for _ in range(arguments)]
            for given in ((inputs,) if arguments == 2 else (), tuple(inputs)):
                try:
                    return keras.Model(inputs, layer(*given))
                except Exception:
                    continue
    return keras.Sequential([layer])


@pytest.mark.filterwarnings("ignore")  # Keras warns about the odd arguments used here
@pytest.mark.parametrize("name", LAYERS)
def test_every_public_layer_is_described(name):
    layer = instance(name)
    assert (type(layer) is LAYERS[name]) or name in BARE
    found = program(called(layer), sources={})
    assert not [reason for reason in found.unseen.values() if "could not be read" in reason]
    assert Program.from_json(found.to_json()) == found
    if name in ("InputLayer", "Pipeline") and not found.layers:
        assert name == "InputLayer"
        return
    spec = found.layers[0]
    assert spec.type == LAYERS[name].__name__
    assert isinstance(spec.kind, LayerKind)
    assert spec.activation is None or spec.activation in ACTIVATIONS
    assert isinstance(unit_axis(layer), int)


def test_most_public_layers_have_a_kind():
    other = {name for name in LAYERS if layer_kind(instance(name)) == LayerKind.OTHER}
    # Preprocessing that computes new values, wrappers of foreign code, and the abstract base.
    assert other == {
        "AugMix", "AutoContrast", "CategoryEncoding",
        "ContrastLimitedAdaptiveHistogramEqualization", "CutMix", "Discretization",
        "Equalization", "FlaxLayer", "HashedCrossing", "Hashing", "InputLayer", "IntegerLookup",
        "JaxLayer", "Lambda", "Layer", "MaxNumBoundingBoxes", "MelSpectrogram", "MixUp",
        "RandAugment", "RandomBrightness", "RandomColorDegeneration", "RandomColorJitter",
        "RandomContrast", "RandomGaussianBlur", "RandomGrayscale", "RandomHue", "RandomInvert",
        "RandomPosterization", "RandomSaturation", "RandomSharpness", "STFTSpectrogram",
        "Solarization", "StringLookup", "TFSMLayer", "TextVectorization", "TorchModuleWrapper",
    }  # fmt: skip


UNKNOWN_LOSSES = {
    "CategoricalGeneralizedCrossEntropy",
    "Circle",
    "Dice",
    "Loss",
    "Tversky",
    "categorical_generalized_cross_entropy",
    "circle",
    "dice",
    "tversky",
}


@pytest.mark.parametrize("name", LOSS_NAMES)
def test_every_public_loss_is_described(name):
    value = getattr(keras.losses, name)
    given = [value] if name == "Loss" else [value, name]
    if inspect.isclass(value):
        given.append(value())
    specs = [loss_spec(loss) for loss in given]
    for spec in specs:
        assert spec.type in (name, value.__name__)
        assert (spec.name is None) == (name in UNKNOWN_LOSSES)
        assert spec.name is None or spec.name in LOSSES
        assert (spec.expects is None) == (spec.name is None)
        assert spec.reduction == "mean"
    assert len({spec.name for spec in specs}) == 1


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_public_optimizer_is_described(name):
    cls = getattr(keras.optimizers, name)
    if name == "LossScaleOptimizer":
        optimizer = cls(keras.optimizers.Adam(0.02))
    elif name == "MultiOptimizer":
        optimizer = cls(keras.optimizers.OptimizerMap(keras.optimizers.Adam(0.02)))
    elif name == "Optimizer":
        optimizer = cls(0.02)
    else:
        optimizer = cls(learning_rate=0.02)
    spec = optimizer_spec(optimizer)
    assert spec.learning_rate == 0.02
    assert spec.schedule is None
    shown = "Adam" if name == "LossScaleOptimizer" else name
    assert spec.type == shown
    canonical = {"ScheduleFreeAdamW": "schedule_free_adamw"}.get(shown, shown.lower())
    assert spec.name == canonical
    assert ("loss_scale" in spec.config) == (name == "LossScaleOptimizer")


SCHEDULE_ARGUMENTS = {
    "CosineDecay": (0.1, 100),
    "CosineDecayRestarts": (0.1, 100),
    "ExponentialDecay": (0.1, 100, 0.9),
    "InverseTimeDecay": (0.1, 100, 0.9),
    "PiecewiseConstantDecay": ([10, 20], [0.1, 0.01, 0.001]),
    "PolynomialDecay": (0.1, 100),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_public_schedule_is_described(name):
    schedule = getattr(keras.optimizers.schedules, name)(*SCHEDULE_ARGUMENTS[name])
    spec = optimizer_spec(keras.optimizers.SGD(schedule))
    assert spec.learning_rate == pytest.approx(0.1, rel=1e-6)
    assert spec.schedule == name


UNKNOWN_ACTIVATIONS = {
    "hard_shrink",
    "soft_shrink",
    "sparse_plus",
    "sparse_sigmoid",
    "sparsemax",
    "squareplus",
    "tanh_shrink",
    "threshold",
}


@pytest.mark.parametrize("name", ACTIVATION_NAMES)
def test_every_public_activation_has_its_name(name):
    canonical = {"swish": "silu", "hard_swish": "hard_silu"}.get(name, name)
    wanted = None if name in UNKNOWN_ACTIVATIONS else canonical
    assert activation_name(name) == wanted
    assert activation_name(getattr(keras.activations, name)) == wanted
    assert activation_name(layers.Activation(name)) == wanted


def own_relu(x):
    return keras.ops.maximum(x, 0)


def test_a_users_own_function_is_not_recognised_by_its_name():
    own_relu.__name__ = "relu"
    assert activation_name(own_relu) is None
    assert activation_name(keras.ops.relu) == "relu"
    assert activation_name(keras.ops.leaky_relu) == "leaky_relu"


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (None, "linear"),
        (functools.partial(keras.activations.softmax, axis=1), "softmax"),
        (functools.partial(keras.activations.relu, negative_slope=0.1), None),
        (layers.ReLU(), "relu"),
        (layers.ReLU(max_value=6), "relu6"),
        (layers.ReLU(negative_slope=0.1), "leaky_relu"),
        (layers.ReLU(max_value=2), None),
        (layers.LeakyReLU(), "leaky_relu"),
        (layers.PReLU(), "prelu"),
        (layers.ELU(), "elu"),
        (layers.Softmax(), "softmax"),
        (layers.Dense(3, activation="relu"), None),
        (lambda x: x, None),
    ],
)
def test_activations_as_a_user_may_give_them(value, wanted):
    assert activation_name(value) == wanted
