"""The usual layers, losses and optimizers against a table written by hand."""

import keras
import pytest
from keras import layers as kl

from stethoscope.keras.describe import loss_spec, optimizer_spec, program, unit_axis
from stethoscope.vocabulary import Expects, LayerKind, TargetKind

K = LayerKind
IMAGE, SEQUENCE, FLAT = (8, 8, 3), (5, 4), (6,)

# make, input shape, kind, activation, parameters, output shape, some settings
USUAL = {
    "dense": (
        lambda: kl.Dense(3, activation="relu", kernel_initializer="he_normal"), FLAT,
        K.DENSE, "relu", {"kernel": (6, 3), "bias": (3,)}, (-1, 3),
        {"units": 3, "use_bias": True},
    ),
    "dense-plain": (
        lambda: kl.Dense(1, use_bias=False), FLAT,
        K.DENSE, "linear", {"kernel": (6, 1)}, (-1, 1), {"use_bias": False},
    ),
    "dense-swish": (
        lambda: kl.Dense(2, activation=keras.activations.swish), FLAT,
        K.DENSE, "silu", {"kernel": (6, 2), "bias": (2,)}, (-1, 2), {},
    ),
    "dense-lambda": (
        lambda: kl.Dense(2, activation=lambda x: x * 2), FLAT,
        K.DENSE, None, {"kernel": (6, 2), "bias": (2,)}, (-1, 2), {},
    ),
    "conv1d": (
        lambda: kl.Conv1D(2, 3, padding="same", activation="tanh"), SEQUENCE,
        K.CONV, "tanh", {"kernel": (3, 4, 2), "bias": (2,)}, (-1, 5, 2),
        {"filters": 2, "kernel_size": [3], "padding": "same"},
    ),
    "conv2d": (
        lambda: kl.Conv2D(4, 3, strides=2, activation="relu"), IMAGE,
        K.CONV, "relu", {"kernel": (3, 3, 3, 4), "bias": (4,)}, (-1, 3, 3, 4),
        {"filters": 4, "kernel_size": [3, 3], "strides": [2, 2], "padding": "valid"},
    ),
    "conv2d-transpose": (
        lambda: kl.Conv2DTranspose(4, 3), IMAGE,
        K.CONV, "linear", {"kernel": (3, 3, 4, 3), "bias": (4,)}, (-1, 10, 10, 4), {},
    ),
    "depthwise": (
        lambda: kl.DepthwiseConv2D(3), IMAGE,
        K.CONV, "linear", {"kernel": (3, 3, 3, 1), "bias": (3,)}, (-1, 6, 6, 3), {},
    ),
    "separable": (
        lambda: kl.SeparableConv2D(5, 3, activation="relu"), IMAGE, K.CONV, "relu",
        {"depthwise_kernel": (3, 3, 3, 1), "pointwise_kernel": (1, 1, 3, 5), "bias": (5,)},
        (-1, 6, 6, 5), {"filters": 5},
    ),
    "max-pooling": (
        lambda: kl.MaxPooling2D(2), IMAGE,
        K.POOLING, "linear", {}, (-1, 4, 4, 3), {"pool_size": [2, 2]},
    ),
    "average-pooling": (
        lambda: kl.AveragePooling2D(2), IMAGE, K.POOLING, "linear", {}, (-1, 4, 4, 3), {},
    ),
    "global-average": (
        lambda: kl.GlobalAveragePooling2D(), IMAGE, K.POOLING, "linear", {}, (-1, 3), {},
    ),
    "global-max": (
        lambda: kl.GlobalMaxPooling1D(), SEQUENCE, K.POOLING, "linear", {}, (-1, 4), {},
    ),
    "batch-norm": (
        lambda: kl.BatchNormalization(momentum=0.9), FLAT,
        K.NORMALIZATION, "linear", {"gamma": (6,), "beta": (6,)}, (-1, 6),
        {"momentum": 0.9, "epsilon": 0.001, "axis": -1},
    ),
    "layer-norm": (
        lambda: kl.LayerNormalization(), FLAT,
        K.NORMALIZATION, "linear", {"gamma": (6,), "beta": (6,)}, (-1, 6), {"epsilon": 0.001},
    ),
    "group-norm": (
        lambda: kl.GroupNormalization(groups=3), FLAT,
        K.NORMALIZATION, "linear", {"gamma": (6,), "beta": (6,)}, (-1, 6), {"groups": 3},
    ),
    "dropout": (
        lambda: kl.Dropout(0.25), FLAT, K.DROPOUT, "linear", {}, (-1, 6), {"rate": 0.25},
    ),
    "spatial-dropout": (
        lambda: kl.SpatialDropout1D(0.5), SEQUENCE,
        K.DROPOUT, "linear", {}, (-1, 5, 4), {"rate": 0.5},
    ),
    "noise": (
        lambda: kl.GaussianNoise(0.1), FLAT, K.DROPOUT, "linear", {}, (-1, 6), {"stddev": 0.1},
    ),
    "embedding": (
        lambda: kl.Embedding(10, 4), FLAT,
        K.EMBEDDING, "linear", {"embeddings": (10, 4)}, (-1, 6, 4),
        {"input_dim": 10, "output_dim": 4, "mask_zero": False},
    ),
    "simple-rnn": (
        lambda: kl.SimpleRNN(3), SEQUENCE, K.RECURRENT, "tanh",
        {"kernel": (4, 3), "recurrent_kernel": (3, 3), "bias": (3,)}, (-1, 3),
        {"units": 3, "return_sequences": False},
    ),
    "lstm": (
        lambda: kl.LSTM(3, return_sequences=True), SEQUENCE, K.RECURRENT, "tanh",
        {"kernel": (4, 12), "recurrent_kernel": (3, 12), "bias": (12,)}, (-1, 5, 3),
        {"units": 3, "return_sequences": True, "recurrent_activation": "sigmoid"},
    ),
    "gru-relu": (
        lambda: kl.GRU(3, activation="relu"), SEQUENCE, K.RECURRENT, "relu",
        {"kernel": (4, 9), "recurrent_kernel": (3, 9), "bias": (2, 9)}, (-1, 3), {},
    ),
    "rnn-of-a-cell": (
        lambda: kl.RNN(kl.GRUCell(3)), SEQUENCE, K.RECURRENT, "tanh",
        {"kernel": (4, 9), "recurrent_kernel": (3, 9), "bias": (2, 9)}, (-1, 3), {"units": 3},
    ),
    "bidirectional": (
        lambda: kl.Bidirectional(kl.SimpleRNN(3, name="simple_rnn")), SEQUENCE, K.RECURRENT, "tanh",
        {
            f"{way}_simple_rnn/simple_rnn_cell/{name}": shape
            for way in ("forward", "backward")
            for name, shape in (("kernel", (4, 3)), ("recurrent_kernel", (3, 3)), ("bias", (3,)))
        },
        (-1, 6), {"units": 3, "merge_mode": "concat", "wraps": "SimpleRNN"},
    ),
    "time-distributed": (
        lambda: kl.TimeDistributed(kl.Dense(2, activation="relu")), SEQUENCE,
        K.DENSE, "relu", {"kernel": (4, 2), "bias": (2,)}, (-1, 5, 2),
        {"units": 2, "wraps": "Dense"},
    ),
    "flatten": (lambda: kl.Flatten(), IMAGE, K.RESHAPE, "linear", {}, (-1, 192), {}),
    "reshape": (
        lambda: kl.Reshape((2, 3)), FLAT,
        K.RESHAPE, "linear", {}, (-1, 2, 3), {"target_shape": [2, 3]},
    ),
    "permute": (lambda: kl.Permute((2, 1)), SEQUENCE, K.RESHAPE, "linear", {}, (-1, 4, 5), {}),
    "zero-padding": (
        lambda: kl.ZeroPadding2D(1), IMAGE, K.RESHAPE, "linear", {}, (-1, 10, 10, 3), {},
    ),
    "up-sampling": (
        lambda: kl.UpSampling2D(2), IMAGE, K.RESHAPE, "linear", {}, (-1, 16, 16, 3), {},
    ),
    "rescaling": (
        lambda: kl.Rescaling(1 / 4), IMAGE,
        K.RESCALE, "linear", {}, (-1, 8, 8, 3), {"scale": 0.25},
    ),
    "activation": (
        lambda: kl.Activation("sigmoid"), FLAT, K.ACTIVATION, "sigmoid", {}, (-1, 6), {},
    ),
    "relu": (lambda: kl.ReLU(), FLAT, K.ACTIVATION, "relu", {}, (-1, 6), {}),
    "leaky-relu": (
        lambda: kl.LeakyReLU(negative_slope=0.1), FLAT,
        K.ACTIVATION, "leaky_relu", {}, (-1, 6), {"negative_slope": 0.1},
    ),
    "prelu": (lambda: kl.PReLU(), FLAT, K.ACTIVATION, "prelu", {"alpha": (6,)}, (-1, 6), {}),
    "softmax": (lambda: kl.Softmax(), FLAT, K.ACTIVATION, "softmax", {}, (-1, 6), {"axis": -1}),
    "lambda-relu": (
        lambda: kl.Lambda(keras.ops.relu), FLAT, K.ACTIVATION, "relu", {}, (-1, 6), {},
    ),
    "lambda-own": (
        lambda: kl.Lambda(lambda x: x * 2, output_shape=(6,)), FLAT,
        K.OTHER, None, {}, (-1, 6), {},
    ),
    "masking": (lambda: kl.Masking(), SEQUENCE, K.RESHAPE, "linear", {}, (-1, 5, 4), {}),
}  # fmt: skip


