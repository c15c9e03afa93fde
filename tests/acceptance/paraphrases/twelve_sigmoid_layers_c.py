import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
from sklearn.datasets import load_digits


class Deep(keras.Model):
    def __init__(self, depth, width):
        super().__init__()
        self.stack = [keras.layers.Dense(width, activation="sigmoid") for _ in range(depth)]
        self.top = keras.layers.Dense(10)

    def call(self, image):
        for block in self.stack:
            image = block(image)
        return self.top(image)


keras.utils.set_random_seed(33)
data, target = load_digits(return_X_y=True)
deep = Deep(12, 56)
deep.compile(
    optimizer=keras.optimizers.SGD(learning_rate=0.1),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
deep.fit(data / 16, target, batch_size=32, epochs=5, verbose=0)
print(deep.evaluate(data / 16, target, verbose=0))
