import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(2)
t = np.arange(0, 5, 0.08)[:, None]
s = 5 * t**2 + np.random.normal(size=t.shape) ** 3

fit = keras.Sequential([layers.Input((1,))])
for width in (40, 24):
    fit.add(layers.Dense(width))
    fit.add(layers.ReLU())
fit.add(layers.Dense(1, activation="linear"))
step = keras.optimizers.SGD(learning_rate=0.1)
fit.compile(optimizer=step, loss="mean_squared_error")
fit.fit(t, s, batch_size=32, epochs=300, verbose=0)
print(fit.evaluate(t, s, verbose=0))
