import os
import sys

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
from keras.layers import Conv2D, Dense, Dropout, Flatten, MaxPooling2D, Reshape
from sklearn.datasets import load_digits

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
keras.utils.set_random_seed(seed)

digits = load_digits()
images = np.kron(digits.images, np.ones((4, 4)))[:, 2:30, 2:30] * 255 / 16
x = images.reshape(-1, 784).astype("float32")
y = keras.utils.to_categorical(digits.target, 10)
x_train, y_train, x_test, y_test = x[:1400], y[:1400], x[1400:], y[1400:]

bias = keras.initializers.Constant(0.1)
model = keras.Sequential()
model.add(keras.Input(shape=(784,)))
model.add(Reshape((28, 28, 1)))
model.add(Conv2D(8, (5, 5), padding="same", activation="relu", bias_initializer=bias))
model.add(MaxPooling2D((2, 2), padding="same"))
model.add(Conv2D(16, (5, 5), padding="same", activation="relu", bias_initializer=bias))
model.add(MaxPooling2D((2, 2), padding="same"))
model.add(Flatten())
model.add(Dense(256, activation="relu", bias_initializer=bias))
model.add(Dropout(0.5))
model.add(Dense(10, activation="relu"))

model.compile(optimizer="adam", loss="categorical_crossentropy", metrics=["accuracy"])
history = model.fit(x_train, y_train, batch_size=50, epochs=10, verbose=2)

loss, accuracy = model.evaluate(x_test, y_test, verbose=0)
print("train loss:", history.history["loss"][-1])
print("test accuracy:", accuracy)
