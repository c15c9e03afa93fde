"""A loss the user wrote out of tensor operations, recognised from the calls that made it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from stethoscope.program import LossSpec
from stethoscope.types import SourceRef


@dataclasses.dataclass(frozen=True)
class Call:
    """One torch call, as a `TorchFunctionMode` saw it.

    Attributes:
        func, args, kwargs: What was called.
        result: What it returned.
        source: The user's line.
    """

    func: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    result: Any
    source: SourceRef | None = None


def hand_written_loss(
    calls: Sequence[Call], loss: Tensor, *, outputs: Mapping[int, str]
) -> LossSpec | None:
    """Describes a loss that no loss function computed.

    Args:
        calls: The torch calls since the model's forward, in order.
        loss: The tensor whose `backward` is called.
        outputs: `id` of a model's output to the path of the layer that gave it.

    Returns:
        The description, with `name=None` when the formula is not recognised; None when `loss`
        is the result of none of the calls.
    """
    made = next((call for call in reversed(calls) if call.result is loss), None)
    if made is None:
        return None
    return LossSpec(name=None, type="hand-written", source=made.source)
