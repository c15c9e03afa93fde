import os
import sys

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np
from sklearn.model_selection import train_test_split

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
keras.utils.set_random_seed(seed)

x = np.arange(-10, 10.05, 0.1).reshape(-1, 1)
y = x**2 + 3
x_train, x_test, y_train, y_test = train_test_split(x, y, random_state=seed)

model = keras.Sequential()
model.add(keras.Input(shape=(1,)))
model.add(keras.layers.Dense(5, activation="sigmoid"))
model.add(keras.layers.Dense(1, activation="sigmoid"))

model.compile(loss="mean_squared_error", optimizer="sgd")
model.fit(x_train, y_train, epochs=1000, batch_size=150, verbose=0)

print("train mse", model.evaluate(x_train, y_train, verbose=0))
print("test mse", model.evaluate(x_test, y_test, verbose=0))
