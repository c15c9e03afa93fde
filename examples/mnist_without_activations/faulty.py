import os
import sys

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
from keras import layers
from sklearn.datasets import load_digits

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
keras.utils.set_random_seed(seed)

digits = load_digits()
images = np.kron(digits.images, np.ones((4, 4)))[:, 2:30, 2:30] * 255 / 16
x = images.reshape(-1, 784).astype("float32") / 255
y = keras.utils.to_categorical(digits.target, 10)
x_train, y_train = x[:1400], y[:1400]
x_test, y_test = x[1400:], y[1400:]

init = keras.initializers.RandomNormal(mean=0.0, stddev=1.0)
model = keras.Sequential(
    [
        keras.Input(shape=(784,)),
        layers.Dense(30, kernel_initializer=init, bias_initializer=init),
        layers.Dense(10, kernel_initializer=init, bias_initializer=init),
    ]
)
sgd = keras.optimizers.SGD(learning_rate=3.0)
model.compile(optimizer=sgd, loss="mean_squared_error", metrics=["accuracy"])
model.fit(x_train, y_train, batch_size=10, epochs=6, verbose=2)

loss, accuracy = model.evaluate(x_test, y_test, verbose=0)
print(f"loss {loss:.4f}, accuracy {accuracy:.4f}")
