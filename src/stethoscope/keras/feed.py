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
from stethoscope.keras.losses import End
from stethoscope.program import DataSpec, FitSpec, LossSpec

WHOLE_ARRAY_BYTES = 64 * 2**20  # larger targets are looked at batch by batch
SAMPLE_ELEMENTS = 2 * 10**6  # of an array of inputs: 0.1 s, and far more rows than ranges need
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
    selected: bool = False  # by sample weights, which may be 0


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
    selected = given.get("sample_weight") is not None
    weighted = selected or given.get("class_weight") is not None
    return FitCall(spec, given.get("x"), given.get("y"), weighted, selected)


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
        ends: The output of each loss of the program.

    Attributes:
        ends: As given; to be set again when the model shows more of its outputs.
    """

    def __init__(self, call: FitCall, ends: Sequence[End] = ()) -> None:
        self._call = call
        self.ends = tuple(ends)
        self._shuffled = call.spec.shuffle
        self._inputs: dict[str, DataProfile] = {}
        self._targets: dict[str, DataProfile] = {}
        self._predictions: list[DataProfile] = []
        self._prediction_shapes: list[tuple[int, ...]] = []
        self._batches = 0
        self._batch_shapes: dict[tuple[str, str], tuple[int, ...]] = {}
        self._whole: dict[tuple[str, str], bool] = {}  # looked at before the first step: all of it?
        self._take_arrays("x", call.x)
        self._take_arrays("y", call.y)
        # The data itself is the user's to keep or drop.
        self._call = FitCall(call.spec, weighted=call.weighted, selected=call.selected)

    @property
    def wants_batches(self) -> bool:
        """Whether another batch would still teach something."""
        return self._batches < MAX_BATCHES

    def batch(self, x: Any, y: Any) -> None:
        """Takes the facts of one batch."""
        self._batches += 1
        for role, data in (("x", x), ("y", y)):
            profiles = self._profiles(role, data)
            for name, tensor in named(data):
                self._batch_shapes[role, name] = tuple(tensor.shape)
                if (role, name) not in self._whole:
                    profiles[name].add(as_numpy(tensor), _dtype(tensor))

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
        """The facts of the targets so far: those of each loss in turn, then what no loss takes."""
        return tuple(self._spec("y", name, self._targets[name]) for name in self._told())

    def target_place(self, flat: int) -> int:
        """Index in `targets()` of the target that comes at `flat` in Keras's flat order."""
        names = list(self._targets)
        return self._told().index(names[flat]) if flat < len(names) else flat

    def losses(self, losses: Sequence[LossSpec]) -> tuple[LossSpec, ...]:
        """`losses` with the facts of their real arguments, where each belongs to one output."""
        predictions = [profile.spec() for profile in self._predictions]
        known = len(self.ends) == len(losses)
        names = self._matched(list(self._targets)) if known else [None] * len(losses)
        revised = []
        for i, (loss, name) in enumerate(zip(losses, names, strict=True)):
            changes: dict[str, Any] = {"weighted": loss.weighted or self._call.weighted}
            if self._call.selected:
                changes["config"] = {**loss.config, "sample_weight": True}
            if name is not None:
                changes["target"] = target = self._spec("y", name, self._targets[name])
                changes["target_shape"] = target.batch_shape
            place = self._prediction(i) if known else None
            if place is not None:
                changes["prediction"] = predictions[place]
                changes["prediction_shape"] = self._prediction_shapes[place]
            revised.append(dataclasses.replace(loss, **changes))
        return tuple(revised)

    def _matched(self, names: list[str]) -> list[str | None]:
        """The name of each loss's targets, as Keras hands them out; None when unknown."""
        if len(names) == len(self.ends) == 1:
            return list(names)
        matched: list[str | None] = []
        listed = names == [str(i) for i in range(len(names))]
        for i, end in enumerate(self.ends):
            place = i if len(names) == len(self.ends) else end.index
            if end.name in names:
                matched.append(end.name)
            elif listed and place is not None and place < len(names):
                matched.append(names[place])
            else:
                matched.append(None)
        return matched

    def _told(self) -> list[str]:
        """Names of the targets in the order of the losses."""
        names = list(self._targets)
        return list(dict.fromkeys([n for n in self._matched(names) if n is not None] + names))

    def _prediction(self, i: int) -> int | None:
        """The place of loss `i`'s prediction in Keras's flat order; None when unknown."""
        index, count = self.ends[i].index, len(self._predictions)
        if index is None and count == len(self.ends):
            keys = [end.name for end in self.ends]
            # Outputs in a dictionary come sorted by name.
            index = sorted(map(str, keys)).index(str(keys[i])) if all(keys) else i
        return index if index is not None and index < count else None

    def _spec(self, role: str, name: str, profile: DataProfile) -> DataSpec:
        whole = self._whole.get((role, name))
        spec = profile.spec(complete=bool(whole))
        if whole is None:
            return spec
        # The array was looked at in chunks, which are not its batches.
        shape, size = self._batch_shapes.get((role, name)), self._call.spec.batch_size
        if shape is None and size and spec.shape is not None:
            shape = (size, *spec.shape)
        # Rows spread over the whole array tell what as many rows of shuffled batches would.
        batches = spec.rows_seen // size if size and not whole else 0
        batches = max(self._batches, batches)
        return dataclasses.replace(spec, batch_shape=shape, batches_seen=batches)

    def _take_arrays(self, role: str, data: Any) -> None:
        """Looks at arrays before the first step: at all targets, at a sample of the inputs."""
        arrays = named(data)
        size = sum(int(getattr(a, "nbytes", WHOLE_ARRAY_BYTES + 1)) for _, a in arrays)
        small = size <= WHOLE_ARRAY_BYTES
        if not all(_is_array(a) and (small or (role == "x" and _in_memory(a))) for _, a in arrays):
            return
        profiles = self._profiles(role, data)
        for name, tensor in arrays:
            values = _sample(tensor) if role == "x" else as_numpy(tensor)
            rows = max(1, CHUNK_ELEMENTS // max(int(np.prod(values.shape[1:])), 1))
            for start in range(0, len(values), rows):
                profiles[name].add(values[start : start + rows], _dtype(tensor))
            self._whole[role, name] = len(values) == len(tensor)

    def _profiles(self, role: str, data: Any) -> dict[str, DataProfile]:
        """The profiles of the inputs or targets, with one for everything in `data`."""
        profiles = self._inputs if role == "x" else self._targets
        names = [name for name, _ in named(data)]
        if any(name not in profiles for name in names):
            matched = self._matched(names) if role == "y" else []
            ignored = {n: e.ignore for n, e in zip(matched, self.ends, strict=False)}
            for name in names:
                profile = DataProfile(name, self._shuffled, ignore=ignored.get(name))
                profiles.setdefault(name, profile)
        return profiles


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


def _in_memory(array: Any) -> bool:
    return isinstance(array, np.ndarray) or hasattr(array, "detach") or keras.ops.is_tensor(array)


def _sample(tensor: Any) -> npt.NDArray[Any]:
    """All rows of an array, or as many as `SAMPLE_ELEMENTS` allows, spread evenly over it."""
    size = max(int(np.prod(tensor.shape[1:])), 1)
    rows = max(SAMPLE_ELEMENTS // size, 1)
    if len(tensor) <= rows:
        return as_numpy(tensor)
    # One row somewhere in each of as many equal parts: data that repeats is met at every phase.
    jitter = np.random.default_rng(0).random(rows)
    where = ((np.arange(rows) + jitter) * (len(tensor) / rows)).astype(np.int64)
    if isinstance(tensor, np.ndarray) or hasattr(tensor, "detach"):
        return as_numpy(tensor[where])  # no copy of the whole, wherever it lies
    return as_numpy(tensor)[where]
