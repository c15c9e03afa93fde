"""Translation: a model of another framework as an engine model that trains to the same numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stethoscope.engine.model import Model
from stethoscope.engine.translate.from_keras import KerasReader
from stethoscope.engine.translate.settings import TranslationError
from stethoscope.types import SourceRef

__all__ = ["KerasReader", "TranslationError", "translate"]


def translate(
    model: Any, *, sources: Mapping[int, SourceRef] | None = None, dtype: str = "float32"
) -> Model:
    """An engine model with the layers, weights, loss and optimizer of `model`.

    Args:
        model: A Keras model, functional or Sequential, built and, to be trained, compiled.
        sources: id of a layer to the call that constructed it: errors and reports name it.
        dtype: "float32", or "float64" for a shadow that shows what precision has to do with it.

    Raises:
        TranslationError: A layer, loss, optimizer or setting that the engine does not have; the
            message names it and, where it is known, its line.
    """
    return KerasReader(model, sources or {}, dtype).read()
