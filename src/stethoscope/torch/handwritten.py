"""A loss the user wrote out of tensor operations, recognised from the calls that made it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from stethoscope.program import LossSpec
from stethoscope.torch.formula import (
    Call,
    Formula,
    Found,
    Node,
    Term,
    complement,
    difference,
    scalar,
    terms,
)
from stethoscope.torch.likelihood import SAME_SCALE, binary, crossentropy
from stethoscope.torch.losses import with_arguments
from stethoscope.vocabulary import Expects

TYPE = "hand-written"


def hand_written_loss(
    calls: Sequence[Call], loss: Tensor, *, outputs: Mapping[int, str]
) -> LossSpec | None:
    """Describes a loss that no loss function computed.

    Recognised are mean or sum, also scaled, of a squared or absolute difference (and its root),
    the hinge, log-cosh, the binary crossentropy and the crossentropy over classes, written with
    probabilities, log-probabilities or logits.

    Args:
        calls: The torch calls since the model's forward, in order.
        loss: The tensor whose `backward` is called.
        outputs: `id` of a model's output to the path of the layer that gave it.

    Returns:
        The description. For a formula that is not recognised `name` is None; its shapes are
        those of an operation on an output and a tensor of data that broadcasts (N, 1) and (N,)
        to (N, N), where there is one. None when `loss` is the result of none of the calls.
    """
    with torch._C.DisableTorchFunction(), torch.no_grad():
        formula = Formula(calls, outputs)
        root = formula.node(loss)
        if root.call is None:
            return None
        found = _recognise(root)
        if found is not None:
            return _spec(found, formula)
        return _unknown(root)


def _recognise(root: Node) -> Found | None:
    parts = terms(root)
    if len(parts) == 1 and parts[0].scale > 0:
        inner = _under_root(parts[0].node)
        if inner is not None:
            found = _recognise(inner)
            return dataclasses.replace(found, root=True) if found and found.name == "mse" else None
    formula = root.formula
    if formula.outputs and len(parts) > 1:
        # A penalty on the weights is no part of what the model is asked to predict.
        about = [part for part in parts if formula.from_output(part.node)]
        if len(about) < len(parts):
            found = _of_terms(about)
            return dataclasses.replace(found, weighted=True) if found else None
    return _of_terms(parts)


def _of_terms(parts: list[Term]) -> Found | None:
    if len(parts) == 1:
        return _regression(parts[0]) or _hinge(parts[0]) or crossentropy(parts[0])
    if len(parts) == 2:
        return binary(*parts) or binary(parts[1], parts[0])
    return None


def _under_root(node: Node) -> Node | None:
    operands = node.operands
    if not operands or not isinstance(operands[0], Node):
        return None
    if node.op == "sqrt" or (node.op == "pow" and scalar(operands[1]) == 0.5):
        return operands[0]
    return None


def _squared(node: Node) -> Node | None:
    operands = node.operands
    if not operands or not isinstance(operands[0], Node):
        return None
    first = operands[0]
    if node.op == "square":
        return first
    second = operands[1] if len(operands) > 1 else None
    if node.op == "pow" and scalar(second) == 2.0:
        return first
    if node.op == "mul" and isinstance(second, Node) and first.tensor is second.tensor:
        return first
    return None


def _regression(term: Term) -> Found | None:
    node, name = term.node, "mse"
    inner = _squared(node)
    if inner is None and node.op in ("abs", "log") and isinstance(node.operands[0], Node):
        inner, name = node.operands[0], "mae"
        if node.op == "log":
            inside = inner.operands[0] if inner.op == "cosh" else None
            inner, name = (inside if isinstance(inside, Node) else None), "log_cosh"
    both = difference(inner) if inner is not None else None
    if inner is None or both is None or term.scale <= 0:
        return None
    sides = _sides(*both)
    if sides is None or _is_table(*sides):
        return None
    call = inner.bare.call
    return Found(
        name=name,
        expects=Expects.VALUES,
        prediction=sides[0],
        target=sides[1].tensor,
        scale=term.scale,
        elements=node.tensor.numel(),
        source=call.source if call else None,
    )


def _sides(first: Node, second: Node) -> tuple[Node, Node] | None:
    """Which of two operands is the prediction, which the target; None when it is not clear."""
    formula = first.formula
    for prediction, target in ((first, second), (second, first)):
        learns = prediction.tensor.requires_grad and not target.tensor.requires_grad
        known = not formula.outputs or formula.from_output(prediction)
        if learns and known and target.tensor.ndim + prediction.tensor.ndim > 0:
            return prediction, target
    return None


def _is_table(first: Node, second: Node) -> bool:
    """Whether all pairs are meant: both operands were given an axis for it, (N,1,D) - (1,M,D)."""
    a, b = first.tensor.shape, second.tensor.shape
    if len(a) != len(b):
        return False
    grown = [(m, n) for m, n in zip(a, b, strict=True) if m != n]
    return any(m == 1 for m, _ in grown) and any(n == 1 for _, n in grown)


def _hinge(term: Term) -> Found | None:
    """max(0, 1 - y * p), also squared."""
    name, node = "hinge", term.node
    inner = _squared(node)
    if inner is not None:
        name, node = "squared_hinge", inner.bare
    operands = node.operands
    if node.op not in ("relu", "clamp") or not isinstance(operands[0], Node) or term.scale <= 0:
        return None
    if node.op == "clamp" and _low_bound(node) != 0.0:
        return None
    product = complement(operands[0])
    factors = product.bare.operands if product is not None and product.bare.op == "mul" else []
    if len(factors) != 2 or not all(isinstance(f, Node) for f in factors):
        return None
    sides = _sides(*factors)
    if sides is None:
        return None
    return Found(
        name=name,
        expects=Expects.VALUES,
        prediction=sides[0],
        target=sides[1].tensor,
        scale=term.scale,
        elements=term.node.tensor.numel(),
        source=node.call.source if node.call else None,
    )


def _low_bound(node: Node) -> float | None:
    named = node.call.kwargs.get("min") if node.call else None
    operands = node.operands
    return scalar(named if named is not None else operands[1] if len(operands) > 1 else None)


def _spec(found: Found, formula: Formula) -> LossSpec:
    config: dict[str, Any] = {"root": True} if found.root else {}
    reduction, weighted = "mean", found.weighted
    share = found.scale * max(found.elements, 1)
    if found.elements > 1 and math.isclose(found.scale, 1.0, rel_tol=SAME_SCALE):
        reduction = "sum"
    elif not math.isclose(share, 1.0, rel_tol=SAME_SCALE):
        config["scale"], weighted = share, True
    if found.class_axis is not None:
        config["elementwise"] = False
    spec = LossSpec(
        name=found.name,
        type=TYPE,
        expects=found.expects,
        output=formula.output_path(found.prediction),
        reduction=reduction,
        weighted=weighted,
        config=config,
        source=found.source,
    )
    return with_arguments(spec, found.prediction.tensor, found.target, found.class_axis)


def _unknown(root: Node) -> LossSpec:
    source = root.call.source if root.call else None
    spec = LossSpec(name=None, type=TYPE, source=source)
    for node in root.ancestors():
        pair = _pairs(node)
        if pair is not None:
            return dataclasses.replace(
                spec,
                output=root.formula.output_path(pair[0]),
                prediction_shape=tuple(pair[0].tensor.shape),
                target_shape=tuple(pair[1].tensor.shape),
                source=node.call.source if node.call else source,
            )
    return spec


def _pairs(node: Node) -> tuple[Node, Node] | None:
    """Operands (N, 1) and (N,), one from an output and one from the data, made into (N, N)."""
    operands = node.operands[:2]
    if len(operands) < 2 or not all(isinstance(o, Node) for o in operands):
        return None
    first, second = operands
    shapes = sorted((tuple(first.tensor.shape), tuple(second.tensor.shape)), key=len)
    count = shapes[0][0] if len(shapes[0]) == 1 else 0
    if count < 2 or shapes[1] != (count, 1) or tuple(node.tensor.shape) != (count, count):
        return None
    formula = node.formula
    if formula.from_output(first) and not formula.from_output(second):
        return first, second
    if formula.from_output(second) and not formula.from_output(first):
        return second, first
    return None


def compared(
    calls: Sequence[Call], loss: Tensor, *, outputs: Mapping[int, str]
) -> tuple[Tensor, Tensor] | None:
    """The prediction and the target of a loss that `hand_written_loss` recognises."""
    with torch._C.DisableTorchFunction(), torch.no_grad():
        root = Formula(calls, outputs).node(loss)
        found = _recognise(root) if root.call is not None else None
        return (found.prediction.tensor, found.target) if found is not None else None
