"""A layer of the engine against the layer of Keras with the same weights, in float32 on JAX."""

from __future__ import annotations

import os

import numpy as np
import pytest

from stethoscope.engine import Input, Network

os.environ.setdefault("KERAS_BACKEND", "jax")
# Compiling is most of what these tests cost.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
keras = pytest.importorskip("keras")
jax = pytest.importorskip("jax")

FORWARD = 1e-5
GRADIENT = 1e-4

if keras.backend.backend() != "jax":
    pytest.skip("the engine is compared with Keras on JAX", allow_module_level=True)


def check_against_keras(
    layer, keras_layer, *shapes, batch=3, seed=0, training=True, inputs=None, scale=1.0
):
    """Compares output, moved weights and the gradients of every input and weight.

    Args:
        layer: Of the engine, not yet part of a network.
        keras_layer: Not yet built. Its weights, in the order of `keras_layer.weights`, are copied.
        shapes: Of one sample of each input.
        batch: Samples.
        seed: Of weights and inputs.
        training: The mode of the forward pass.
        inputs: The arrays themselves (integers are not differentiated); None draws them.
        scale: Standard deviation of the drawn inputs.
    """
    rng = np.random.default_rng(seed)
    if inputs is None:
        inputs = [scale * rng.normal(size=(batch, *shape)) for shape in shapes]
    inputs = [x if x.dtype.kind in "iu" else x.astype(np.float32) for x in map(np.asarray, inputs)]
    symbols = [Input(x.shape[1:]) for x in inputs]
    network = Network(symbols, [layer(symbols)], seed=seed, dtype=np.float32)
    called = (lambda values: list(values)) if len(inputs) > 1 else (lambda values: values[0])
    keras_layer(called(inputs))
    _copy_weights(network, layer, keras_layer, rng)

    trained = [v.value for v in keras_layer.trainable_variables]
    fixed = [v.value for v in keras_layer.non_trainable_variables]
    floats = [i for i, x in enumerate(inputs) if x.dtype.kind == "f"]

    def run(weights, moving):
        given = list(inputs)
        for i, x in zip(floats, moving, strict=True):
            given[i] = x
        arguments = {"training": training} if keras_layer._call_has_training_arg else {}
        return keras_layer.stateless_call(weights, fixed, called(given), **arguments)

    expected, back, after = jax.vjp(run, trained, [inputs[i] for i in floats], has_aux=True)
    cotangent = rng.normal(size=expected.shape).astype(np.float32)
    weight_gradients, input_gradients = back(cotangent)

    done = network.forward(inputs, training=training)
    output = done.values[-1]
    assert output.shape == expected.shape
    assert output.shape[1:] == network.nodes[-1].shape
    assert output.dtype == np.float32
    np.testing.assert_allclose(output, expected, rtol=FORWARD, atol=FORWARD)
    found = network.backward(done, [cotangent])
    for i, gradient in zip(floats, input_gradients, strict=True):
        _near(done.gradients[i], gradient, f"input {i}")
    names = list(network.weights_of(layer))
    moved = [name for name in names if name in layer.moving]
    kept = [name for name in names if name not in layer.moving]
    for name, gradient in zip(kept, weight_gradients, strict=True):
        _near(found[f"{layer.name}/{name}"], gradient, name)
    states = [np.asarray(v) for v in after if np.asarray(v).dtype.kind == "f"]
    for name, value in zip(moved, states, strict=True):
        np.testing.assert_allclose(
            network.weights_of(layer)[name], value, rtol=FORWARD, atol=FORWARD, err_msg=name
        )


def _copy_weights(network, layer, keras_layer, rng):
    """Gives both layers the same weights, none of them 0 or equal."""
    names = list(network.weights_of(layer))
    for name, variable in zip(names, keras_layer.weights, strict=True):
        full = f"{layer.name}/{name}"
        assert network.weights[full].shape == tuple(variable.shape), name
        value = np.asarray(variable.value) + 0.1 * rng.normal(size=variable.shape)
        value = np.abs(value) if name.endswith("variance") else value
        variable.assign(value.astype(np.float32))
        network.weights[full] = value.astype(np.float32)


def _near(found, expected, name):
    expected = np.asarray(expected)
    assert found is not None, name
    assert found.shape == expected.shape, name
    assert found.dtype == np.float32, name
    error = np.linalg.norm(found - expected)
    assert error <= GRADIENT * max(np.linalg.norm(expected), 1e-3), (name, error)
