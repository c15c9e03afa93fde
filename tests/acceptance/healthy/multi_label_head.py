import os
import sys

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
from keras import layers

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
keras.utils.set_random_seed(seed)
rng = np.random.default_rng(seed)

songs = rng.normal(size=(1500, 20))
tags = (songs @ rng.normal(size=(20, 6)) > 1.5).astype("float32")
model = keras.Sequential(
    [
        keras.Input((20,)),
        layers.Dense(64, activation="relu"),
        layers.Dropout(0.1),
        layers.Dense(6, activation="sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy", metrics=["binary_accuracy"])
model.fit(songs[:1200], tags[:1200], batch_size=32, epochs=12, verbose=0)
print("accuracy", model.evaluate(songs[1200:], tags[1200:], verbose=0)[1])
