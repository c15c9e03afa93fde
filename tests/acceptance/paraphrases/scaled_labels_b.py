import os

os.environ.setdefault("KERAS_BACKEND", "torch")

from keras import Input, Model, activations, layers, losses, utils
from sklearn.datasets import load_digits

utils.set_random_seed(16)
xs, ys = load_digits(return_X_y=True)
images, classes = xs.reshape(-1, 8, 8, 1) / 255.0 * 15, ys / 255.0

entry = Input((8, 8, 1))
field = layers.Conv2D(32, 3, padding="same")(entry)
field = layers.MaxPooling2D()(field)
field = layers.Conv2D(32, 3, padding="same")(field)
field = layers.Flatten()(field)
field = layers.Dense(100, activation=activations.relu)(field)
odds = layers.Dense(10, activation=activations.softmax)(field)
sorter = Model(entry, odds)
sorter.compile("adam", losses.SparseCategoricalCrossentropy(), metrics=["accuracy"])
sorter.fit(images, classes, batch_size=32, epochs=2, verbose=0)
print((sorter.predict(images, verbose=0).argmax(1) == ys).mean())
