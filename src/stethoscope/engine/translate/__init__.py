"""Translation: a model of another framework as an engine model that trains to the same numbers."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Listed
from typing import Any

from stethoscope.engine.model import Model
from stethoscope.engine.translate import from_torch
from stethoscope.engine.translate.from_keras import KerasReader
from stethoscope.engine.translate.from_torch import TorchReader
from stethoscope.engine.translate.settings import TranslationError
from stethoscope.types import SourceRef

__all__ = ["KerasReader", "TorchReader", "TranslationError", "translate"]


def translate(
    model: Any,
    *,
    loss: Any = None,
    optimizer: Any = None,
    input_shape: Listed[int] | None = None,
    sources: Mapping[int, SourceRef] | None = None,
    dtype: str = "float32",
) -> Model:
    """An engine model with the layers, weights, loss and optimizer of `model`.

    Args:
        model: A Keras model, functional or Sequential, built and, to be trained, compiled; or a
            torch.nn.Sequential, which is taken as in training, whatever its mode as a whole is; a
            module in it that was left in evaluation alone stays there.
        loss: Module of a torch model's loss; None: it is not trained.
        optimizer: Of a torch model.
        input_shape: Of one sample of a torch model, channels first; not needed if it starts with
            a Linear.
        sources: id of a layer, loss or optimizer to the call that constructed it: errors and
            reports name it.
        dtype: "float32", or "float64" for a shadow that shows what precision has to do with it.

    Raises:
        TranslationError: A layer, loss, optimizer or setting that the engine does not have; the
            message names it and, where it is known, its line.
    """
    if hasattr(model, "named_parameters") and not hasattr(model, "get_config"):
        shape = from_torch.input_shape(input_shape, model)
        return TorchReader(model, loss, optimizer, shape, sources or {}, dtype).read()
    return KerasReader(model, sources or {}, dtype).read()
