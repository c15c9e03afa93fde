import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import numpy as np
from keras import Input, Model, layers, optimizers, utils

utils.set_random_seed(19)
seconds = np.linspace(0, 5, 64).reshape(-1, 1)
metres = 4.9 * seconds**2 + np.random.default_rng(19).normal(size=(64, 1))

entry = Input((1,))
upper = layers.Dense(64, "relu")(entry)
upper = layers.Dense(30, "relu", kernel_initializer="random_uniform")(upper)
fall = Model(entry, layers.Dense(1)(upper))
fall.compile(optimizers.SGD(0.1), "mse")
fall.fit(seconds, metres, batch_size=16, epochs=150, verbose=0)
print(fall.evaluate(seconds, metres, verbose=0))
