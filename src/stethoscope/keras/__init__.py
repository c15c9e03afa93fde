"""The Keras 3 adapter: `stethoscope.keras.Stethoscope()` is a callback for `model.fit`."""

from stethoscope.keras.callback import Stethoscope

__all__ = ["Stethoscope"]
