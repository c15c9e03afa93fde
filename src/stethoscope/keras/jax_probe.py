"""A step of a Keras model on JAX, re-computed beside the training to see every stage of it.

The probe is a jitted function of its own over the state and the batch that the real step gets:
it is traced while the layers are tapped, and leaves the real step's compiled code as it was.

On a CPU it returns the tensors themselves, which NumPy reads without a copy: that compiles and
runs several times faster than reductions in XLA. On a device it returns their statistics.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
from jax._src import core as jax_core

from stethoscope import array_stats
from stethoscope.keras import jax_stats
from stethoscope.keras.layout import Layout
from stethoscope.keras.taps import Tapped
from stethoscope.keras.undisturbed import undisturbed
from stethoscope.stats import FloatArray
from stethoscope.types import Slot, Stage


@dataclasses.dataclass(frozen=True)
class Seen:
    """A tensor that the probe sees.

    Attributes:
        slot: Its key in the trace.
        size: Number of its elements.
        saturation, unit_axis: How to describe it.
    """

    slot: Slot
    size: int
    saturation: tuple[float, float] | None = None
    unit_axis: int | None = None


class Listener:
    """Collects traced tensors in the order of the computation.

    Args:
        sinks: Path to the sink of its output's gradient; empty to learn the outputs' shapes.
    """

    def __init__(self, sinks: Mapping[str, Any]) -> None:
        self.seen: list[Seen] = []
        self.tensors: list[Any] = []
        self.outputs: dict[str, Any] = {}
        self.missed: set[str] = set()
        self.functions: set[str] = set()
        self._sinks = sinks
        self._trace = _current_trace()

    def before(self, tapped: Tapped, tensor: Any) -> None:
        """Sees a pre-activation."""
        if self._sees(tapped, tensor):
            slot = Slot(tapped.path, "", Stage.PRE_ACTIVATION)
            self.seen.append(Seen(slot, tensor.size, tapped.saturation, tapped.unit_axis))
            self.tensors.append(jax.lax.stop_gradient(tensor))

    def after(self, tapped: Tapped, tensor: Any) -> Any:
        """Sees an output, and lets the gradient that comes back to it be seen."""
        if not self._sees(tapped, tensor):
            return tensor
        slot = Slot(tapped.path, "", Stage.OUTPUT)
        self.seen.append(Seen(slot, tensor.size, unit_axis=tapped.unit_axis))
        self.tensors.append(jax.lax.stop_gradient(tensor))
        if tapped.path in self.outputs or not jnp.issubdtype(tensor.dtype, jnp.floating):
            return tensor  # of a shared layer's calls the first is listened to
        self.outputs[tapped.path] = (tensor.shape, tensor.dtype, tensor.size)
        sink = self._sinks.get(tapped.path)
        return tensor if sink is None else jax_stats.listen(tensor, sink)

    def miss(self, path: str) -> None:
        """Is told of a functional activation that is not seen."""
        self.functions.add(path)

    def _sees(self, tapped: Tapped, tensor: Any) -> bool:
        if not isinstance(tensor, jax.Array):
            return False
        if _current_trace() is not self._trace:
            # Inside a loop or a remat of the layer around it: its tensors cannot leave there.
            self.missed.add(tapped.path)
            return False
        return True


def _current_trace() -> Any:
    return getattr(getattr(jax_core, "trace_ctx", None), "trace", None)


class Probe:
    """The probe of one model for one shape of batch.

    Args:
        model: The Keras model.
        layout: What to look at.
        on_device: Compute the statistics where the model is; default unless that is a CPU.

    Attributes:
        seen: What each tensor of the result is, filled by the first call.
        missed: Paths of layers that ran where their tensors cannot be seen.
        functions: Where functional activations were not seen; "" is the model itself.
    """

    def __init__(self, model: Any, layout: Layout, on_device: bool | None = None) -> None:
        self._model = model
        self._layout = layout
        self._parameters = layout.of(model.trainable_variables)
        self._on_device = jax.default_backend() != "cpu" if on_device is None else on_device
        self.seen: list[Seen] = []
        self.missed: set[str] = set()
        self.functions: set[str] = set()
        eager = model.run_eagerly or not model.jit_compile
        self._compute = self._step if eager else jax.jit(self._step)
        self._traced = False

    def __call__(self, state: Sequence[Any], x: Any, y: Any, sample_weight: Any) -> Any:
        """Starts the computation, and does not wait for it.

        Args:
            state: (trainable, non-trainable, optimizer, metrics) values, as the real step gets it.
            x: Inputs of the batch.
            y: Targets of the batch; None without.
            sample_weight: Weights of the batch; None without.

        Returns:
            (tensors or statistics, outputs), to be handed to `read`.
        """
        if self._traced:
            return self._compute(state, x, y, sample_weight)
        with undisturbed():
            result = self._compute(state, x, y, sample_weight)
        self._traced = True
        return result

    def read(self, result: Any) -> list[tuple[Slot, FloatArray]]:
        """The statistics, once the tensors are there."""
        if self._on_device:
            rows = np.array(result, dtype=np.float64)
            rows[:, jax_stats.COUNT] = [one.size for one in self.seen]
            return [(one.slot, row) for one, row in zip(self.seen, rows, strict=True)]
        return [
            (
                one.slot,
                array_stats.describe(
                    np.asarray(tensor), saturation=one.saturation, unit_axis=one.unit_axis
                ),
            )
            for one, tensor in zip(self.seen, result, strict=True)
        ]

    def _step(self, state: Any, x: Any, y: Any, weight: Any) -> tuple[Any, list[Any]]:
        trainable, other, optimizer, metrics = state
        listener = Listener({})

        def loss_of(trainable: Any, sinks: Mapping[str, Any]) -> Any:
            nonlocal listener
            listener = Listener(sinks)
            with self._layout.listening(self._model, listener):
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
            return loss, (outputs, listener.tensors)

        jax.eval_shape(loss_of, trainable, {})
        sinks = {path: self._sink(output) for path, output in listener.outputs.items()}
        (loss, (outputs, tensors)), (weight_grads, output_grads) = jax.value_and_grad(
            loss_of, argnums=(0, 1), has_aux=True
        )(trainable, sinks)
        pairs: list[tuple[Seen, Any]] = []
        for stage, data in ((Stage.INPUT, x), (Stage.TARGET, y)):
            for i, tensor in enumerate(t for t in keras.tree.flatten(data) if t is not None):
                pairs.append((Seen(Slot("", str(i), stage), tensor.size), tensor))
        pairs += self._of_parameters(Stage.WEIGHT, trainable)
        pairs += zip(listener.seen, tensors, strict=True)
        pairs.append((Seen(Slot("", "", Stage.LOSS), 1), loss))
        self.missed, self.functions = listener.missed, listener.functions
        results = [self._result(one, tensor) for one, tensor in pairs]
        self.seen = [one for one, _ in pairs]
        for path, output in reversed(listener.outputs.items()):
            self.seen.append(Seen(Slot(path, "", Stage.OUTPUT_GRAD), output[2]))
            results.append(output_grads[path])
        for one, tensor in self._of_parameters(Stage.WEIGHT_GRAD, weight_grads):
            self.seen.append(one)
            results.append(self._result(one, tensor))
        flat = [t for t in keras.tree.flatten(outputs) if t is not None]
        return (jnp.stack(results) if self._on_device else results), flat

    def _sink(self, output: Any) -> Any:
        if self._on_device:
            return jax_stats.empty_sink()
        return jnp.zeros(output[0], output[1])

    def _result(self, one: Seen, tensor: Any) -> Any:
        if not self._on_device:
            return tensor
        return jax_stats.describe(tensor, saturation=one.saturation, unit_axis=one.unit_axis)

    def _of_parameters(self, stage: Stage, values: Sequence[Any]) -> list[tuple[Seen, Any]]:
        return [
            (Seen(parameter.slot(stage), value.size), value)
            for parameter, value in zip(self._parameters, values, strict=True)
            if parameter is not None
        ]


@jax.jit
def copies(values: Any) -> Any:
    """Copies of arrays that the next step will be given to overwrite."""
    return jax.tree.map(jnp.copy, values)


@jax.jit
def together(values: Any) -> Any:
    """Scalars as one array, so that reading them is one transfer."""
    return jnp.stack([jnp.asarray(value, jnp.float32) for value in values])


@jax.jit
def all_finite(values: Any) -> Any:
    """Whether every element of every floating array is finite."""
    floats = [v for v in values if jnp.issubdtype(v.dtype, jnp.floating)]
    if not floats:
        return jnp.asarray(True)
    return jnp.all(jnp.stack([jnp.isfinite(jnp.sum(jnp.abs(v))) for v in floats]))
