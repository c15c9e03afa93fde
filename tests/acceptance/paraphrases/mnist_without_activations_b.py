import os

os.environ.setdefault("KERAS_BACKEND", "torch")

from keras import Input, Model, initializers, layers, losses, optimizers, utils
from sklearn.datasets import load_digits

utils.set_random_seed(17)
source = load_digits()
inputs = source.images.reshape(-1, 64) / 16.0
labels = utils.to_categorical(source.target)
normal = initializers.RandomNormal(stddev=1.0)

entry = Input((64,))
middle = layers.Dense(50, kernel_initializer=normal, bias_initializer=normal)(entry)
scores = layers.Dense(10, kernel_initializer=normal, bias_initializer=normal)(middle)
net = Model(entry, scores)
rule = optimizers.SGD(learning_rate=3.0)
net.compile(rule, losses.MeanSquaredError(), metrics=["accuracy"])
net.fit(inputs, labels, batch_size=10, epochs=2, verbose=0)
print(net.evaluate(inputs, labels, verbose=0))
