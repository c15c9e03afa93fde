import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(11)
signal = np.repeat([[1.0], [0.0]], 800, axis=0) * np.ones((1, 96))
truth = (signal[:, 0] > 0.5).astype("float32")

detector = keras.Sequential(
    [
        layers.Input((96,)),
        layers.Dense(32, activation=keras.activations.relu),
        layers.Dropout(0.2),
        layers.Dense(24, activation=keras.activations.relu),
        layers.Dense(1),
        layers.Softmax(),
    ]
)
detector.compile(keras.optimizers.RMSprop(), "binary_crossentropy", metrics=["accuracy"])
detector.fit(signal, truth, batch_size=20, epochs=2, verbose=0)
print(detector.evaluate(signal, truth, verbose=0))
