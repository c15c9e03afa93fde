import os
import sys

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np
from keras.layers import Activation, Dense, Dropout

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
keras.utils.set_random_seed(seed)

x_train = np.concatenate([np.ones((1000, 128)), np.zeros((1000, 128))]).astype("float32")
y_train = np.concatenate([np.ones(1000), np.zeros(1000)]).astype(bool)
x_test = np.concatenate([np.ones((100, 128)), np.zeros((100, 128))]).astype("float32")
y_test = np.concatenate([np.ones(100), np.zeros(100)]).astype(bool)

model = keras.Sequential()
model.add(keras.Input(shape=(128,)))
model.add(Dense(50, activation="relu"))
model.add(Dropout(0.2))
model.add(Dense(50))
model.add(Activation("relu"))
model.add(Dropout(0.2))
model.add(Dense(1, activation="softmax"))

model.compile(loss="binary_crossentropy", optimizer="rmsprop", metrics=["accuracy"])
model.fit(x_train, y_train, batch_size=32, epochs=3, verbose=2)

loss, accuracy = model.evaluate(x_test, y_test, verbose=0)
print(f"test loss {loss:.4f}, test accuracy {accuracy:.4f}")
