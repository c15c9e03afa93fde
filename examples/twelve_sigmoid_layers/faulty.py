import os
import sys

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
from keras.layers import Dense
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
keras.utils.set_random_seed(seed)

x, y = load_digits(return_X_y=True)
x_train, x_test, y_train, y_test = train_test_split(x / 16.0, y, test_size=0.2, random_state=seed)

model = keras.Sequential(
    [
        keras.Input(shape=(64,)),
        Dense(64, activation="sigmoid"),
        Dense(64, activation="sigmoid"),
        Dense(64, activation="sigmoid"),
        Dense(64, activation="sigmoid"),
        Dense(64, activation="sigmoid"),
        Dense(64, activation="sigmoid"),
        Dense(64, activation="sigmoid"),
        Dense(64, activation="sigmoid"),
        Dense(64, activation="sigmoid"),
        Dense(64, activation="sigmoid"),
        Dense(64, activation="sigmoid"),
        Dense(64, activation="sigmoid"),
        Dense(10, activation="softmax"),
    ]
)
model.compile(
    optimizer=keras.optimizers.SGD(learning_rate=0.02, momentum=0.9),
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
)
model.fit(x_train, y_train, batch_size=32, epochs=20, verbose=0)

loss, accuracy = model.evaluate(x_test, y_test, verbose=0)
print(f"test loss: {loss:.4f}  test accuracy: {accuracy:.4f}")
