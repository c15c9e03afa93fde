"""What watching a Keras `fit` costs; the harness is `overhead.py`.

    KERAS_BACKEND=jax python benchmarks/overhead_keras.py keras-cnn
    KERAS_BACKEND=torch python benchmarks/overhead_keras.py keras-cnn

Each copy runs its `fit` in a thread of its own, which waits for its turn at every epoch of 20
steps; so a step of the harness, and `bare ms`, is an epoch. The first one is the dense start.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
from overhead import Case, case, main

STEPS = 20  # one of them is probed


class Turns:
    """A `fit` that takes one epoch at a time.

    Args:
        make: Gives a compiled model.
        batch: Inputs and targets of every step.
    """

    def __init__(self, make: Any, batch: tuple[Any, Any]) -> None:
        self._make, self._batch = make, batch
        self._go, self._done = threading.Semaphore(0), threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._callbacks: list[Any] = []

    def step(self) -> None:
        """Trains one epoch; Keras reads its loss at the end, and so waits for it on JAX too."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._fit, daemon=True)
            self._thread.start()
            self._done.acquire()
        self._go.release()
        self._done.acquire()

    @contextlib.contextmanager
    def watch(self) -> Iterator[Any]:
        """Watches the fit; a callback is asleep between turns anyway."""
        from stethoscope.keras import Stethoscope

        self._callbacks = [Stethoscope(quiet=True, trace_dir=tempfile.mkdtemp())]
        yield self

    def pause(self) -> None:
        """Nothing to do."""

    def resume(self) -> None:
        """Nothing to do."""

    def _fit(self) -> None:
        import keras

        def wait(epoch: int, logs: Any = None) -> None:
            self._done.release()
            self._go.acquire()

        waiting = keras.callbacks.LambdaCallback(on_epoch_begin=wait)
        self._make().fit(
            self._batches(),
            steps_per_epoch=STEPS,
            epochs=10**6,
            shuffle=False,
            verbose=0,
            callbacks=[*self._callbacks, waiting],
        )

    def _batches(self) -> Iterator[tuple[Any, Any]]:
        while True:
            yield self._batch


@case("keras-cnn")
def keras_cnn() -> Case:
    """A CIFAR-size network: 3 convolutional and 2 dense layers, batch 32."""
    rng = np.random.default_rng(0)
    batch = (rng.normal(size=(32, 32, 32, 3)).astype("float32"), rng.integers(0, 10, 32))
    turns = Turns(_cnn, batch)
    return turns.step, turns.watch


def _cnn() -> Any:
    import keras
    from keras import layers

    model = keras.Sequential(
        [
            keras.Input((32, 32, 3)),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


@case("keras-mlp")
def keras_mlp() -> Case:
    """784-512-256-10, batch 128: little work for each layer."""
    rng = np.random.default_rng(0)
    batch = (rng.normal(size=(128, 784)).astype("float32"), rng.integers(0, 10, 128))
    turns = Turns(_mlp, batch)
    return turns.step, turns.watch


def _mlp() -> Any:
    import keras
    from keras import layers

    sizes = (512, 256)
    hidden = [layers.Dense(size, activation="relu") for size in sizes]
    model = keras.Sequential([keras.Input((784,)), *hidden, layers.Dense(10, activation="softmax")])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


if __name__ == "__main__":
    sys.argv[1:1] = ["--steps", "1", "--warm", "1", "--rounds", "4"]
    main()
