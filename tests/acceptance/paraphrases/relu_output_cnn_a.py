import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
from keras import layers
from sklearn.datasets import load_digits

keras.utils.set_random_seed(10)
bundle = load_digits()
photos = (np.kron(bundle.images, np.ones((4, 4)))[:, 2:30, 2:30, None] * 255 / 16).astype("float32")
onehot = np.eye(10, dtype="float32")[bundle.target]
start = keras.initializers.Constant(0.1)
eye = keras.Sequential(
    [
        layers.Input((28, 28, 1)),
        layers.Conv2D(6, 5, padding="same", bias_initializer=start),
        layers.ReLU(),
        layers.MaxPooling2D(2, padding="same"),
        layers.Conv2D(16, 5, padding="same", bias_initializer=start),
        layers.ReLU(),
        layers.MaxPooling2D(2, padding="same"),
        layers.Flatten(),
        layers.Dense(200, bias_initializer=start),
        layers.ReLU(),
        layers.Dropout(0.5),
        layers.Dense(10),
        layers.Activation("relu"),
    ]
)
eye.compile("adam", "categorical_crossentropy", metrics=["accuracy"])
past = eye.fit(photos, onehot, batch_size=50, epochs=9, verbose=0)
print(past.history["loss"])
