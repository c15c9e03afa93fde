"""What a fit trains on: the arguments of the running `fit`, and the facts of its data."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from types import FrameType
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from stethoscope.data import DataProfile
from stethoscope.diagnosis import locate
from stethoscope.program import DataSpec, FitSpec, LossSpec

WHOLE_ARRAY_BYTES = 64 * 2**20  # larger data is looked at batch by batch
CHUNK_ELEMENTS = 2**20  # of a whole array at a time: bounds the memory that looking takes
MAX_BATCHES = 200  # facts of data do not change after that
MAX_PREDICTION_ELEMENTS = 2**18  # a larger prediction (a vocabulary) is not looked at
REVISE_AT = frozenset({1, 2, 5, 10, 20, 40, 80, 120, 160, MAX_BATCHES})
"""Numbers of batches after which the Program is told: each revision is stored and checked."""


@dataclasses.dataclass(frozen=True)
class FitCall:
    """The arguments of a running `fit`, after Keras has split off validation data."""

    spec: FitSpec
    x: Any = None
    y: Any = None
    weighted: bool = False


def fit_call(model: Any, frame: FrameType | None, params: dict[str, Any] | None) -> FitCall:
    """Reads the `fit` that is running above `frame` on `model`.

    Args:
        model: The model being trained.
        frame: Where to start to look, upwards.
        params: What Keras told its callbacks.
    """
    params = params or {}
    spec = FitSpec(epochs=params.get("epochs"), steps_per_epoch=params.get("steps"))
    while frame is not None:
        if frame.f_code.co_name == "fit" and not locate.is_user_file(frame.f_code.co_filename):
            given = frame.f_locals
            if given.get("self") is model and "epoch_iterator" in given:
                return _read(given, spec, locate.here(frame))
        frame = frame.f_back
    return FitCall(spec)


def _read(given: dict[str, Any], spec: FitSpec, source: Any) -> FitCall:
    adapter = getattr(given["epoch_iterator"], "data_adapter", None)
    batch_size = getattr(adapter, "batch_size", None)
    spec = dataclasses.replace(
        spec,
        batch_size=int(batch_size) if batch_size else None,
        shuffle=_shuffles(given, adapter),
        validation=given.get("validation_data") is not None,
        source=source,
    )
    weighted = given.get("sample_weight") is not None or given.get("class_weight") is not None
    return FitCall(spec, given.get("x"), given.get("y"), weighted)


def _shuffles(given: dict[str, Any], adapter: Any) -> bool | None:
    kind = type(adapter).__name__
    if kind == "ArrayDataAdapter":
        return bool(given.get("shuffle", True))
    if kind == "TorchDataLoaderAdapter":
        return "Random" in type(getattr(given.get("x"), "sampler", None)).__name__
    return None  # a generator, a PyDataset or a tf.data pipeline may shuffle by itself


class Feed:
    """Gathers the facts of inputs, targets and predictions. Keeps no sample.

    Args:
        call: The running fit.
    """

    def __init__(self, call: FitCall) -> None:
        self._call = call
        self._shuffled = call.spec.shuffle
        self._inputs: dict[str, DataProfile] = {}
        self._targets: dict[str, DataProfile] = {}
        self._predictions: list[DataProfile] = []
        self._prediction_shapes: list[tuple[int, ...]] = []
        self._batches = 0
        self._batch_shapes: dict[tuple[str, str], tuple[int, ...]] = {}
        self.complete = self._whole(call.x, call.y)
        # The data itself is the user's to keep or drop.
        self._call = FitCall(call.spec, weighted=call.weighted)

    @property
    def wants_batches(self) -> bool:
        """Whether another batch would still teach something."""
        return self._batches < MAX_BATCHES

    def batch(self, x: Any, y: Any) -> None:
        """Takes the facts of one batch."""
        self._batches += 1
        for role, profiles, data in (("x", self._inputs, x), ("y", self._targets, y)):
            for name, tensor in named(data):
                self._batch_shapes[role, name] = tuple(tensor.shape)
                if not self.complete:
                    self._profile(profiles, name).add(as_numpy(tensor), _dtype(tensor))

    def predictions(self, outputs: Sequence[Any]) -> None:
        """Takes the facts of the model's outputs, in Keras's flat order."""
        self._prediction_shapes = [tuple(output.shape) for output in outputs]
        if len(self._predictions) != len(outputs):
            self._predictions = [DataProfile(shuffled=self._shuffled) for _ in outputs]
        for profile, output in zip(self._predictions, outputs, strict=True):
            if np.prod(output.shape) <= MAX_PREDICTION_ELEMENTS:
                profile.add(as_numpy(output), _dtype(output))

    def due(self) -> bool:
        """Whether it is time to tell the Program."""
        return self._batches in REVISE_AT

    def inputs(self) -> tuple[DataSpec, ...]:
        """The facts of the inputs so far."""
        return tuple(self._spec("x", name, p) for name, p in self._inputs.items())

    def targets(self) -> tuple[DataSpec, ...]:
        """The facts of the targets so far."""
        return tuple(self._spec("y", name, p) for name, p in self._targets.items())

    def losses(self, losses: Sequence[LossSpec]) -> tuple[LossSpec, ...]:
        """`losses` with the facts of their real arguments, where each belongs to one output."""
        targets = self.targets()
        predictions = [profile.spec() for profile in self._predictions]
        revised = []
        for i, loss in enumerate(losses):
            changes: dict[str, Any] = {"weighted": loss.weighted or self._call.weighted}
            if len(losses) == len(targets):
                changes["target"] = targets[i]
                changes["target_shape"] = targets[i].batch_shape
            if len(losses) == len(predictions):
                changes["prediction"] = predictions[i]
                changes["prediction_shape"] = self._prediction_shapes[i]
            revised.append(dataclasses.replace(loss, **changes))
        return tuple(revised)

    def _spec(self, role: str, name: str, profile: DataProfile) -> DataSpec:
        spec = profile.spec(complete=self.complete)
        if not self.complete:
            return spec
        # A whole array was looked at in chunks, which are not its batches.
        shape = self._batch_shapes.get((role, name))
        if shape is None and self._call.spec.batch_size and spec.shape is not None:
            shape = (self._call.spec.batch_size, *spec.shape)
        return dataclasses.replace(spec, batch_shape=shape, batches_seen=self._batches)

    def _whole(self, x: Any, y: Any) -> bool:
        arrays = [a for data in (x, y) for _, a in named(data)]
        if not arrays or not all(_is_array(a) for a in arrays):
            return False
        if (
            sum(int(getattr(a, "nbytes", WHOLE_ARRAY_BYTES + 1)) for a in arrays)
            > WHOLE_ARRAY_BYTES
        ):
            return False
        for profiles, data in ((self._inputs, x), (self._targets, y)):
            for name, tensor in named(data):
                profile, dtype = self._profile(profiles, name), _dtype(tensor)
                values = as_numpy(tensor)
                rows = max(1, CHUNK_ELEMENTS // max(int(np.prod(values.shape[1:])), 1))
                for start in range(0, len(values), rows):
                    profile.add(values[start : start + rows], dtype)
        return True

    def _profile(self, profiles: dict[str, DataProfile], name: str) -> DataProfile:
        return profiles.setdefault(name, DataProfile(name, self._shuffled))


def named(data: Any) -> list[tuple[str, Any]]:
    """The tensors of an input or target with their names: "" for a single one."""
    if data is None:
        return []
    if isinstance(data, dict):
        return [(str(name), data[name]) for name in sorted(data) if hasattr(data[name], "shape")]
    flat = [t for t in keras.tree.flatten(data) if hasattr(t, "shape")]
    if len(flat) == 1:
        return [("", flat[0])]
    return [(str(i), tensor) for i, tensor in enumerate(flat)]


def as_numpy(tensor: Any) -> npt.NDArray[Any]:
    """Any framework's tensor as an array, without a copy where that is possible."""
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu()
        if str(tensor.dtype) == "torch.bfloat16":
            tensor = tensor.float()
    if hasattr(tensor, "to_numpy"):
        tensor = tensor.to_numpy()
    if hasattr(tensor, "toarray"):
        tensor = tensor.toarray()
    return np.asarray(tensor)


def _dtype(tensor: Any) -> str | None:
    dtype = getattr(tensor, "dtype", None)
    return None if dtype is None else str(getattr(dtype, "name", dtype)).removeprefix("torch.")


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype") and hasattr(value, "__len__")
