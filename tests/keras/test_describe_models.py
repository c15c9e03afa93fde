"""Whole models: Sequential, functional (shared, nested, merging, several ends), subclassed."""

import keras
import numpy as np
import pytest
from keras import layers as kl

from stethoscope.keras.describe import layer_objects, program
from stethoscope.program import FitSpec, Program
from stethoscope.types import SourceRef
from stethoscope.vocabulary import Expects, LayerKind

K = LayerKind


def line(number):
    return SourceRef("train.py", number)


def two_ends():
    """Two inputs through one shared layer, a nested block with a residual, two outputs."""
    left, right = keras.Input((4,), name="left"), keras.Input((4,), name="right")
    shared = kl.Dense(4, activation="relu", name="shared")
    joined = shared(left) + shared(right)
    block = keras.Sequential(
        [keras.Input((4,)), kl.Dense(4, name="inner"), kl.ReLU(name="rectify")], name="block"
    )
    x = kl.Add(name="residual")([block(joined), joined])
    kind = kl.Dense(1, name="kind_scores")(x)
    kind = kl.Activation("sigmoid", name="kind")(kind)
    amount = kl.Dense(3, activation="softmax", name="amount")(keras.ops.tanh(x))
    return keras.Model([left, right], [kind, amount])


def test_a_functional_model_is_flattened_with_its_data_flow():
    found = program(two_ends(), sources={})
    join, squash = (s.path for s in found.layers if s.path.startswith(("add", "tanh")))
    assert set(found.edges) == {
        ("", "shared"),
        ("shared", join),
        (join, "block/inner"),
        ("block/inner", "block/rectify"),
        ("block/rectify", "residual"),
        (join, "residual"),
        ("residual", "kind_scores"),
        ("kind_scores", "kind"),
        ("residual", squash),
        (squash, "amount"),
    }
    kinds = {spec.path: (spec.kind, spec.activation) for spec in found.layers}
    assert kinds == {
        "shared": (K.DENSE, "relu"),
        join: (K.MERGE, "linear"),
        "block/inner": (K.DENSE, "linear"),
        "block/rectify": (K.ACTIVATION, "relu"),
        "residual": (K.MERGE, "linear"),
        "kind_scores": (K.DENSE, "linear"),
        "kind": (K.ACTIVATION, "sigmoid"),
        squash: (K.ACTIVATION, "tanh"),
        "amount": (K.DENSE, "softmax"),
    }
    order = [spec.path for spec in found.layers]
    assert all(not a or order.index(a) < order.index(b) for a, b in found.edges)
    assert found.activation_after("block/inner")[0] == "relu"
    assert found.producer("kind").path == "kind_scores"
    assert Program.from_json(found.to_json()) == found


LOSS_FORMS = {
    "dict": {"amount": "sparse_categorical_crossentropy", "kind": "binary_crossentropy"},
    "list": ["binary_crossentropy", "sparse_categorical_crossentropy"],
}
WEIGHT_FORMS = {"dict": {"amount": 0.5, "kind": 1.0}, "list": [1.0, 0.5]}


@pytest.mark.parametrize("form", LOSS_FORMS)
def test_each_output_has_its_loss(form):
    model = two_ends()
    model.compile("adam", LOSS_FORMS[form], loss_weights=WEIGHT_FORMS[form])
    first, second = program(model, sources={}, compile_source=line(9)).losses
    assert (first.name, first.output) == ("binary_crossentropy", "kind")
    assert (second.name, second.output) == ("sparse_categorical_crossentropy", "amount")
    assert (first.weighted, second.weighted) == (False, True)
    assert first.source == second.source == line(9)


def test_one_loss_serves_all_outputs_and_none_is_left_out():
    model = two_ends()
    model.compile("sgd", "mse")
    assert [spec.output for spec in program(model, sources={}).losses] == ["kind", "amount"]
    model.compile("sgd", ["mse", None])
    assert [spec.output for spec in program(model, sources={}).losses] == ["kind"]


def test_outputs_given_as_a_dictionary_are_matched_by_its_keys():
    x = keras.Input((3,))
    model = keras.Model(x, {"b": kl.Dense(1, name="one")(x), "a": kl.Dense(2, name="two")(x)})
    model.compile("sgd", {"a": "mse", "b": "mae"})
    found = {spec.name: spec.output for spec in program(model, sources={}).losses}
    assert found == {"mse": "two", "mae": "one"}


