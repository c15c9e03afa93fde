import os
import sys

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
from keras import layers

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
keras.utils.set_random_seed(seed)
rng = np.random.default_rng(seed)

rate = rng.dirichlet(np.full(2000, 0.1), size=2)
review = rng.integers(0, 2, 1200)
words = np.stack([rng.poisson(30 * (0.7 * rate[k] + 0.3 * rate.mean(0))) for k in review])
words = (words > 0).astype("float32")
model = keras.Sequential(
    [
        keras.Input((2000,)),
        layers.Dense(16, activation="relu"),
        layers.Dense(16, activation="relu"),
        layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile("rmsprop", "binary_crossentropy", metrics=["accuracy"])
model.fit(words[:1000], review[:1000], batch_size=32, epochs=6, verbose=0)
print("accuracy", model.evaluate(words[1000:], review[1000:], verbose=0)[1])
