"""Derivatives against central finite differences, in float64, along random directions."""

from __future__ import annotations

import copy

import numpy as np

from stethoscope.engine import Input, Network

STEP = 1e-6  # near the cube root of the precision, where a central difference is most exact
TOLERANCE = 1e-6


def check_layer(layer, *shapes, batch=3, seed=0, training=True, inputs=None, directions=3):
    """Compares the gradients of every input and weight of one layer.

    Args:
        layer: Not yet part of a network.
        shapes: Of one sample of each input.
        batch: Samples.
        seed: Of weights, inputs and directions.
        training: The mode of the forward pass.
        inputs: The arrays themselves (integers are not differentiated); None draws them.
        directions: How many directions each array is moved along.
    """
    rng = np.random.default_rng(seed)
    symbols = [Input(shape) for shape in shapes]
    network = Network(symbols, [layer(symbols)], seed=seed, dtype=np.float64)
    for name, weight in network.weights.items():  # zeros hide mistakes
        network.weights[name] = weight + 0.1 * rng.normal(size=weight.shape)
    if inputs is None:
        inputs = [rng.normal(size=(batch, *shape)) for shape in shapes]
    state = copy.deepcopy(network.rng)
    weights = dict(network.weights)

    def forward():
        network.rng = copy.deepcopy(state)
        network.weights.update({n: w for n, w in weights.items() if n not in network.trained})
        return network.forward(inputs, training=training)

    done = forward()
    cotangent = rng.normal(size=done.values[-1].shape)
    found = network.backward(done, [cotangent])
    pairs = {f"input {i}": (x, done.gradients[i]) for i, x in enumerate(inputs)}
    pairs |= {name: (network.weights[name], found[name]) for name in network.trained}
    for name, (array, gradient) in pairs.items():
        if np.issubdtype(array.dtype, np.integer):
            continue
        assert gradient.shape == array.shape, name
        assert gradient.dtype == np.float64, name
        start = array.copy()
        for _ in range(directions):
            direction = rng.normal(size=array.shape)
            ends = []
            for sign in (1, -1):
                array[...] = start + sign * STEP * direction
                ends.append((forward().values[-1] * cotangent).sum())
            array[...] = start
            expected = (ends[0] - ends[1]) / (2 * STEP)
            size = np.linalg.norm(gradient) * np.linalg.norm(direction) / np.sqrt(array.size)
            error = abs(expected - (gradient * direction).sum())
            assert error <= TOLERANCE * max(abs(expected), size), (name, error, expected)
