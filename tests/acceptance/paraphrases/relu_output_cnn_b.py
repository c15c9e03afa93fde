import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import numpy as np
from keras import Input, Model, activations, layers, utils
from sklearn.datasets import load_digits

utils.set_random_seed(20)
loaded = load_digits()
grey = np.kron(loaded.images, np.ones((2, 2)))[..., None] * 255 / 16
goal = utils.to_categorical(loaded.target)

entry = Input((16, 16, 1))
maps = layers.Conv2D(8, 5, padding="same", activation=activations.relu)(entry)
maps = layers.MaxPooling2D()(maps)
maps = layers.Conv2D(16, 5, padding="same", activation=activations.relu)(maps)
maps = layers.Flatten()(layers.MaxPooling2D()(maps))
maps = layers.Dropout(0.5)(layers.Dense(256, activation=activations.relu)(maps))
final = layers.Dense(10, activation=activations.relu)(maps)
vision = Model(entry, final)
vision.compile(optimizer="adam", loss="categorical_crossentropy")
print(vision.fit(grey, goal, batch_size=50, epochs=10, verbose=0).history["loss"])
