"""Crossentropies the user wrote out: binary, and over classes."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch
from torch import Tensor

from stethoscope.data import SUM_TOLERANCE
from stethoscope.torch.formula import Found, Node, Term, complement, difference, factored, guarded
from stethoscope.vocabulary import Expects

SAME_SCALE = 1e-6  # relative: two ways of writing a mean differ by rounding only


def binary(first: Term, second: Term) -> Found | None:
    """-(y * log(p) + (1 - y) * log(1 - p)) from its two terms, in this order."""
    one, two = _log_factor(first.node), _log_factor(second.node)
    if one is None or two is None:
        return None
    (target, p), (rest, q) = one[1:], two[1:]
    scales = first.scale * one[0], second.scale * two[0]
    against, other = complement(q), complement(rest)
    if max(scales) >= 0 or against is None or other is None or not other.same(target):
        return None
    p, against = guarded(p), guarded(against)
    if not p.same(against):
        return None
    prediction, expects = p, Expects.PROBABILITIES
    if p.op == "sigmoid" and not p.formula.is_output(p) and isinstance(p.operands[0], Node):
        prediction, expects = p.operands[0], Expects.LOGITS
    call = first.node.call
    return Found(
        name="binary_crossentropy",
        expects=expects,
        prediction=prediction,
        target=target.tensor,
        scale=-scales[0],
        elements=first.node.tensor.numel(),
        source=call.source if call else None,
        weighted=not math.isclose(*scales, rel_tol=SAME_SCALE),
    )


def _log_factor(node: Node) -> tuple[float, Node, Node] | None:
    """(number, y, x) of number * y * log(x); a guard such as eps around x is left away."""
    operands = node.operands
    if node.op != "mul" or len(operands) != 2:
        return None
    for logarithm, other in ((operands[1], operands[0]), (operands[0], operands[1])):
        if isinstance(logarithm, Node) and isinstance(other, Node) and logarithm.bare.op == "log":
            inside = logarithm.bare.operands[0]
            if isinstance(inside, Node) and not other.tensor.requires_grad:
                return *factored(other), guarded(inside)
    return None


@dataclasses.dataclass(frozen=True)
class _LogRows:
    """What a tensor of log-probabilities was made from."""

    prediction: Node
    expects: Expects


def _log_rows(node: Node) -> _LogRows | None:
    """`node` as log-probabilities over classes; None when it is not written as such."""
    formula = node.formula
    node = node.bare
    if formula.is_output(node):
        return _LogRows(node, Expects.LOG_PROBABILITIES)
    first = node.operands[0] if node.operands else None
    if not isinstance(first, Node):
        return None
    if node.op == "log_softmax":
        return _LogRows(first, Expects.LOGITS)
    if node.op == "log":
        return _probability_rows(first)
    pair = difference(node)
    if pair is not None and pair[1].bare.op == "logsumexp" and pair[1].bare.operands:
        inner = pair[1].bare.operands[0]
        if pair[0].same(inner):
            return _LogRows(pair[0], Expects.LOGITS)
    return None


def _probability_rows(node: Node) -> _LogRows:
    node = guarded(node)
    inner = node.operands[0] if node.operands else None
    if node.op == "softmax" and not node.formula.is_output(node) and isinstance(inner, Node):
        return _LogRows(inner, Expects.LOGITS)
    return _LogRows(node, Expects.PROBABILITIES)


def crossentropy(term: Term) -> Found | None:
    """The crossentropy over classes, from picked or from weighted log-probabilities."""
    if term.node.op == "mul":
        return _distribution(term)
    return _picked(term)


def _picked(term: Term) -> Found | None:
    """-logp[range(N), y] and -logp.gather(axis, y), and with the logarithm taken afterwards."""
    node, scale = term.node, term.scale
    take_log = node.op == "log"
    if take_log and isinstance(node.operands[0], Node):
        node = guarded(node.operands[0])
    choice = _choice(node)
    if choice is None:
        return None
    base, ids, axis = choice
    if base.bare.op == "neg" and isinstance(base.bare.operands[0], Node):
        base, scale = base.bare.operands[0], -scale
    rows = _probability_rows(base) if take_log else _log_rows(base)
    if rows is None or scale >= 0 or rows.prediction.tensor.ndim != base.tensor.ndim:
        return None
    by_name = rows.expects is Expects.LOG_PROBABILITIES
    return Found(
        name="nll" if by_name else "sparse_categorical_crossentropy",
        expects=rows.expects,
        prediction=rows.prediction,
        target=ids,
        scale=-scale,
        elements=ids.numel(),
        source=node.call.source if node.call else None,
        class_axis=axis,
    )


def _choice(node: Node) -> tuple[Node, Tensor, int] | None:
    """(rows, class ids, class axis) of an operation that picks one class of each row."""
    node = node.bare
    operands = node.operands
    if len(operands) < 2 or not isinstance(operands[0], Node):
        return None
    base = operands[0]
    if node.op == "gather" and len(operands) == 3 and isinstance(operands[2], Node):
        axis, ids = int(operands[1]) % max(base.tensor.ndim, 1), operands[2].tensor
        if ids.ndim == base.tensor.ndim and ids.shape[axis] == 1:
            return base, ids.squeeze(axis), axis
    if node.op == "__getitem__" and isinstance(operands[1], tuple) and base.tensor.ndim == 2:
        index = operands[1]
        chosen = index[1] if len(index) == 2 else None
        if not isinstance(chosen, Tensor) or chosen.is_floating_point() or chosen.ndim != 1:
            return None
        if chosen.dtype != torch.bool and len(chosen) == len(base.tensor):
            return base, chosen, 1
    return None


def _distribution(term: Term) -> Found | None:
    """-(y * logp), with y a distribution over the classes."""
    operands = term.node.operands
    for weights, logs in (operands[:2], operands[1::-1]):
        if not isinstance(weights, Node) or not isinstance(logs, Node):
            continue
        number, weights = factored(weights)
        rows = _log_rows(logs)
        if rows is None or weights.tensor.requires_grad:
            continue
        axis = _axis(logs)
        same = weights.tensor.shape == logs.tensor.shape == rows.prediction.tensor.shape
        if not same or term.scale * number >= 0 or not _sums_to_one(weights.tensor, axis):
            continue  # a policy gradient weights log-probabilities too
        return Found(
            name="categorical_crossentropy",
            expects=rows.expects,
            prediction=rows.prediction,
            target=weights.tensor,
            scale=-term.scale * number,
            elements=logs.tensor.numel() // max(logs.tensor.shape[axis], 1),
            source=term.node.call.source if term.node.call else None,
            class_axis=axis,
        )
    return None


def _axis(logs: Node) -> int:
    """The class axis: where the (log-)softmax was taken, else the last one."""
    for node in logs.ancestors():
        if node.op in ("log_softmax", "softmax", "logsumexp") and node.call is not None:
            named = node.call.kwargs.get("dim")
            axis: Any = named if named is not None else [*node.call.args, None, None][1]
            if isinstance(axis, int):
                return axis % max(logs.tensor.ndim, 1)
    return logs.tensor.ndim - 1


def _sums_to_one(tensor: Tensor, axis: int) -> bool:
    if tensor.ndim == 0 or tensor.is_complex():
        return False
    total = tensor.double().sum(dim=axis)
    return bool((tensor >= 0).all()) and bool(((total - 1).abs() < SUM_TOLERANCE).all())