def test_sources_are_those_of_the_objects_else_the_compile_line():
    first, last = kl.Dense(4), kl.Dense(1)
    model = keras.Sequential([keras.Input((3,)), first, last])
    rate = keras.optimizers.schedules.ExponentialDecay(0.5, 10, 0.9)
    optimizer, loss = keras.optimizers.SGD(rate), keras.losses.MeanSquaredError()
    model.compile(optimizer, loss)
    sources = {id(first): line(1), id(last): line(2), id(rate): line(3), id(optimizer): line(4)}
    found = program(model, sources={**sources, id(loss): line(5)}, compile_source=line(6))
    assert [spec.source for spec in found.layers] == [line(1), line(2)]
    (described,) = found.optimizers
    assert (described.source, described.rate_source) == (line(4), line(3))
    assert (described.learning_rate, described.schedule) == (0.5, "ExponentialDecay")
    assert found.losses[0].source == line(5)
    model.compile("sgd", "mse")
    found = program(model, sources=sources, compile_source=line(6), fit=FitSpec(epochs=3))
    assert found.optimizers[0].source == found.losses[0].source == line(6)
    assert found.fit.epochs == 3


def test_the_optimizer_lists_what_it_updates_and_frozen_layers_keep_their_parameters():
    frozen, last = kl.Dense(4, name="frozen"), kl.Dense(1, name="last")
    frozen.trainable = False
    model = keras.Sequential([keras.Input((3,)), frozen, last])
    model.compile("sgd", "mse")
    found = program(model, sources={})
    assert found.optimizers[0].params == ("last/kernel", "last/bias")
    assert [spec.trainable for spec in found.layers] == [False, True]
    assert dict(found.layers[0].params) == {"kernel": (3, 4), "bias": (4,)}


def test_a_sequential_without_an_input_is_a_chain_until_it_is_built():
    model = keras.Sequential([kl.Dense(3, name="a"), kl.ReLU(name="b"), kl.Dense(1, name="c")])
    model.compile("sgd", "crossentropy")
    before = program(model, sources={})
    assert before.edges == (("", "a"), ("a", "b"), ("b", "c"))
    assert before.losses[0].output == "c"
    assert before.losses[0].name is None
    assert "weights" in before.unseen
    model.fit(np.ones((4, 2), "float32"), np.ones((4, 1), "float32"), verbose=0)
    after = program(model, sources={})
    assert after.edges == before.edges
    assert dict(after.layers[0].params) == {"kernel": (2, 3), "bias": (3,)}
    assert after.layers[0].output_shape == (-1, 3)
    assert after.losses[0].name == "binary_crossentropy"
    assert "weights" not in after.unseen


@keras.saving.register_keras_serializable("tests")
class Block(keras.layers.Layer):
    def __init__(self):
        super().__init__(name="own_block")
        self.inner = kl.Dense(2, activation="tanh", name="dense")
        self.scale = self.add_weight(shape=(2,), name="scale")

    def call(self, x):
        return self.inner(x) * self.scale


class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.first = kl.Dense(4, activation="relu", name="first")
        self.parts = [kl.Dense(4, name="part"), kl.Dense(4, name="part")]
        self.block = Block()
        self.stack = keras.Sequential([kl.Dense(3, name="deep")], name="stack")

    def call(self, x):
        x = self.first(x)
        for part in self.parts:
            x = part(x)
        return self.stack(self.block(x))

    def train_step(self, *arguments):
        return super().train_step(*arguments)


def test_a_subclassed_model_shows_its_layers_and_declares_its_flow_unknown():
    model = Own()
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model(np.ones((1, 2), "float32"))
    found = program(model, sources={id(model.first): line(3)})
    kinds = {spec.path: spec.kind for spec in found.layers}
    assert kinds == {
        "first": K.DENSE,
        "part": K.DENSE,
        "part_1": K.DENSE,
        "own_block": K.CONTAINER,
        "own_block/dense": K.DENSE,
        "stack/deep": K.DENSE,
    }
    assert found.edges == ()
    assert {"data flow", "training step"} <= set(found.unseen)
    (loss,) = found.losses
    assert (loss.name, loss.expects, loss.output) == (
        "sparse_categorical_crossentropy", Expects.LOGITS, None,
    )  # fmt: skip
    assert found.layer("first").source == line(3)
    assert dict(found.layer("own_block").params) == {"scale": (2,)}
    assert dict(found.layer("own_block/dense").params) == {"kernel": (4, 2), "bias": (2,)}
    assert layer_objects(model)["stack/deep"] is model.stack.layers[-1]


