import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np


class Fall(keras.Model):
    def __init__(self):
        super().__init__()
        self.one = keras.layers.Dense(32, activation=keras.activations.relu)
        self.two = keras.layers.Dense(32, activation=keras.activations.relu)
        self.end = keras.layers.Dense(1)

    def call(self, moment):
        return self.end(self.two(self.one(moment)))


keras.utils.set_random_seed(8)
moments = np.arange(0, 5, 0.05)[:, None]
drops = 5 * moments**2 + np.random.normal(size=moments.shape) ** 3
model = Fall()
model.compile(
    loss=keras.losses.MeanSquaredError(),
    optimizer=keras.optimizers.SGD(learning_rate=0.1),
)
model.fit(moments, drops, batch_size=25, epochs=100, verbose=0)
print(model.evaluate(moments, drops, verbose=0))
