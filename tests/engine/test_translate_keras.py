"""Keras programs, translated: the same losses, weights and optimizer state on the same batches."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from stethoscope.engine.step import Batch
from stethoscope.engine.translate import KerasReader, TranslationError, translate
from stethoscope.types import SourceRef
from tests.engine.against_keras import keras

STEPS = 20
K = keras.layers


def mlp():
    return keras.Sequential(
        [
            keras.Input((4,)),
            K.Dense(6, kernel_regularizer="l2", bias_regularizer=keras.regularizers.L1(0.01)),
            K.LeakyReLU(0.1),
            K.Dense(3, use_bias=False, activation="softmax"),
        ]
    )


def normalized():
    return keras.Sequential(
        [
            keras.Input((4,)),
            K.Dense(5, "tanh"),
            K.BatchNormalization(scale=False, momentum=0.8, epsilon=1e-2),
            K.LayerNormalization(center=False),
            K.Identity(),
            K.Dense(3, "softmax"),
        ]
    )


def cnn():
    return keras.Sequential(
        [
            keras.Input((4,)),
            K.Reshape((2, 2, 1)),
            K.UpSampling2D(2),
            K.Conv2D(3, 3, padding="same", strides=2),
            K.BatchNormalization(),
            K.Activation("relu"),
            K.MaxPooling2D(),
            K.Flatten(),
            K.Dense(3, "softmax"),
        ]
    )


def recurrent(*layers):
    return keras.Sequential(
        [keras.Input((4,)), K.Reshape((4, 1)), *layers, K.Dense(3, activation="softmax")]
    )


def embedded():
    return keras.Sequential(
        [keras.Input((4,), dtype="int32"), K.Embedding(10, 3), K.Flatten(), K.Dense(3, "softmax")]
    )


def layers_as_activations():
    given = [K.ReLU(negative_slope=0.3), K.LeakyReLU(0.1), K.ELU(0.7), K.Softmax()]
    return keras.Sequential([keras.Input((4,)), *(K.Dense(3, activation=one) for one in given)])


def frozen():
    model = mlp()
    model.layers[0].trainable = False
    return model


def nested():
    inner = keras.Sequential([keras.Input((4,)), K.Dense(4, "tanh", name="one")], name="inner")
    x = keras.Input((4,))
    y = K.Dense(4, "relu", name="one")(inner(inner(x)))
    return keras.Model(x, K.Dense(3, "softmax")(y))


def used_inside_and_as_a_part():
    x = keras.Input((4,))
    part = keras.Model(x, K.Dense(4, "tanh")(x))
    y = part.output + part(K.Dense(4)(x))
    return keras.Model(x, K.Dense(3, "softmax")(y))


def merged():
    x = keras.Input((4,))
    a, b = K.Dense(3)(x), K.Dense(3, "tanh")(x)
    parts = [a + b, a - b, a * b, K.Average()([a, b]), K.Maximum()([a, b]), K.Dot(1)([a, b])]
    return keras.Model(x, K.Dense(3, "softmax")(K.Concatenate()(parts)))


MODELS = {
    "mlp": mlp,
    "normalized": normalized,
    "cnn": cnn,
    "lstm": lambda: recurrent(K.LSTM(3)),
    "gru": lambda: recurrent(K.GRU(3, use_bias=False)),
    "gru-before": lambda: recurrent(K.GRU(3, reset_after=False)),
    "simple-rnn": lambda: recurrent(K.SimpleRNN(3, activation="relu")),
    "bidirectional": lambda: recurrent(K.Bidirectional(K.LSTM(2))),
    "bidirectional-series": lambda: recurrent(
        *(K.Bidirectional(K.SimpleRNN(2, return_sequences=True)), K.GRU(2))
    ),
    "bidirectional-sum": lambda: recurrent(K.Bidirectional(K.GRU(2), merge_mode="sum")),
    "embedding": embedded,
    "layers-as-activations": layers_as_activations,
    "frozen": frozen,
    "nested": nested,
    "nested-and-part": used_inside_and_as_a_part,
    "merged": merged,
}

OPT = keras.optimizers
OPTIMIZERS = {
    "sgd": lambda: OPT.SGD(0.05),
    "nesterov": lambda: OPT.SGD(0.05, momentum=0.9, nesterov=True, clipnorm=0.5),
    "adam": lambda: OPT.Adam(0.01, amsgrad=True),
    "adamw": lambda: OPT.AdamW(0.01, weight_decay=0.1),
    "nadam": lambda: OPT.Nadam(0.01),
    "adamax": lambda: OPT.Adamax(0.01, clipvalue=0.1),
    "rmsprop": lambda: OPT.RMSprop(0.01, momentum=0.5, centered=True, epsilon=1e-3),
    "adagrad": lambda: OPT.Adagrad(0.05),
    "adadelta": lambda: OPT.Adadelta(1.0, global_clipnorm=1.0),
    "lion": lambda: OPT.Lion(0.001),
    "schedule": lambda: OPT.SGD(OPT.schedules.ExponentialDecay(0.1, 5, 0.5)),
}


def data(seed=0, steps=STEPS):
    """Batches of [8, 4] with class ids, which an embedding reads as ids too."""
    rng = np.random.default_rng(seed)
    return [
        (rng.integers(0, 10, (8, 4)).astype(np.float32) / 4, rng.integers(0, 3, 8))
        for _ in range(steps)
    ]


def compare(model, batches, weights=None):
    """Trains both on the batches; the losses, then the weights after `give_back`, are equal."""
    reader = KerasReader(model, {}, "float32")
    found = reader.read()
    losses = []
    for i, (x, y) in enumerate(batches):
        weight = None if weights is None else weights[i]
        inputs, targets = (v if isinstance(v, list) else [v] for v in (x, y))
        losses.append(found._train(Batch(inputs, targets, weight), 0, i).loss)
    start, state = model.get_weights(), [v.numpy() for v in model.optimizer.variables]
    expected = []
    for i, (x, y) in enumerate(batches):
        weight = None if weights is None else weights[i]
        expected.append(model.train_on_batch(x, y, sample_weight=weight, return_dict=True)["loss"])
        model.reset_metrics()
    np.testing.assert_allclose(losses, expected, rtol=1e-3)
    after, after_state = model.get_weights(), [v.numpy() for v in model.optimizer.variables]
    model.set_weights(start)
    for variable, value in zip(model.optimizer.variables, state, strict=False):
        variable.assign(value)
    reader.give_back(found)
    assert int(model.optimizer.iterations.numpy()) == found.optimizer.step
    for value, same in zip(model.get_weights(), after, strict=True):
        np.testing.assert_allclose(value, same, rtol=5e-3, atol=5e-4)
    for variable, same in zip(model.optimizer.variables, after_state, strict=True):
        np.testing.assert_allclose(
            variable.numpy(), same, rtol=1e-2, atol=1e-3, err_msg=variable.path
        )
    again = {name: v.copy() for name, v in translate(model).network.weights.items()}
    for name, weight in found.network.weights.items():
        np.testing.assert_array_equal(again[name], weight, err_msg=name)


@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_model(name):
    keras.utils.set_random_seed(0)
    model = MODELS[name]()
    model.compile(OPT.SGD(0.05, momentum=0.5), "sparse_categorical_crossentropy")
    batches = data()
    if name == "embedding":
        batches = [((x * 4).astype(np.int32), y) for x, y in batches]
    compare(model, batches)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_goes_on_in_mid_training(name):
    keras.utils.set_random_seed(0)
    model = mlp()
    model.compile(OPTIMIZERS[name](), "sparse_categorical_crossentropy")
    for x, y in data(1, 5):
        model.train_on_batch(x, y)
    assert translate(model).optimizer.step == 5
    compare(model, data())


def test_weights_that_do_not_decay():
    keras.utils.set_random_seed(0)
    model = mlp()
    optimizer = OPT.SGD(0.05, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_names=["kernel"])
    model.compile(optimizer, "sparse_categorical_crossentropy")
    compare(model, data())


LOSSES = {
    "huber": keras.losses.Huber(delta=0.3),
    "smoothed": keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.2),
    "function": keras.losses.log_cosh,
    "sum": keras.losses.MeanSquaredError(reduction="sum"),
    "name": "mae",
}


@pytest.mark.parametrize("name", LOSSES)
def test_settings_of_a_loss(name):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4,)), K.Dense(4, "tanh"), K.Dense(3)])
    model.compile(OPT.SGD(0.01), LOSSES[name])
    compare(model, [(x, np.eye(3, dtype=np.float32)[y]) for x, y in data()])


def test_sample_weights():
    keras.utils.set_random_seed(0)
    model = mlp()
    model.compile(OPT.SGD(0.05), "sparse_categorical_crossentropy")
    rng = np.random.default_rng(3)
    compare(model, data(), [rng.uniform(0, 2, 8).astype(np.float32) for _ in range(STEPS)])


@pytest.mark.parametrize("by_name", [False, True], ids=["list", "dict"])
def test_two_inputs_two_outputs_and_a_shared_layer(by_name):
    keras.utils.set_random_seed(0)
    a, b = keras.Input((4,)), keras.Input((4,))
    shared = K.Dense(3, "tanh")
    h = K.Concatenate()([shared(a), shared(b)])
    model = keras.Model([a, b], [K.Dense(1, name="z")(h), K.Dense(3, "softmax", name="c")(h)])
    losses, weights = ["mse", "sparse_categorical_crossentropy"], [0.3, 2.0]
    if by_name:
        losses = {"c": losses[1], "z": losses[0]}
        weights = {"c": weights[1], "z": weights[0]}
    model.compile(OPT.Adam(0.01), losses, loss_weights=weights)
    compare(model, [([x, x[:, ::-1].copy()], [x[:, :1], y]) for x, y in data()])


def test_float64_computes_in_float64():
    model = mlp()
    model.compile("adam", "mse")
    found = translate(model, dtype="float64")
    assert {w.dtype for w in found.network.weights.values()} == {np.dtype(np.float64)}


class Own(K.Layer):
    def call(self, x):
        return x * 2


class Subclassed(keras.Model):
    def call(self, x):
        return x


class Huber(keras.losses.Loss):  # named as one of the engine's
    def call(self, y, p):
        return keras.ops.mean(keras.ops.abs(y - p))


class Adam(keras.optimizers.Adam):
    pass


class Hundredfold(keras.Model):
    def compute_loss(self, **given):
        return 100 * super().compute_loss(**given)


class Halved:
    def call(self, x, **given):
        return super().call(x, **given) / 2


class HalvedModel(Halved, keras.Sequential):
    pass


class Described(keras.Sequential):
    def __init__(self, layers):
        super().__init__(layers)
        self.purpose = "a test"

    def summary(self):
        return self.purpose


def functional(kind, wrap=lambda model, x: model):
    x = keras.Input((4,))
    return wrap(kind(x, K.Dense(1)(x), name="mine"), x)


def changed(name):
    model = one(K.Dense(1, name="d"))
    thing = model.layers[0] if name == "call" else model
    original = getattr(thing, name)
    setattr(thing, name, lambda *args, **given: original(*args, **given))
    return model


def relu(x):  # named as one of Keras's
    return 5 * x


def own_loss(y, p):
    return keras.ops.mean(y - p)


def one(layer, shape=(4,), **compiled):
    model = keras.Sequential([keras.Input(shape), layer])
    if compiled:
        model.compile(**compiled)
    return model


def called(step):
    x = keras.Input((4,))
    return keras.Model(x, K.Dense(1)(step(x)))


ERRORS = {
    "own-layer": (lambda: one(Own(name="mine")), r"layer 'mine' \(Own, train.py:7\).*your own"),
    "own-loss-of-a-model": (
        lambda: functional(Hundredfold),
        r"model 'mine' \(Hundredfold, .*test_tr.*py:\d+\).*its compute_loss is code of your own",
    ),
    "own-method-of-a-class-beside": (
        lambda: HalvedModel([keras.Input((4,)), K.Dense(1)], name="mine"),
        r"model 'mine' \(HalvedModel, .*its call is code of your own",
    ),
    "own-model-within": (
        lambda: functional(Hundredfold, lambda inner, x: keras.Model(x, inner(x))),
        r"model 'mine' \(Hundredfold, ",
    ),
    "own-method-of-one-model": (lambda: changed("train_step"), r"model .*its train_step is code"),
    "own-method-of-one-layer": (lambda: changed("call"), r"layer 'd' \(Dense, .*its call is code"),
    "own-activation": (
        lambda: one(K.Dense(1, activation=relu, name="d")),
        r"layer 'd' \(Dense, .*its activation is a function of your own",
    ),
    "own-activation-of-a-recurrence": (
        lambda: one(K.LSTM(2, recurrent_activation=relu, name="b"), (4, 1)),
        r"layer 'b' .*its recurrent_activation is a function of your own",
    ),
    "constant": (lambda: called(lambda x: x * 2.0), r"(Multiply).*called with the constant 2.0"),
    "constant-array": (
        lambda: called(lambda x: x - np.ones(4, "float32")),
        r"the constant .*1., 1.",
    ),
    "state": (
        lambda: called(lambda x: K.GRU(4)(K.Reshape((2, 2))(x), initial_state=x)),
        "initial_st",
    ),
    "no-such-layer": (lambda: one(K.UnitNormalization(name="u")), r"'u'.*no such layer\.$"),
    "setting": (
        lambda: one(K.Dense(2, kernel_constraint="non_neg", name="d")),
        r"layer 'd' \(Dense, train.py:7\).*no kernel_constraint",
    ),
    "value": (
        lambda: one(K.UpSampling2D(interpolation="bilinear", name="u"), (4, 4, 1)),
        r"layer 'u'.*no interpolation='bilinear'",
    ),
    "layer-with-weights-as-activation": (
        lambda: one(K.Dense(2, activation=K.PReLU(), name="d")),
        r"layer 'd' \(Dense, train.py:7\).*its activation is a PReLU; apply it as a layer",
    ),
    "inner-layer": (
        lambda: one(K.Bidirectional(K.LSTM(2, recurrent_dropout=0.5), name="b"), (4, 1)),
        r"layer 'b' \(Bidirectional.*no recurrent_dropout=0.5",
    ),
    "subclassed": (Subclassed, r"model 'subclassed.*' \(Subclassed\).*keras.Input"),
    "open-axis": (lambda: one(K.LSTM(2), (None, 3)), r"open axis: \(None, 3\)"),
    "precision": (
        lambda: one(K.Dense(2, dtype="mixed_float16", name="d")),
        r"layer 'd' \(Dense, train.py:7\).*computes in mixed_float16",
    ),
    "own-loss-function": (
        lambda: one(K.Dense(1), loss=own_loss, optimizer="sgd"),
        "loss 'own_loss'.*your own",
    ),
    "own-loss-class": (
        lambda: one(K.Dense(1), loss=Huber(), optimizer="sgd"),
        "loss 'Huber'.*your own",
    ),
    "own-optimizer": (
        lambda: one(K.Dense(1), loss="mse", optimizer=Adam()),
        "optimizer Adam cannot be translated",
    ),
    "accumulation": (
        lambda: one(
            K.Dense(1), loss="mse", optimizer=OPT.SGD(name="o", gradient_accumulation_steps=2)
        ),
        "optimizer 'o'.*gradient_accumulation_steps",
    ),
    "unknown-metric": (
        lambda: one(K.Dense(1), loss="mse", optimizer="sgd", metrics=[keras.metrics.AUC()]),
        "metric 'auc' \\(AUC\\) cannot be translated: the engine has no such metric",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_cannot_be_translated(name):
    make, message = ERRORS[name]
    model = make()
    sources = {id(layer): SourceRef("train.py", 7) for layer in model.layers}
    with pytest.raises(TranslationError, match=message) as raised:
        translate(model, sources=sources)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("layer", [K.BatchNormalization, lambda: K.Dropout(0.5)])
def test_training_of_a_call_is_overridden_by_the_model_as_in_keras(layer):
    assert translate(called(lambda x: layer()(x, training=False))).network.layers


def test_a_class_that_changes_nothing_of_the_training():
    assert translate(Described([keras.Input((4,)), K.Dense(2)])).network.layers


USUAL = {  # arguments that a layer must be given
    "units": 2,
    "filters": 2,
    "kernel_size": 2,
    "rate": 0.5,
    "input_dim": 5,
    "output_dim": 2,
    "stddev": 0.1,
    "target_shape": (-1,),
    "dims": (1,),
    "n": 3,
    "axes": 1,
    "activation": "relu",
    "output_size": 1,
    "scale": 2.0,
    "factor": 0.1,
    "height": 2,
    "width": 2,
    "height_factor": 0.1,
    "width_factor": 0.1,
    "equation": "ab,bc->ac",
    "output_shape": 2,
    "function": abs,
}
KINDS = [
    kind
    for _, kind in inspect.getmembers(keras.layers, inspect.isclass)
    if issubclass(kind, keras.layers.Layer)
]


def applied(kind):
    """A model of one layer of this kind, or None if that takes more than is known here."""
    required = [
        name
        for name, one in inspect.signature(kind).parameters.items()
        if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD
    ]
    given = {name: USUAL[name] for name in required if name in USUAL}
    if "layer" in required:
        given["layer"] = K.LSTM(2) if kind is K.Bidirectional else K.Dense(2)
    if "cell" in required:
        given["cell"] = K.LSTMCell(2)
    if kind is K.GroupNormalization:
        given["groups"] = 2
    for shape in [(4,), (6, 4), (6, 6, 4), (6, 6, 6, 4)]:
        for count in (1, 2):
            inputs = [keras.Input(shape) for _ in range(count)]
            try:
                return keras.Model(inputs, kind(**given)(inputs if count > 1 else inputs[0]))
            except Exception:  # Keras's own refusal, of whatever kind
                continue
    return None


def test_every_layer_of_keras_is_translated_or_named():
    translated, refused = set(), set()
    for kind in dict.fromkeys(KINDS):
        model = applied(kind)
        if model is None:
            continue
        try:
            translate(model)
            translated.add(kind.__name__)
        except TranslationError as error:
            assert kind.__name__ in str(error)
            refused.add(kind.__name__)
    assert len(translated) >= 45
    assert len(refused) >= 30
