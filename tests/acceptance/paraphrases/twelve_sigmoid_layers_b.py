import os

os.environ.setdefault("KERAS_BACKEND", "jax")

from keras import Input, Model, activations, layers, optimizers, utils
from sklearn.datasets import load_digits

utils.set_random_seed(21)
scans, kinds = load_digits(return_X_y=True)
entry = signal = Input((64,))
for depth in range(11):
    signal = layers.Dense(80, activation=activations.sigmoid)(signal)
guess = layers.Dense(10, activation=activations.softmax)(signal)
chain = Model(entry, guess)
chain.compile(
    loss="sparse_categorical_crossentropy", optimizer=optimizers.SGD(0.05), metrics=["accuracy"]
)
chain.fit(scans / 16.0, kinds, batch_size=30, epochs=6, verbose=0)
print(chain.evaluate(scans / 16.0, kinds, verbose=0))