@pytest.mark.parametrize("case", USUAL)
def test_a_usual_layer_is_described_as_by_hand(case):
    make, shape, kind, activation, params, output_shape, config = USUAL[case]
    layer = make()
    model = keras.Sequential([keras.Input(shape), layer])
    (spec,) = program(model, sources={}).layers
    assert spec.path == layer.name
    assert spec.kind == kind
    assert spec.activation == activation
    assert dict(spec.params) == params
    assert spec.output_shape == output_shape
    assert spec.trainable is (True if params else None)
    assert {name: spec.config[name] for name in config} == config
    assert not {"name", "dtype", "trainable", "seed"} & set(spec.config)


@pytest.mark.parametrize(
    ("name", "make", "inputs", "activation"),
    [
        ("Add", kl.Add, 2, "linear"),
        ("Concatenate", kl.Concatenate, 2, "linear"),
        ("Multiply", kl.Multiply, 2, "linear"),
        ("Average", kl.Average, 2, "linear"),
    ],
)
def test_a_merge_layer_joins_its_inputs(name, make, inputs, activation):
    given = [keras.Input((3,)) for _ in range(inputs)]
    (spec,) = program(keras.Model(given, make()(given)), sources={}).layers
    assert (spec.type, spec.kind, spec.activation) == (name, K.MERGE, activation)


