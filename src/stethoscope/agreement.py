"""Do predictions go with their targets? A correlation per batch, whatever the loss.

A loss near that of a constant prediction says little of a target that is mostly noise; whether
the predictions of a batch go up and down with its targets says it with far fewer samples.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

CORRELATION = "correlation"
"""Name of the LOSS scalar that adapters record beside the loss itself."""

MAX_ELEMENTS = 2**20  # of a prediction; more are not looked at
_FAINT = 1e-4  # of the targets' spread: a dead network leaves as much of its input, and no more
_FLAT = 1e-6  # of its size: a prediction that varies by less is a constant with rounding errors


@np.errstate(invalid="ignore", over="ignore")  # of what is not finite nothing is told
def correlation(
    prediction: npt.NDArray[np.generic],
    target: npt.NDArray[np.generic],
    class_axis: int | None = None,
) -> float | None:
    """Correlation of the predictions of a batch with its targets, over all outputs together.

    Args:
        prediction: [samples, ...]: values, or scores of classes (logits, probabilities, logs).
        target: Of the same number of elements, or class ids without the class axis.
        class_axis: Axis of the classes in `prediction`; default the last.

    Returns:
        -1 to 1; 0 where the predictions of all samples are the same, but for
        what a ten-thousandth of the targets' spread is; None where it cannot be told:
        targets that are all the same, shapes that do not fit, values that are not finite.

    >>> correlation(np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([0, 1]))
    1.0
    """
    if prediction.size == 0 or prediction.size > MAX_ELEMENTS or prediction.ndim == 0:
        return None
    if target.dtype.kind not in "biuf" or prediction.dtype.kind not in "biuf":
        return None
    values, wanted = prediction.astype(np.float64), target.astype(np.float64)
    if values.size == wanted.size and len(values) == len(wanted):
        values, wanted = values.reshape(len(values), -1), wanted.reshape(len(values), -1)
    else:
        if values.ndim < 2:
            return None
        values = np.moveaxis(values, -1 if class_axis is None else class_axis, -1)
        classes = values.shape[-1]
        values, ids = values.reshape(-1, classes), wanted.reshape(-1)
        kept = (ids >= 0) & (ids < classes) & (ids == np.floor(ids))
        if len(ids) != len(values) or not kept.any():
            return None
        values, wanted = values[kept], np.eye(classes)[ids[kept].astype(int)]
        values = values - values.mean(axis=1, keepdims=True)  # a common shift of logits is nothing
    size = float(np.abs(values).max())
    values = values - np.add.reduce(values) / len(values)
    wanted = wanted - np.add.reduce(wanted) / len(wanted)
    varies, asked = float(np.vdot(values, values)), float(np.vdot(wanted, wanted))
    together = float(np.vdot(values, wanted))
    if not math.isfinite(varies + asked) or asked <= 0 or len(values) < 2:
        return None
    if varies <= max((_FLAT * size) ** 2 * values.size, _FAINT**2 * asked):
        return 0.0
    return min(max(together / math.sqrt(varies * asked), -1.0), 1.0)
