import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import layers
from sklearn.datasets import load_digits

keras.utils.set_random_seed(4)
pictures, numbers = load_digits(return_X_y=True)
tower = keras.Sequential()
tower.add(layers.Input((64,)))
for _ in range(12):
    tower.add(layers.Dense(48))
    tower.add(layers.Activation("sigmoid"))
tower.add(layers.Dense(10, activation="softmax"))
tower.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
tower.fit(pictures / 16, numbers, batch_size=32, epochs=4, verbose=0)
print(tower.evaluate(pictures / 16, numbers, verbose=0))
