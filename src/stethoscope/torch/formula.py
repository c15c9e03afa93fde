"""The torch calls behind a tensor, as a formula that can be walked back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor

from stethoscope.torch.calls import call_name
from stethoscope.types import SourceRef
from stethoscope.vocabulary import Expects


@dataclasses.dataclass(frozen=True)
class Call:
    """One torch call, as a `TorchFunctionMode` saw it.

    Attributes:
        func: What was called.
        args: Its positional arguments; the tensors themselves, since identity links the calls.
        kwargs: Its keyword arguments.
        result: What it returned.
        source: The user's line.
    """

    func: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    result: Any
    source: SourceRef | None = None


_SPELLINGS = {
    spelling: name
    for name, spellings in {
        "add": "__add__ __radd__ __iadd__",
        "sub": "subtract __sub__ __isub__",
        "rsub": "__rsub__",
        "mul": "multiply __mul__ __rmul__ __imul__",
        "div": "divide true_divide __truediv__ __itruediv__ __div__ __idiv__",
        "rdiv": "__rdiv__ __rtruediv__",
        "neg": "negative __neg__",
        "abs": "absolute __abs__",
        "pow": "__pow__ __ipow__ float_power",
        "concat": "cat concatenate",
        "clamp": "clip clamp_min clip_min",
    }.items()
    for spelling in spellings.split()
}

_RESHAPES = """
    view view_as reshape reshape_as flatten unflatten ravel squeeze unsqueeze permute transpose
    swapaxes movedim contiguous to float half double bfloat16 type type_as cpu cuda clone t
"""
_TRANSPARENT = frozenset(_RESHAPES.split())  # the same values, in another shape or type

_OPERANDS = ("input", "self", "other", "exponent", "dim", "index")


@dataclasses.dataclass(frozen=True, eq=False)
class Node:
    """A tensor of the formula and the call that made it.

    Attributes:
        tensor: The value.
        call: What made it; None where the formula begins (an output, a target, a parameter).
        formula: Where it belongs to.
        before: Only calls before this number can have made its operands.
    """

    tensor: Tensor
    call: Call | None
    formula: Formula
    before: int

    @property
    def op(self) -> str:
        """Plain name of the operation; "" where the formula begins."""
        if self.call is None:
            return ""
        name = call_name(self.call.func)
        return _SPELLINGS.get(name, name)

    @property
    def operands(self) -> list[Any]:
        """Arguments in order, tensors as nodes, everything else as it is."""
        if self.call is None:
            return []
        named = [self.call.kwargs[name] for name in _OPERANDS if name in self.call.kwargs]
        return [
            self.formula.node(value, self.before) if isinstance(value, Tensor) else value
            for value in (*self.call.args, *named)
        ]

    @property
    def tensors(self) -> list[Node]:
        """Every tensor among the arguments, those in lists and tuples too."""
        if self.call is None:
            return []
        found: list[Node] = []
        for value in (*self.call.args, *self.call.kwargs.values()):
            inner = value if isinstance(value, (list, tuple)) else (value,)
            found += [self.formula.node(v, self.before) for v in inner if isinstance(v, Tensor)]
        return found

    @property
    def bare(self) -> Node:
        """The node without reshapes and casts around it."""
        node = self
        while node.op in _TRANSPARENT and node.operands and isinstance(node.operands[0], Node):
            node = node.operands[0]
        return node

    def same(self, other: Any) -> bool:
        """Whether both hold the same values, apart from reshapes and casts."""
        return isinstance(other, Node) and self.bare.tensor is other.bare.tensor

    def ancestors(self) -> Iterator[Node]:
        """The node and everything it was computed from, nearest first, each tensor once."""
        seen: set[int] = set()
        queue = [self]
        while queue:
            node = queue.pop(0)
            if id(node.tensor) in seen:
                continue
            seen.add(id(node.tensor))
            yield node
            # A model's output ends the walk: what made it is the model, not the loss.
            if id(node.tensor) not in self.formula.outputs:
                queue.extend(node.tensors)


class Formula:
    """The calls since the model's forward, looked up by the tensor they made.

    Args:
        calls: In order.
        outputs: `id` of a model's output to the path of the layer that gave it. What was
            computed from an output and bears the same path is none itself.
    """

    def __init__(self, calls: Sequence[Call], outputs: Mapping[int, str]) -> None:
        self.outputs = dict(outputs)
        self._calls = calls
        self._makers: dict[int, list[int]] = {}
        for number, call in enumerate(calls):
            made = call.result if isinstance(call.result, (tuple, list)) else (call.result,)
            for tensor in made:
                if isinstance(tensor, Tensor):
                    self._makers.setdefault(id(tensor), []).append(number)
                    if _computed(tensor, call, outputs):
                        self.outputs.pop(id(tensor), None)

    def node(self, tensor: Tensor, before: int | None = None) -> Node:
        """`tensor` as it was before call number `before`: an operation in place made it anew."""
        limit = len(self._calls) if before is None else before
        numbers = [n for n in self._makers.get(id(tensor), ()) if n < limit]
        if not numbers:
            return Node(tensor, None, self, 0)
        return Node(tensor, self._calls[numbers[-1]], self, numbers[-1])

    def is_output(self, node: Node) -> bool:
        """Whether a model returned this very tensor."""
        return id(node.tensor) in self.outputs

    def output_path(self, node: Node) -> str | None:
        """Path of the layer that gave `node`, seen through reshapes, casts and slices."""
        while not self.is_output(node):
            operands = node.operands
            slides = node.op in _TRANSPARENT or node.op in ("__getitem__", "select", "narrow")
            if not slides or not operands or not isinstance(operands[0], Node):
                return None
            node = operands[0]
        return self.outputs[id(node.tensor)]

    def from_output(self, node: Node) -> bool:
        """Whether `node` is computed from a model's output."""
        return any(self.is_output(ancestor) for ancestor in node.ancestors())


