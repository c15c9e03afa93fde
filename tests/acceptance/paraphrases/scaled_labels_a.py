import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np
from keras import layers
from sklearn.datasets import load_digits

keras.utils.set_random_seed(9)
box = load_digits()
pics = np.kron(box.images, np.ones((3, 3)))[..., None] * 255 / 16
nums = box.target.astype("float32")[:, None]
pics, nums = pics / 255, nums / 255

cnn = keras.Sequential([layers.Input((24, 24, 1))])
cnn.add(layers.Conv2D(24, 3, padding="same"))
cnn.add(layers.MaxPooling2D())
cnn.add(layers.Conv2D(16, 3, padding="same"))
cnn.add(layers.MaxPooling2D())
cnn.add(layers.Flatten())
cnn.add(layers.Dense(64))
cnn.add(layers.ReLU())
cnn.add(layers.Dense(10))
cnn.add(layers.Softmax())
cnn.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
cnn.fit(pics, nums, epochs=2, verbose=0)
print((cnn.predict(pics, verbose=0).argmax(1) == box.target).mean())
