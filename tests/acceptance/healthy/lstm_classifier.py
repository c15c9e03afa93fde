import os
import sys

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
from keras import layers

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
keras.utils.set_random_seed(seed)
rng = np.random.default_rng(seed)

slope = rng.integers(0, 2, 800)
time = np.linspace(0, 1, 20)
series = np.sin(6 * time * (1 + slope[:, None])) + 0.3 * rng.normal(size=(800, 20))
model = keras.Sequential(
    [
        keras.Input((20, 1)),
        layers.LSTM(16),
        layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy", metrics=["accuracy"])
model.fit(series[:640, :, None], slope[:640], batch_size=32, epochs=6, verbose=0)
print("accuracy", model.evaluate(series[640:, :, None], slope[640:], verbose=0)[1])