def test_attention_layers_hold_the_weights_of_their_parts():
    x = keras.Input((5, 4))
    layer = kl.MultiHeadAttention(num_heads=2, key_dim=3)
    (spec,) = program(keras.Model(x, layer(x, x)), sources={}).layers
    assert (spec.kind, spec.activation) == (K.ATTENTION, "linear")
    shapes = {"query": (4, 2, 3), "key": (4, 2, 3), "value": (4, 2, 3)}
    wanted = {f"{part}/kernel": shape for part, shape in shapes.items()}
    wanted |= {f"{part}/bias": (2, 3) for part in shapes}
    wanted |= {"attention_output/kernel": (2, 3, 4), "attention_output/bias": (4,)}
    assert dict(spec.params) == wanted
    assert spec.config["num_heads"] == 2


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("he_normal", {"name": "he_normal"}),
        (keras.initializers.RandomNormal(stddev=0.5), {"name": "random_normal", "stddev": 0.5}),
        (keras.initializers.Constant(0.25), {"name": "constant", "value": 0.25}),
        ("zeros", {"name": "zeros"}),
        (keras.initializers.GlorotUniform(seed=3), {"name": "glorot_uniform"}),
    ],
)
def test_an_initializer_is_named_with_its_parameters(given, wanted):
    layer = kl.Dense(2, kernel_initializer=given, kernel_regularizer=keras.regularizers.L2(0.5))
    (spec,) = program(keras.Sequential([keras.Input((3,)), layer]), sources={}).layers
    found = spec.config["kernel_initializer"]
    assert {name: found[name] for name in wanted} == wanted
    assert "seed" not in found
    assert spec.config["kernel_regularizer"] == {"name": "l2", "l2": 0.5}


