"""Tells three kinds of flowers apart by four measurements."""

import numpy as np

from stethoscope.engine import Activation, Dense, Sequential
from stethoscope.engine.losses import SparseCategoricalCrossentropy
from stethoscope.engine.optimizers import SGD

rng = np.random.default_rng(0)
centres = np.array([[5.0, 3.4, 1.5, 0.2], [5.9, 2.8, 4.3, 1.3], [6.6, 3.0, 5.6, 2.0]])
kinds = rng.integers(0, 3, 600)
flowers = centres[kinds] + 0.35 * rng.normal(size=(600, 4))
flowers = (flowers - flowers.mean(axis=0)) / flowers.std(axis=0)

model = Sequential(seed=0)
model.add(Dense(32))
model.add(Activation("relu"))
model.add(Dense(3))
model.add(Activation("softmax"))
model.compile(
    optimizer=SGD(learning_rate=0.1),
    loss=SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(flowers, kinds, batch_size=32, epochs=10, verbose=1)
