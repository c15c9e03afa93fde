import os
import sys

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
from keras.layers import Dense

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
keras.utils.set_random_seed(seed)


def load_packets(rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    attack = (rng.random(rows) < 0.62).astype(int)
    source = 3232235776 + rng.integers(1, 255, rows) + 65536 * attack
    target = 3232236032 + rng.integers(1, 255, rows)
    port = np.where(attack == 1, rng.choice([22, 23, 445], rows), rng.choice([80, 443, 53], rows))
    length = rng.integers(40, 600, rows) + attack * rng.integers(0, 900, rows)
    sent = rng.integers(0, 600000, rows) // (1 + 9 * attack)
    flags = (rng.random((rows, 6)) < 0.3 + 0.3 * attack[:, None]).astype(int)
    return np.column_stack([source, target, port, length, sent, flags]).astype(float), attack


x, y = load_packets(60)

init = keras.initializers.RandomNormal(stddev=0.05)
model = keras.Sequential()
model.add(keras.Input(shape=(11,)))
model.add(Dense(12, kernel_initializer=init, activation="relu"))
model.add(Dense(12, kernel_initializer=init, activation="relu"))
model.add(Dense(1, kernel_initializer=init, activation="relu"))

model.compile(loss="binary_crossentropy", optimizer="adam", metrics=["accuracy"])
model.fit(x, y, epochs=100, batch_size=5, verbose=0)

loss, accuracy = model.evaluate(x, y, verbose=0)
print(f"loss {loss:.4f} accuracy {accuracy:.2%}")
