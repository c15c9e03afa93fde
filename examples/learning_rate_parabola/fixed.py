import os
import sys

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np
from keras.layers import Dense

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
keras.utils.set_random_seed(seed)

x = np.arange(0, 5, 0.1).reshape(-1, 1)
y = 5 * x**2 + np.random.normal(size=x.shape) ** 3

model = keras.Sequential()
model.add(keras.Input(shape=(1,)))
model.add(Dense(50, activation="relu"))
model.add(
    Dense(30, activation="relu", kernel_initializer=keras.initializers.RandomUniform(-0.05, 0.05))
)
model.add(Dense(1))

model.compile(loss="mse", optimizer=keras.optimizers.SGD(learning_rate=0.0001))
history = model.fit(x, y, epochs=1000, batch_size=32, verbose=0)

print("first loss", history.history["loss"][0])
print("final loss", model.evaluate(x, y, verbose=0))
