"""A step of a Keras model on JAX, re-computed beside the training with statistics of every stage.

The probe is a jitted function of its own over the state and the batch that the real step gets:
it is traced while the layers are tapped, and leaves the real step's compiled code as it was.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
from jax._src import core as jax_core

from stethoscope.keras.jax_stats import COUNT, describe, empty_sink, listen
from stethoscope.keras.layout import Layout
from stethoscope.keras.taps import Tapped, tap
from stethoscope.stats import FloatArray
from stethoscope.types import Slot, Stage

MAX_OUTPUT_ELEMENTS = 2**18  # a larger prediction stays on the device


class Listener:
    """Collects traced statistics in the order of the computation.

    Args:
        sinks: Path to the sink of its output's gradient.
    """

    def __init__(self, sinks: dict[str, Any]) -> None:
        self.slots: list[Slot] = []
        self.sizes: list[int] = []
        self.vectors: list[Any] = []
        self.grad_sizes: dict[str, int] = {}
        self.missed: set[str] = set()
        self._sinks = sinks
        self._trace = _current_trace()

    def before(self, tapped: Tapped, tensor: Any) -> None:
        """Sees a pre-activation."""
        slot = Slot(tapped.path, "", Stage.PRE_ACTIVATION)
        self._see(slot, tensor, saturation=tapped.saturation, unit_axis=tapped.unit_axis)

    def after(self, tapped: Tapped, tensor: Any) -> Any:
        """Sees an output, and listens to the gradient that comes back to it."""
        if not self._see(Slot(tapped.path, "", Stage.OUTPUT), tensor, unit_axis=tapped.unit_axis):
            return tensor
        first = tapped.path not in self.grad_sizes
        if first and jnp.issubdtype(tensor.dtype, jnp.floating):
            self.grad_sizes[tapped.path] = tensor.size
            return listen(tensor, self._sinks[tapped.path])
        return tensor

    def _see(self, slot: Slot, tensor: Any, **how: Any) -> bool:
        if not isinstance(tensor, jax.Array):
            return False
        if _current_trace() is not self._trace:
            # Inside a loop or a remat of the layer around it: its tensors cannot leave there.
            self.missed.add(slot.layer)
            return False
        self.slots.append(slot)
        self.sizes.append(tensor.size)
        self.vectors.append(jax.lax.stop_gradient(describe(tensor, **how)))
        return True


def _current_trace() -> Any:
    return getattr(getattr(jax_core, "trace_ctx", None), "trace", None)


class Probe:
    """The probe of one model for one shape of batch.

    Args:
        model: The Keras model.
        layout: What to look at.

    Attributes:
        slots: Slot of each row of the result, filled by the first call.
        missed: Paths of layers that ran where their tensors cannot be seen.
    """

    def __init__(self, model: Any, layout: Layout) -> None:
        self._model = model
        self._tapped = layout.tapped
        self._parameters = layout.of(model.trainable_variables)
        self.slots: list[Slot] = []
        self.missed: set[str] = set()
        self._sizes: list[int] = []
        eager = model.run_eagerly or not model.jit_compile
        self._compute = self._step if eager else jax.jit(self._step)
        self._traced = False

    def __call__(self, state: Sequence[Any], x: Any, y: Any, sample_weight: Any) -> Any:
        """Starts the computation.

        Args:
            state: (trainable, non-trainable, optimizer, metrics) values, as the real step gets it.
            x, y, sample_weight: The batch.

        Returns:
            (statistics [slots, TENSOR_STATS], outputs) on the device.
        """
        if self._traced:
            return self._compute(*state, x, y, sample_weight)
        with _random_state_kept():
            result = self._compute(*state, x, y, sample_weight)
        self._traced = True
        return result

    def read(self, rows: Any) -> list[tuple[Slot, FloatArray]]:
        """The statistics, once they are there."""
        values = np.array(rows, dtype=np.float64)
        values[:, COUNT] = self._sizes
        return list(zip(self.slots, values, strict=True))

    def _step(
        self, trainable: Any, other: Any, optimizer: Any, metrics: Any, x: Any, y: Any, weight: Any
    ) -> tuple[Any, list[Any]]:
        listener: Listener | None = None

        def loss_of(trainable: Any, sinks: dict[str, Any]) -> Any:
            nonlocal listener
            listener = Listener(sinks)
            with tap(self._tapped, listener):
                _, (loss, outputs, *_) = self._model.compute_loss_and_updates(
                    trainable,
                    other,
                    metrics,
                    x,
                    y,
                    weight,
                    training=True,
                    optimizer_variables=optimizer,
                )
            return loss, (outputs, listener.vectors)

        sinks = {tapped.path: empty_sink() for tapped in self._tapped}
        (loss, (outputs, vectors)), (weight_grads, output_grads) = jax.value_and_grad(
            loss_of, argnums=(0, 1), has_aux=True
        )(trainable, sinks)
        assert listener is not None
        rows: list[tuple[Slot, int, Any]] = []
        for stage, data in ((Stage.INPUT, x), (Stage.TARGET, y)):
            for i, tensor in enumerate(t for t in keras.tree.flatten(data) if t is not None):
                rows.append((Slot("", str(i), stage), tensor.size, describe(tensor)))
        rows += self._of_parameters(Stage.WEIGHT, trainable)
        rows += zip(listener.slots, listener.sizes, vectors, strict=True)
        rows.append((Slot("", "", Stage.LOSS), 1, describe(loss)))
        for path, size in reversed(listener.grad_sizes.items()):
            rows.append((Slot(path, "", Stage.OUTPUT_GRAD), size, output_grads[path]))
        rows += self._of_parameters(Stage.WEIGHT_GRAD, weight_grads)
        self.slots = [slot for slot, _, _ in rows]
        self._sizes = [size for _, size, _ in rows]
        self.missed = listener.missed
        flat = [t for t in keras.tree.flatten(outputs) if t is not None]
        small = flat if all(t.size <= MAX_OUTPUT_ELEMENTS for t in flat) else []
        return jnp.stack([vector for _, _, vector in rows]), small

    def _of_parameters(self, stage: Stage, values: Sequence[Any]) -> list[tuple[Slot, int, Any]]:
        return [
            (parameter.slot(stage), value.size, describe(value))
            for parameter, value in zip(self._parameters, values, strict=True)
            if parameter is not None
        ]


@contextmanager
def _random_state_kept() -> Iterator[None]:
    """Tracing runs the user's Python code once more than the bare run would."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


@jax.jit
def copies(values: Any) -> Any:
    """Copies of arrays that the next step will be given to overwrite."""
    return jax.tree.map(jnp.copy, values)


@jax.jit
def updates(before: Any, after: Any) -> Any:
    """Statistics of `after - before`, array by array: [arrays, TENSOR_STATS]."""
    return jnp.stack([describe(new - old) for old, new in zip(before, after, strict=True)])


@jax.jit
def together(values: Any) -> Any:
    """Scalars as one array, so that reading them is one transfer."""
    return jnp.stack([jnp.asarray(value, jnp.float32) for value in values])
