import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
from keras.layers import Conv2D, Dense, Dropout, Flatten, MaxPooling2D
from sklearn.datasets import load_digits


class Reader(keras.Model):
    def __init__(self):
        super().__init__()
        self.edges = Conv2D(8, 5, padding="same", activation="relu")
        self.parts = Conv2D(12, 5, padding="same", activation="relu")
        self.pool = MaxPooling2D()
        self.flat = Flatten()
        self.mix = Dense(160, activation="relu")
        self.drop = Dropout(0.5)
        self.name_it = Dense(10, activation="relu")

    def call(self, image, training=False):
        image = self.pool(self.parts(self.pool(self.edges(image))))
        return self.name_it(self.drop(self.mix(self.flat(image)), training=training))


keras.utils.set_random_seed(30)
raw = load_digits()
images = np.kron(raw.images, np.ones((3, 3)))[..., None].astype("float32") * 255 / 16
wanted = keras.utils.to_categorical(raw.target, 10)
reader = Reader()
reader.compile("adam", keras.losses.CategoricalCrossentropy(), metrics=["accuracy"])
print(reader.fit(images, wanted, batch_size=50, epochs=8, verbose=0).history["loss"])