def test_a_users_layer_inside_a_functional_model_is_one_node_of_the_flow():
    x = keras.Input((2,))
    found = program(keras.Model(x, kl.Dense(1, name="end")(Block()(x))), sources={})
    assert found.edges == (("", "own_block"), ("own_block", "end"))
    assert found.layer("own_block/dense").activation == "tanh"


def test_a_nested_functional_model_called_twice_appears_once():
    a = keras.Input((3,))
    tower = keras.Model(a, kl.Dense(2, activation="relu", name="d")(a), name="tower")
    x, y = keras.Input((3,)), keras.Input((3,))
    joined = kl.Concatenate(name="join")([tower(x), tower(y)])
    found = program(keras.Model([x, y], kl.Dense(1, name="end")(joined)), sources={})
    assert [spec.path for spec in found.layers] == ["tower/d", "join", "end"]
    assert found.edges == (("", "tower/d"), ("tower/d", "join"), ("join", "end"))


@pytest.mark.parametrize(
    ("make", "kind", "activation"),
    [
        (lambda x: x / 255.0, K.RESCALE, "linear"),
        (lambda x: x + x, K.MERGE, "linear"),
        (lambda x: x[:, :2], K.RESHAPE, "linear"),
        (lambda x: keras.ops.reshape(x, (-1, 2, 2)), K.RESHAPE, "linear"),
        (lambda x: keras.ops.relu(x), K.ACTIVATION, "relu"),
        (lambda x: keras.ops.log_softmax(x), K.ACTIVATION, "log_softmax"),
        (lambda x: keras.ops.exp(x), K.ACTIVATION, "exponential"),
        (lambda x: keras.ops.maximum(x, 0.0), K.OTHER, None),
        (lambda x: keras.ops.mean(x, axis=-1), K.POOLING, "linear"),
        (lambda x: keras.ops.log(x), K.OTHER, None),
    ],
)
def test_an_operation_on_a_symbolic_tensor_is_a_layer_of_the_program(make, kind, activation):
    x = keras.Input((4,))
    (spec,) = program(keras.Model(x, make(x)), sources={}).layers
    assert (spec.kind, spec.activation) == (kind, activation)


def test_what_is_missing_is_declared():
    found = program(keras.Sequential([keras.Input((2,)), kl.Dense(1)]), sources={})
    assert {"losses", "optimizer"} <= set(found.unseen)
    assert found.losses == () and found.optimizers == ()
    model = keras.Sequential([keras.Input((2,)), kl.Dense(1, kernel_regularizer="l2")])
    model.compile("sgd", "mse", metrics=["mae", keras.metrics.AUC(name="auc")])
    found = program(model, sources={})
    assert found.metrics == ("mae", "auc")
    assert {"added losses", "metric auc"} <= set(found.unseen)


class Broken(keras.layers.Layer):
    """Raises wherever a stranger's layer may."""

    def call(self, x):
        return x

    def get_config(self):
        raise RuntimeError("no configuration")

    @property
    def activation(self):
        raise RuntimeError("no activation")

    @property
    def layer(self):
        raise RuntimeError("no layer")

    @property
    def function(self):
        raise RuntimeError("no function")


def test_a_layer_that_raises_at_every_question_is_still_described():
    x = keras.Input((2,))
    found = program(keras.Model(x, Broken(name="broken")(x)), sources={})
    (spec,) = found.layers
    assert (spec.path, spec.type, spec.kind) == ("broken", "Broken", K.OTHER)


@pytest.mark.parametrize("thing", [object(), None, "model", kl.Dense(2)])
def test_what_is_no_model_gives_an_empty_program(thing):
    found = program(thing, sources={})
    assert found.framework == "keras"
    assert "optimizer" in found.unseen


