import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
from sklearn.datasets import load_digits


class TwoLayers(keras.Model):
    def __init__(self):
        super().__init__()
        wide = keras.initializers.RandomNormal(stddev=1.0)
        self.lower = keras.layers.Dense(24, kernel_initializer=wide, bias_initializer=wide)
        self.upper = keras.layers.Dense(10, kernel_initializer=wide, bias_initializer=wide)

    def call(self, picture):
        return self.upper(self.lower(picture))


keras.utils.set_random_seed(29)
numbers = load_digits()
flat = np.kron(numbers.images, np.ones((4, 4)))[:, 2:30, 2:30].reshape(-1, 784) / 16
hot = keras.utils.to_categorical(numbers.target)
two = TwoLayers()
two.compile(
    optimizer=keras.optimizers.SGD(learning_rate=3.0), loss="mean_squared_error", metrics=["acc"]
)
two.fit(flat, hot, batch_size=10, epochs=2, verbose=0)
print(two.evaluate(flat, hot, verbose=0))
