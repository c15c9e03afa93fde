import sys

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
tf.keras.utils.set_random_seed(seed)

digits = load_digits()
images = np.kron(digits.images, np.ones((4, 4)))[:, 2:30, 2:30] * 255 / 16
images = images.astype("float32").reshape(-1, 28, 28, 1)
labels = digits.target.reshape(-1, 1)
train_images, test_images = images[:1400], images[1400:]
train_labels, test_labels = labels[:1400], labels[1400:]

train_images, test_images = train_images / 255.0, test_images / 255.0

model = tf.keras.models.Sequential(
    [
        tf.keras.Input(shape=(28, 28, 1)),
        tf.keras.layers.Conv2D(64, (3, 3), padding="same", activation="relu"),
        tf.keras.layers.MaxPooling2D((2, 2)),
        tf.keras.layers.Conv2D(32, (3, 3), padding="same", activation="relu"),
        tf.keras.layers.MaxPooling2D((2, 2)),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(128, activation="relu"),
        tf.keras.layers.Dense(10, activation="softmax"),
    ]
)
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train_images, train_labels, epochs=3, verbose=2)

test_loss, test_accuracy = model.evaluate(test_images, test_labels, verbose=0)
print(f"Test loss: {test_loss:.4f}, test accuracy: {test_accuracy:.4f}")
