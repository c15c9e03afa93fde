"""Running the user's code once more than the bare run does, without a trace of it."""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from keras.src.utils import module_utils


@contextmanager
def undisturbed() -> Iterator[None]:
    """Puts back the random states of Python and NumPy; what is warned was warned already."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


@contextmanager
def tensorflow_left_alone() -> Iterator[None]:
    """Keeps Keras from importing TensorFlow, for seconds, when a `get_config` asks about it."""
    lazy = module_utils.tensorflow
    if "tensorflow" in sys.modules or lazy._available is not None:
        yield
        return
    lazy._available = False
    try:
        yield
    finally:
        lazy._available = None
