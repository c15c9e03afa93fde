import os
import sys

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np
from keras import layers
from sklearn.datasets import load_digits

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
keras.utils.set_random_seed(seed)

digits = load_digits()
images = np.kron(digits.images, np.ones((2, 2)))[..., None] * 255 / 16
model = keras.Sequential(
    [
        keras.Input((16, 16, 1)),
        layers.BatchNormalization(),
        layers.Conv2D(8, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(16, 3, activation="relu"),
        layers.Flatten(),
        layers.Dense(10, activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(images[:1400], digits.target[:1400], batch_size=32, epochs=5, verbose=0)
print("accuracy", model.evaluate(images[1400:], digits.target[1400:], verbose=0)[1])