def test_describing_draws_no_random_number_and_changes_no_weight():
    model = keras.Sequential([keras.Input((2,)), kl.Dense(3), kl.Dropout(0.5), kl.Dense(1)])
    model.compile(keras.optimizers.Adam(), "mse", metrics=["mae"])
    before = [np.asarray(keras.ops.convert_to_numpy(v.value)) for v in model.variables]
    state = np.random.get_state()[1].copy()
    program(model, sources={})
    assert (np.random.get_state()[1] == state).all()
    after = [np.asarray(keras.ops.convert_to_numpy(v.value)) for v in model.variables]
    assert all((a == b).all() for a, b in zip(before, after, strict=True))
    assert not model.optimizer.built


class Fragile(kl.Dense):
    """A subclass whose settings cannot be read."""

    @property
    def axis(self):
        raise RuntimeError("not yet")


def test_a_layer_that_cannot_be_described_is_listed_and_the_failure_declared():
    x = keras.Input((2,))
    layer = Fragile(3, name="fragile")
    found = program(keras.Model(x, layer(x)), sources={id(layer): line(2)})
    (spec,) = found.layers
    assert (spec.path, spec.type, spec.kind, spec.source) == (
        "fragile",
        "Fragile",
        K.OTHER,
        line(2),
    )
    assert "not yet" in found.unseen["layer fragile"]


def test_a_container_is_its_own_producer():
    x = keras.Input((2,))
    first = kl.Dense(2, name="first")(x)

    class Plain(keras.layers.Layer):
        def __init__(self):
            super().__init__(name="plain")
            self.inner = kl.Dense(2, name="dense")

        def call(self, x):
            return self.inner(x)

    found = program(keras.Model(x, Plain()(first)), sources={})
    assert found.producer("plain").path == "plain"


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="only JAX empties its variables")
@pytest.mark.parametrize("rate", [0.25, keras.optimizers.schedules.CosineDecay(0.25, 100)])
def test_while_jax_holds_the_variables_the_rate_is_unknown_rather_than_the_first_one(rate):
    model = keras.Sequential([keras.Input((2,)), kl.Dense(1)])
    model.compile(keras.optimizers.SGD(rate), "mse")
    assert program(model, sources={}).optimizers[0].learning_rate == 0.25
    model._get_jax_state(True, True, True, True, purge_model_variables=True)
    found = program(model, sources={})
    assert found.optimizers[0].learning_rate is None
    assert dict(found.layers[0].params) == {"kernel": (2, 1), "bias": (1,)}


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="wraps a torch module")
def test_a_wrapped_torch_module_has_parameters_and_no_guesses():
    import torch

    layer = kl.TorchModuleWrapper(torch.nn.Linear(4, 2))
    (spec,) = program(keras.Sequential([layer]), sources={}).layers
    assert (spec.kind, spec.activation, spec.trainable) == (K.OTHER, None, True)
    assert sorted(spec.params.values()) == [(2,), (2, 4)]


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="wraps a JAX function")
def test_a_wrapped_jax_function_has_parameters_and_no_guesses():
    layer = kl.JaxLayer(lambda params, inputs: inputs @ params["w"], params={"w": np.ones((4, 2))})
    x = keras.Input((4,))
    (spec,) = program(keras.Model(x, layer(x)), sources={}).layers
    assert (spec.kind, spec.activation, spec.trainable) == (K.OTHER, None, True)
    assert list(spec.params.values()) == [(4, 2)]


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="tf.keras needs TensorFlow")
def test_a_script_that_says_tf_keras_is_described_alike():
    import tensorflow as tf

    dense = tf.keras.layers.Dense(2, activation=tf.nn.relu)
    model = tf.keras.Sequential([tf.keras.Input((4,)), dense])
    model.compile(tf.keras.optimizers.Adam(0.5), tf.keras.losses.BinaryCrossentropy())
    found = program(model, sources={})
    assert (found.framework, found.backend) == ("keras", "tensorflow")
    assert (found.layers[0].kind, found.layers[0].activation) == (K.DENSE, "relu")
    assert (found.optimizers[0].name, found.losses[0].name) == ("adam", "binary_crossentropy")
