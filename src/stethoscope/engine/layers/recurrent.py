"""The recurrent layers without and with a memory cell: SimpleRNN and LSTM."""

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

LAST_CARRY = [0, 1, 3, 2]
"""The gates of an LSTM with those of one activation side by side; it is its own inverse."""


class SimpleRNN(Recurrence):
    """h = activation(x W + h_before U + b) at every time step.

    Weights: `kernel` W [features, units], `recurrent_kernel` U [units, units], `bias` b [units].

    Args:
        units: Size of the state, which is the output.
        activation: Of the state, by name or as an `Activation`.
        **settings: See `Settings`.

    >>> SimpleRNN(4, return_sequences=True).shape([(10, 3)])
    (10, 4)
    """

    gates = 1

    def __init__(
        self,
        units: int,
        activation: str | Activation | None = "tanh",
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(units, activation, **settings)

    def run(self, series: Array, weights: Weights) -> tuple[Array, Any]:
        recurrent, forward = weights["recurrent_kernel"], self.cell_activation.forward
        before = project(series, weights["kernel"], weights.get("bias"))
        hidden = np.zeros((len(series) + 1, *before.shape[1:]), before.dtype)
        product = np.empty_like(hidden[0])
        for t in range(len(series)):
            np.dot(hidden[t], recurrent, out=product)
            before[t] += product
            hidden[t + 1] = forward(before[t])
        return hidden, before

    def run_back(
        self, arriving: Sequence[Array | None], saved: Run, weights: Weights
    ) -> tuple[Array, dict[str, Array]]:
        before, hidden, back = saved.steps, saved.hidden, self.cell_activation.backward
        transposed = np.ascontiguousarray(weights["recurrent_kernel"].T)
        inner = np.empty_like(before)
        flowing = np.zeros_like(hidden[0])
        for t in range(len(before) - 1, -1, -1):
            arrived = arriving[t]
            if arrived is not None:
                flowing += arrived
            inner[t] = back(flowing, before[t], hidden[t + 1])
            np.dot(inner[t], transposed, out=flowing)
        of_series, of_kernel = project_back(inner, saved.series, weights["kernel"])
        gradients = {"kernel": of_kernel, "recurrent_kernel": state_product(hidden, inner)}
        if self.use_bias:
            gradients["bias"] = total(inner)
        return of_series, gradients


@dataclasses.dataclass(frozen=True)
class _Cells:
    """What every step of an LSTM computed.

    Attributes:
        before: [steps, 4, samples, units]: the three gates, then the candidate, before activation.
        gates: Of each step [3, samples, units]: input, forget, output.
        candidates: Of each step [samples, units].
        carry: The cells [1 + steps, samples, units]; the first is 0.
        bent: activation(carry) of each step.
    """

    before: Array
    gates: list[Array]
    candidates: list[Array]
    carry: Array
    bent: list[Array]


class LSTM(Recurrence):
    """Long short-term memory, at every time step.

    i, f, o = recurrent_activation(x W + h_before U + b) for the input, forget and output gates,
    c = f c_before + i activation(x W_c + h_before U_c + b_c), and h = o activation(c).

    Weights: `kernel` [features, 4 units], `recurrent_kernel` [units, 4 units] and `bias`
    [4 units], in the order input, forget, cell, output.

    Args:
        units: Size of the state, which is the output.
        activation: Of the candidate and the cell.
        recurrent_activation: Of the gates.
        unit_forget_bias: Whether the forget gate's bias starts at 1.
        **settings: See `Settings`.

    >>> LSTM(4).shape([(10, 3)])
    (4,)
    """

    gates = 4

    def __init__(
        self,
        units: int,
        activation: str | Activation | None = "tanh",
        recurrent_activation: str | Activation | None = "sigmoid",
        *,
        unit_forget_bias: bool = True,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(units, activation, **settings)
        self.recurrent_activation = activation_of(recurrent_activation)
        self.unit_forget_bias = unit_forget_bias

    def first_bias(self, rng: np.random.Generator) -> Array:
        if not self.unit_forget_bias:
            return super().first_bias(rng)
        units, first = self.units, self.bias_initializer
        return np.concatenate([first((units,), rng), np.ones(units), first((2 * units,), rng)])

    def run(self, series: Array, weights: Weights) -> tuple[Array, Any]:
        gate, bend = self.recurrent_activation.forward, self.cell_activation.forward
        bias = self._sorted(weights["bias"]) if self.use_bias else None
        projected = by_gate(project(series, self._sorted(weights["kernel"]), bias), 4)
        recurrent = self._sorted(weights["recurrent_kernel"])
        (steps, samples), units = series.shape[:2], self.units
        before = np.empty(projected.shape, projected.dtype)
        hidden = np.zeros((steps + 1, samples, units), before.dtype)
        carry = np.zeros_like(hidden)
        product = np.empty((samples, 4 * units), before.dtype)
        products, part = by_gate(product, 4), np.empty_like(hidden[0])
        cells = _Cells(before, [], [], carry, [])
        for t in range(steps):
            now, cell = before[t], carry[t + 1]
            np.dot(hidden[t], recurrent, out=product)
            np.add(projected[t], products, out=now)
            gates, candidate = gate(now[:3]), bend(now[3])
            np.multiply(gates[1], carry[t], out=cell)
            np.multiply(gates[0], candidate, out=part)
            cell += part
            bent = bend(cell)
            np.multiply(gates[2], bent, out=hidden[t + 1])
            cells.gates.append(gates)
            cells.candidates.append(candidate)
            cells.bent.append(bent)
        return hidden, cells

    def run_back(
        self, arriving: Sequence[Array | None], saved: Run, weights: Weights
    ) -> tuple[Array, dict[str, Array]]:
        gate, bend = self.recurrent_activation.backward, self.cell_activation.backward
        cells, hidden = saved.steps, saved.hidden
        recurrent = self._sorted(weights["recurrent_kernel"])
        transposed = np.ascontiguousarray(recurrent.T)
        (steps, samples), units = saved.series.shape[:2], self.units
        inner = np.empty((steps, samples, 4 * units), hidden.dtype)
        inners, outer = by_gate(inner, 4), np.empty((3, samples, units), hidden.dtype)
        flowing, of_carry = np.zeros_like(hidden[0]), np.zeros_like(hidden[0])
        for t in range(steps - 1, -1, -1):
            arrived, gates, before = arriving[t], cells.gates[t], cells.before[t]
            if arrived is not None:
                flowing += arrived
            of_carry += bend(flowing * gates[2], cells.carry[t + 1], cells.bent[t])
            np.multiply(of_carry, cells.candidates[t], out=outer[0])
            np.multiply(of_carry, cells.carry[t], out=outer[1])
            np.multiply(flowing, cells.bent[t], out=outer[2])
            inners[t, :3] = gate(outer, before[:3], gates)
            inners[t, 3] = bend(of_carry * gates[0], before[3], cells.candidates[t])
            of_carry *= gates[1]
            np.dot(inner[t], transposed, out=flowing)
        kernel = self._sorted(weights["kernel"])
        of_series, of_kernel = project_back(inner, saved.series, kernel)
        gradients = {
            "kernel": self._sorted(of_kernel),
            "recurrent_kernel": self._sorted(state_product(hidden, inner)),
        }
        if self.use_bias:
            gradients["bias"] = self._sorted(total(inner))
        return of_series, gradients

    def _sorted(self, weight: Array) -> Array:
        blocks = weight.reshape(-1, 4, self.units)
        return blocks[:, LAST_CARRY].reshape(weight.shape)
