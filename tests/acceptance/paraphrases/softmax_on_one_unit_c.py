import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np


class Gate(keras.Model):
    def __init__(self, width):
        super().__init__()
        self.first = keras.layers.Dense(width, activation="relu")
        self.second = keras.layers.Dense(width, activation="relu")
        self.verdict = keras.layers.Dense(1, activation=keras.activations.softmax)

    def call(self, batch):
        return self.verdict(self.second(self.first(batch)))


keras.utils.set_random_seed(31)
patterns = np.concatenate([np.ones((640, 64)), np.zeros((640, 64))])
kind = np.concatenate([np.ones((640, 1)), np.zeros((640, 1))])
gate = Gate(48)
gate.compile(optimizer="rmsprop", loss="binary_crossentropy")
gate.fit(patterns, kind, batch_size=32, epochs=3, verbose=0)
print(gate.evaluate(patterns, kind, verbose=0))
