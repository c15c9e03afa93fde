import os
import sys

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
from keras import layers
from sklearn.datasets import load_digits

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
keras.utils.set_random_seed(seed)

pixels = load_digits().data / 16
entry = keras.Input((64,))
code = layers.Dense(12, activation="relu")(layers.Dense(48, activation="relu")(entry))
picture = layers.Dense(64, activation="sigmoid")(layers.Dense(48, activation="relu")(code))
model = keras.Model(entry, picture)
model.compile(optimizer="adam", loss="mse")
model.fit(pixels[:1400], pixels[:1400], batch_size=32, epochs=25, verbose=0)
error = model.evaluate(pixels[1400:], pixels[1400:], verbose=0)
print("explained", 1 - error / pixels[1400:].var(axis=0).mean())
