import os
import sys

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np
from keras import layers
from sklearn.metrics import roc_auc_score

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
keras.utils.set_random_seed(seed)
rng = np.random.default_rng(seed)

fraud = (rng.random(4000) < 0.05).astype("float32")
payments = rng.normal(size=(4000, 8)) + 1.3 * fraud[:, None] * (rng.random(8) > 0.3)
model = keras.Sequential([keras.Input((8,)), layers.Dense(16, "relu"), layers.Dense(1, "sigmoid")])
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(payments[:3000], fraud[:3000], batch_size=32, epochs=8, verbose=0)
print("auc", roc_auc_score(fraud[3000:], model.predict(payments[3000:], verbose=0)[:, 0]))
