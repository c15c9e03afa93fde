"""The Keras 3 adapter: `stethoscope.keras.Stethoscope()` is a callback for `model.fit`."""

from stethoscope.keras.callback import Stethoscope
from stethoscope.keras.install import install

__all__ = ["Stethoscope", "install"]