def _computed(tensor: Tensor, call: Call, outputs: Mapping[int, str]) -> bool:
    """Whether a call made `tensor` from another one that bears the same path."""
    path = outputs.get(id(tensor))
    if path is None:
        return False
    operands = [value for value in (*call.args, *call.kwargs.values()) if value is not tensor]
    return any(isinstance(v, Tensor) and outputs.get(id(v)) == path for v in operands)


@dataclasses.dataclass(frozen=True)
class Found:
    """A recognised loss; `scale` is that of the sum over its `elements` numbers."""

    name: str
    expects: Expects
    prediction: Node
    target: Tensor
    scale: float
    elements: int
    source: SourceRef | None
    class_axis: int | None = None
    root: bool = False
    weighted: bool = False


@dataclasses.dataclass(frozen=True)
class Term:
    """A part of a loss: `scale * node.tensor.sum()`."""

    scale: float
    node: Node


MAX_TERMS = 16  # a loss added up in a Python loop over samples is not followed further


def terms(node: Node, scale: float = 1.0) -> list[Term]:
    """`scale * node` as a sum of terms, reductions and numeric factors worked into the scales."""
    found: list[Term] = []
    _collect(node, scale, found, 0)
    return found


def _collect(node: Node, scale: float, found: list[Term], depth: int) -> None:
    if len(found) > MAX_TERMS or depth > 4 * MAX_TERMS:
        return
    op, operands = node.op, node.operands
    first = operands[0] if operands else None
    second = operands[1] if len(operands) > 1 else None

    def add(part: Any, factor: float) -> None:
        if isinstance(part, Node):
            _collect(part, factor, found, depth + 1)

    if op in ("add", "sub", "rsub") and "alpha" not in (node.call.kwargs if node.call else {}):
        add(first, -scale if op == "rsub" else scale)
        add(second, -scale if op == "sub" else scale)
    elif op == "neg" or (op in _TRANSPARENT and isinstance(first, Node)):
        add(first, -scale if op == "neg" else scale)
    elif op == "sum" and isinstance(first, Node):
        add(first, scale)
    elif op == "mean" and isinstance(first, Node):
        add(first, scale * node.tensor.numel() / max(first.tensor.numel(), 1))
    elif op in ("mul", "div") and (number := scalar(second)) is not None and number:
        add(first, scale * number if op == "mul" else scale / number)
    elif op == "mul" and (number := scalar(first)) is not None:
        add(second, scale * number)
    else:
        found.append(Term(scale, node))


def scalar(value: Any) -> float | None:
    """The number an operand is: one of Python, or a tensor without gradient of one element."""
    if isinstance(value, Node):
        tensor = value.tensor
        if tensor.ndim == 0 and not tensor.requires_grad and not tensor.is_complex():
            return float(tensor)
        return None
    return float(value) if isinstance(value, (int, float)) else None


def factored(node: Node) -> tuple[float, Node]:
    """`node` as number * tensor."""
    number, node = 1.0, node.bare
    while True:
        first, second = [*node.operands, None, None][:2]
        if node.op == "neg" and isinstance(first, Node):
            number, node = -number, first.bare
        elif node.op == "mul" and isinstance(second, Node) and (by := scalar(first)):
            number, node = number * by, second.bare
        elif node.op in ("mul", "div") and isinstance(first, Node) and (by := scalar(second)):
            number, node = number * by if node.op == "mul" else number / by, first.bare
        else:
            return number, node


def difference(node: Node) -> tuple[Node, Node] | None:
    """The two tensors whose difference `node` is; None when it is none."""
    node = node.bare
    operands = node.operands
    if node.op not in ("sub", "rsub", "add") or len(operands) < 2:
        return None
    first, second = operands[:2]
    if not isinstance(first, Node) or not isinstance(second, Node):
        return None
    if node.op == "add":
        if second.op == "neg":
            second = second.operands[0]
        elif first.op == "neg":
            first = first.operands[0]
        else:
            return None
    return first, second


def complement(node: Node) -> Node | None:
    """The x of 1 - x; None when `node` is something else."""
    node = node.bare
    operands = node.operands
    if len(operands) < 2:
        return None
    first, second = operands[:2]
    if node.op == "rsub" and scalar(second) == 1.0 and isinstance(first, Node):
        return first
    if node.op == "sub" and scalar(first) == 1.0 and isinstance(second, Node):
        return second
    return None


def guarded(node: Node) -> Node:
    """The x of x + eps and clamp(x, eps, 1 - eps), as written against a logarithm of 0."""
    node = node.bare
    while node.operands and isinstance(node.operands[0], Node):
        number = scalar(node.operands[1]) if len(node.operands) > 1 else None
        small = number is not None and abs(number) < SMALL
        if node.op != "clamp" and not (node.op in ("add", "sub") and small):
            break
        node = node.operands[0].bare
    return node


SMALL = 1e-2  # what people add against log(0) is at most this
