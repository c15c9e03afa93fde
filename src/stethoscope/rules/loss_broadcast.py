"""A loss over a table of all pairs."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import REGRESSOR
from stethoscope.program import LossSpec, Program
from stethoscope.rules._base import ProgramRule, loss_place
from stethoscope.types import Evidence, Symptom, SymptomClass
from stethoscope.vocabulary import TargetKind

_ELEMENTWISE = (TargetKind.REAL, TargetKind.BINARY, None)  # None: hand-written


class LossBroadcast(ProgramRule):
    """Prediction and target have shapes that broadcast to a table of all pairs.

    What it detects: the arguments of an elementwise loss have different shapes, and together they
    broadcast to a shape that is larger than both, such as (N, 1) against (N,).

    Why it is bad: every prediction is compared with every target of the batch; the best answer is
    then the same for all samples: the mean target.

    How to fix: give both the same shape.

    False alarms: pairwise losses on purpose (quantile regression, ranking) are written by hand or
    without reduction, with as many axes on both sides, (N, 1) against (1, N): those are left alone.
    A formula that is not recognised may be meant for all pairs (an energy distance): that is a
    warning, and an error only where harm is seen.

    References: PyTorch's own warning in `mse_loss`; deepset-ai/FARM issue 229.
    """

    code = "S012"
    name = "loss-broadcast"
    kind = SymptomClass.CONTRADICTION
    healthy = REGRESSOR.but(loss="broadcast_squares")
    faulty = healthy.but(flat_prediction=True)

    def inspect(self, program: Program) -> Iterable[Symptom]:
        """One symptom a loss."""
        if program.framework == "keras":
            return  # its losses align (N, 1) with (N,) themselves
        for index, loss in enumerate(program.losses):
            first, second = loss.prediction_shape, loss.target_shape
            if loss.target_kind not in _ELEMENTWISE or first is None or second is None:
                continue
            if len(first) == len(second) and not _is_row(loss, first, second):
                continue  # x[:, None] against y[None, :]: a table on purpose
            table = _broadcast(first, second)
            if table is None or _size(table) <= max(_size(first), _size(second)):
                continue
            evidence = [
                Evidence("shape of the prediction", _text(first), _text(second), "!="),
                Evidence(
                    "elements of the loss", _size(table), max(_size(first), _size(second)), ">"
                ),
            ]
            yield self.symptom(
                loss_place(program, index),
                evidence,
                f"The prediction {_text(first)} and the target {_text(second)} broadcast to "
                f"{_text(table)}: every prediction is compared with every target.",
            )


def _is_row(loss: LossSpec, first: tuple[int, ...], second: tuple[int, ...]) -> bool:
    """Whether one output a sample met the targets as a row, in a loss function of a library.

    Such a function warns of it. Who wants a table writes it by hand, or asks for its elements.
    """
    if loss.type == "hand-written" or loss.reduction not in ("mean", "sum") or loss.weighted:
        return False
    return len(first) == 2 and first[1] == second[0] == 1 and first[0] == second[1] > 1


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    width = max(len(a), len(b))
    one = (1,) * (width - len(a)) + a
    two = (1,) * (width - len(b)) + b
    if any(m != n and 1 not in (m, n) for m, n in zip(one, two, strict=True)):
        return None
    return tuple(max(m, n) for m, n in zip(one, two, strict=True))


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for axis in shape:
        size *= max(axis, 1)
    return size


def _text(shape: tuple[int, ...]) -> str:
    return "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"
