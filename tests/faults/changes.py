"""A change made to an `Example` as its title says, and what a report accuses."""

from __future__ import annotations

from stethoscope.example import Example
from stethoscope.types import Change, Report, Severity

LOGITS = {"mse": False, "sparse_categorical_crossentropy": True}  # what a loss for these takes


def accused(report: Report) -> list[str]:
    """The faults that are told without --verbose, best first."""
    return [d.fault for d in report.diagnoses if d.severity is not Severity.NOTE]


def applied(example: Example, change: Change) -> Example:
    """The example with the change made by hand."""
    path, value, field = change.path, change.value, change.path.rpartition(".")[2]
    if path in ("optimizer.learning_rate", "fit.batch_size"):
        return example.but(**{"batch" if field == "batch_size" else field: value})
    if path == "optimizer.name":
        return example.but(optimizer=value, learning_rate=0.001)  # as the fix says
    if path == "loss.name":
        return example.but(loss=value, from_logits=LOGITS[value])
    if path == "loss.prediction_shape":
        return example.but(flat_prediction=False)
    if path == "loss":
        return example.but(**value)
    if path == "fit.precision":
        return example.but(dtype="float32")  # NumPy has no bfloat16; both end at 3e38
    if field == "recurrent_initializer":
        return example.but(recurrent_gain=1.0)
    if field in ("bias", "rate", "axis", "units"):
        names = {"rate": "dropout", "axis": "softmax_axis", "units": "outputs"}
        return example.but(**{names.get(field, field): value})
    if field == "activation":
        kind = value or "linear"
        if path == f"layers[dense_{len(example.hidden)}].activation":
            return example.but(output_activation=kind, from_logits=kind == "linear")
        return example.but(activation=kind)
    role = "input" if path == "data.input[0]" else "target"
    if value == "drop rows that are not finite":
        return example.but(nan_input_at=None, inf_target_at=None)
    if "standardize" in value:
        columns = value["standardize"].values()
        size = sum(c["std"] for c in columns) / len(columns)
        middle = sum(c["mean"] for c in columns) / len(columns)
        if role == "input":  # the classes lie around 0, each column on a scale like the others'
            middle = 0.0
    else:
        middle, size = 0.0, max(map(float, value["map"]))
    scale, offset = (getattr(example, f"{role}_{name}") for name in ("scale", "offset"))
    return example.but(
        **{f"{role}_scale": scale / size, f"{role}_offset": (offset - middle) / size}
    )