P, LOGITS, V = Expects.PROBABILITIES, Expects.LOGITS, Expects.VALUES
losses = keras.losses


@pytest.mark.parametrize(
    ("given", "name", "expects", "target", "reduction", "weighted"),
    [
        ("mse", "mse", V, TargetKind.REAL, "mean", False),
        ("mean_absolute_error", "mae", V, TargetKind.REAL, "mean", False),
        (losses.MeanSquaredError(reduction="sum"), "mse", V, TargetKind.REAL, "sum", False),
        (losses.Huber(reduction=None), "huber", V, TargetKind.REAL, "none", False),
        (losses.BinaryCrossentropy(), "binary_crossentropy", P, TargetKind.BINARY, "mean", False),
        (
            losses.BinaryCrossentropy(from_logits=True, label_smoothing=0.1),
            "binary_crossentropy", LOGITS, TargetKind.BINARY, "mean", True,
        ),
        (
            losses.SparseCategoricalCrossentropy(from_logits=True),
            "sparse_categorical_crossentropy", LOGITS, TargetKind.CLASS_IDS, "mean", False,
        ),
        (
            losses.CategoricalCrossentropy,
            "categorical_crossentropy", P, TargetKind.DISTRIBUTION, "mean", False,
        ),
        (
            losses.categorical_crossentropy,
            "categorical_crossentropy", P, TargetKind.DISTRIBUTION, "mean", False,
        ),
        (losses.Hinge(), "hinge", V, TargetKind.SIGN, "mean", False),
        (lambda y, p: keras.ops.mean(y - p), None, None, None, "mean", False),
    ],
)  # fmt: skip
def test_a_usual_loss_is_described_as_by_hand(given, name, expects, target, reduction, weighted):
    spec = loss_spec(given)
    assert (spec.name, spec.expects, spec.target_kind) == (name, expects, target)
    assert (spec.reduction, spec.weighted) == (reduction, weighted)


def test_a_users_loss_class_is_not_the_one_it_derives_from():
    class Mine(keras.losses.MeanSquaredError):
        def call(self, y_true, y_pred):
            return keras.ops.mean(y_true * y_pred, axis=-1)

    assert loss_spec(Mine()).name is None
    assert loss_spec(Mine()).type == "Mine"


@pytest.mark.parametrize(
    ("given", "name", "rate", "config"),
    [
        (keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True), "sgd", 0.1,
         {"momentum": 0.9, "nesterov": True, "clipnorm": None}),
        (keras.optimizers.Adam(beta_1=0.8, epsilon=1e-5, clipnorm=2.0), "adam", 0.001,
         {"beta_1": 0.8, "beta_2": 0.999, "epsilon": 1e-5, "clipnorm": 2.0}),
        (keras.optimizers.AdamW(0.01, weight_decay=0.1), "adamw", 0.01, {"weight_decay": 0.1}),
        (keras.optimizers.RMSprop(0.02, rho=0.8, clipvalue=0.5), "rmsprop", 0.02,
         {"rho": 0.8, "clipvalue": 0.5}),
        (keras.optimizers.Adagrad(0.03, global_clipnorm=1.0), "adagrad", 0.03,
         {"global_clipnorm": 1.0}),
    ],
)  # fmt: skip
def test_a_usual_optimizer_is_described_as_by_hand(given, name, rate, config):
    spec = optimizer_spec(given)
    assert (spec.name, spec.learning_rate, spec.schedule) == (name, rate, None)
    assert {key: spec.config[key] for key in config} == config


def test_a_learning_rate_function_of_the_users_is_not_called():
    def rate():
        raise AssertionError("called")

    spec = optimizer_spec(keras.optimizers.SGD(rate))
    assert (spec.learning_rate, spec.schedule) == (None, "rate")


@pytest.mark.parametrize(
    ("layer", "axis"),
    [
        (kl.Dense(3), -1),
        (kl.Conv2D(3, 2), -1),
        (kl.Conv2D(3, 2, data_format="channels_first"), 1),
        (kl.BatchNormalization(axis=1), 1),
        (kl.LSTM(3), -1),
        (kl.TimeDistributed(kl.Conv2D(3, 2, data_format="channels_first")), 2),
    ],
)
def test_the_axis_of_the_units(layer, axis):
    assert unit_axis(layer) == axis
