"""`stethoscope.watch`: one name for every framework whose training loop is the user's own."""

from __future__ import annotations

import sys
from typing import Any

from stethoscope.scope import Scope


def watch(model: Any, optimizer: Any = None, **settings: Any) -> Scope:
    """Watches the training of a model.

    Args:
        model: A `torch.nn.Module`, or all modules that are trained together (a GAN); or a model
            of `stethoscope.engine`.
        optimizer: Of PyTorch, one or several: told at once when it updates no parameter of the
            model. Any `torch.optim` optimizer that updates the model is seen, given here or not.
        **settings: Fields of `stethoscope.config.Config`, such as `probe_every` or `on_error`.

    Returns:
        A context manager whose `report` holds the verdict.

    Raises:
        TypeError: `model` or `optimizer` is none.
        ConfigError: A setting is unknown or cannot have its value.
    """
    engine = sys.modules.get("stethoscope.engine.training")
    if engine is not None and isinstance(model, engine.Trainable):
        from stethoscope import engine as numpy_engine

        return numpy_engine.watch(model, **settings)
    if "torch" not in sys.modules:  # a module of it, or a list of them, cannot be without it
        raise TypeError(
            f"expected a model of stethoscope.engine or a torch.nn.Module; got {_short(model)}. A "
            "Keras model is watched by fit(callbacks=[stethoscope.keras.Stethoscope()])."
        )
    from stethoscope import torch

    return torch.watch(model, optimizer, **settings)


def _short(value: Any) -> str:
    """A value as a message shows it."""
    text = repr(value)
    return text if len(text) < 60 else f"a {type(value).__name__}"
