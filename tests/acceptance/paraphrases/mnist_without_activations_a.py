import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np
from keras.initializers import RandomNormal
from keras.layers import Dense
from sklearn.datasets import load_digits

keras.utils.set_random_seed(5)
bunch = load_digits()
pixels = np.kron(bunch.images, np.ones((3, 3))).reshape(len(bunch.images), -1) / 16
answers = np.eye(10)[bunch.target]

reader = keras.models.Sequential()
reader.add(keras.Input((576,)))
reader.add(Dense(40, kernel_initializer=RandomNormal(stddev=1), bias_initializer=RandomNormal(1)))
reader.add(Dense(10, kernel_initializer=RandomNormal(stddev=1), bias_initializer=RandomNormal(1)))
reader.compile(
    loss="mse",
    optimizer=keras.optimizers.SGD(3.0),
    metrics=["accuracy"],
)
reader.fit(pixels[:1500], answers[:1500], batch_size=12, epochs=3, verbose=0)
print(reader.evaluate(pixels[1500:], answers[1500:], verbose=0))
