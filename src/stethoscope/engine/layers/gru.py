"""The gated recurrent unit."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from stethoscope.engine.activations import Activation
from stethoscope.engine.activations import get as activation_of
from stethoscope.engine.layers._base import Array, Weights
from stethoscope.engine.layers._recurrence import (
    Recurrence,
    Run,
    Settings,
    by_gate,
    project,
    project_back,
    state_product,
    total,
)


@dataclasses.dataclass(frozen=True)
class _Steps:
    """What every step of a GRU computed, one entry a step.

    Attributes:
        before: [2, samples, units]: the gates before activation.
        gates: [2, samples, units]: update, reset.
        states: What the reset gate multiplied [samples, units], and the product where the reset
            comes before the kernel.
        candidates_before, candidates: [samples, units].
        moves: State minus candidate: what the update gate keeps of it.
    """

    before: list[Array] = dataclasses.field(default_factory=list)
    gates: list[Array] = dataclasses.field(default_factory=list)
    states: list[Array] = dataclasses.field(default_factory=list)
    candidates_before: list[Array] = dataclasses.field(default_factory=list)
    candidates: list[Array] = dataclasses.field(default_factory=list)
    moves: list[Array] = dataclasses.field(default_factory=list)


class GRU(Recurrence):
    """A gated recurrent unit, at every time step.

    z, r = recurrent_activation(x W + h_before U + b) for the update and reset gates, and
    h = z h_before + (1 - z) activation(x W_h + b_h + s), where s = r (h_before U_h + c_h) with
    `reset_after` and s = (r h_before) U_h without.

    Weights: `kernel` [features, 3 units], `recurrent_kernel` [units, 3 units] and `bias`
    [2, 3 units] (of the inputs, of the state) with `reset_after`, [3 units] without; in the order
    update, reset, candidate.

    Args:
        units: Size of the state, which is the output.
        activation: Of the candidate.
        recurrent_activation: Of the gates.
        reset_after: Whether the state is multiplied with the kernel before it is reset.
        **settings: See `Settings`.

    >>> GRU(4).shape([(10, 3)])
    (4,)
    """

    gates = 3

    def __init__(
        self,
        units: int,
        activation: str | Activation | None = "tanh",
        recurrent_activation: str | Activation | None = "sigmoid",
        *,
        reset_after: bool = True,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(units, activation, **settings)
        self.recurrent_activation = activation_of(recurrent_activation)
        self.reset_after = reset_after

    def first_bias(self, rng: np.random.Generator) -> Array:
        width = self.gates * self.units
        return self.bias_initializer((2, width) if self.reset_after else (width,), rng)

    def run(self, series: Array, weights: Weights) -> tuple[Array, Any]:
        gate, bend = self.recurrent_activation.forward, self.cell_activation.forward
        after = self.reset_after
        of_inputs, of_state = self._biases(weights)
        projected = by_gate(project(series, weights["kernel"], of_inputs), 3)
        recurrent, of_candidate = self._kernels(weights)
        (steps, samples), units = series.shape[:2], self.units
        hidden = np.zeros((steps + 1, samples, units), projected.dtype)
        product = np.empty((samples, recurrent.shape[1]), hidden.dtype)
        products, kept = by_gate(product, 3 if after else 2), _Steps()
        for t in range(steps):
            state = hidden[t]
            np.dot(state, recurrent, out=product)
            if of_state is not None:
                product += of_state
            before = projected[t, :2] + products[:2]
            gates = gate(before)
            if after:
                multiplied = products[2].copy()
                inner = gates[1] * multiplied
            else:
                multiplied = gates[1] * state
                inner = multiplied @ of_candidate
            inner += projected[t, 2]
            candidate = bend(inner)
            move = state - candidate
            np.multiply(gates[0], move, out=hidden[t + 1])
            hidden[t + 1] += candidate
            kept.before.append(before)
            kept.gates.append(gates)
            kept.states.append(multiplied)
            kept.candidates_before.append(inner)
            kept.candidates.append(candidate)
            kept.moves.append(move)
        return hidden, kept

    def run_back(
        self, arriving: Sequence[Array | None], saved: Run, weights: Weights
    ) -> tuple[Array, dict[str, Array]]:
        gate, bend = self.recurrent_activation.backward, self.cell_activation.backward
        kept, hidden, after = saved.steps, saved.hidden, self.reset_after
        recurrent, of_candidate = self._kernels(weights)
        transposed = np.ascontiguousarray(recurrent.T)
        (steps, samples), units = saved.series.shape[:2], self.units
        inner = np.empty((steps, samples, 3 * units), hidden.dtype)
        inners = by_gate(inner, 3)
        of_state = np.empty((steps, samples, recurrent.shape[1]), hidden.dtype)
        of_states = by_gate(of_state, 3 if after else 2)
        outer = np.empty((2, samples, units), hidden.dtype)
        flowing, product = np.zeros_like(hidden[0]), np.empty_like(hidden[0])
        for t in range(steps - 1, -1, -1):
            arrived, gates = arriving[t], kept.gates[t]
            if arrived is not None:
                flowing += arrived
            np.multiply(flowing, kept.moves[t], out=outer[0])
            through = flowing * gates[0]
            flowing -= through
            bent = bend(flowing, kept.candidates_before[t], kept.candidates[t])
            inners[t, 2] = bent
            if after:
                np.multiply(bent, kept.states[t], out=outer[1])
                np.multiply(bent, gates[1], out=of_states[t, 2])
            else:
                reset = bent @ of_candidate.T
                np.multiply(reset, hidden[t], out=outer[1])
                reset *= gates[1]
                through += reset
            both = gate(outer, kept.before[t], gates)
            inners[t, :2] = both
            of_states[t, :2] = both
            np.dot(of_state[t], transposed, out=product)
            np.add(through, product, out=flowing)
        of_series, of_kernel = project_back(inner, saved.series, weights["kernel"])
        of_recurrent = state_product(hidden, of_state)
        if not after:
            resets = np.concatenate(kept.states)
            of_candidate = resets.T @ inner.reshape(len(resets), -1)[:, 2 * units :]
            of_recurrent = np.concatenate([of_recurrent, of_candidate], axis=1)
        gradients = {"kernel": of_kernel, "recurrent_kernel": of_recurrent}
        if self.use_bias:
            bias = total(inner)
            gradients["bias"] = np.stack([bias, total(of_state)]) if after else bias
        return of_series, gradients

    def _biases(self, weights: Weights) -> tuple[Array | None, Array | None]:
        """Of the inputs and of the state."""
        bias = weights.get("bias")
        if bias is None or not self.reset_after:
            return bias, None
        return bias[0], bias[1]

    def _kernels(self, weights: Weights) -> tuple[Array, Array]:
        """Of the whole state, and of the reset one."""
        kernel = weights["recurrent_kernel"]
        split = 2 * self.units
        whole = kernel if self.reset_after else np.ascontiguousarray(kernel[:, :split])
        return whole, kernel[:, split:]
