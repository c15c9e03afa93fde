"""The data flow of one step: which layer made which tensor, and who read it.

Tensors are told apart by identity and held weakly: following them keeps nothing alive. A tensor
that came out of a layer and went through calls that are no layer of their own (views, casts,
arithmetic with numbers) still comes from that layer, but is no longer its very output.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor

from stethoscope.types import SourceRef
from stethoscope.vocabulary import LayerKind

Key = tuple[int, str]
"""A layer: number of its root, path within the root."""

MAX_DEPTH = 4  # of containers in arguments and outputs
MAX_TENSORS = 64


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where a tensor came from.

    Attributes:
        keys: The layers that it was made of; empty for the input of the model.
        exact: It is the very output of its one layer.
        unit_axis: Axis of its units or channels.
        same: Its values are those of that output: reshaped, cast, selected or joined.
    """

    keys: tuple[Key, ...]
    exact: bool
    unit_axis: int | None
    same: bool = False

    @property
    def layer(self) -> Key | None:
        """The layer whose output these values are; None where they are computed from it."""
        return self.keys[0] if len(self.keys) == 1 and (self.exact or self.same) else None


@dataclasses.dataclass
class Node:
    """One layer of the flow: a module, or a functional call.

    Attributes:
        key: Its identity.
        kind, name: What it does; for an activation the canonical name.
        functional: It is a call, and no module.
        base: The layer on whose very output a functional activation was called.
        shape: Of its output.
        source: The line of a functional call.
        config: Settings of a functional call that rules may need.
    """

    key: Key
    kind: LayerKind
    name: str
    functional: bool
    base: Key | None = None
    shape: tuple[int, ...] | None = None
    source: SourceRef | None = None
    config: dict[str, Any] = dataclasses.field(default_factory=dict)


class Flow:
    """What was seen of the data flow since the last optimizer step."""

    def __init__(self) -> None:
        self.nodes: dict[Key, Node] = {}
        self.edges: dict[tuple[Key | None, Key], None] = {}
        self.readers: dict[Key, set[object]] = {}
        self._origins: dict[int, tuple[weakref.ref[Tensor], Origin]] = {}

    def origin(self, tensor: Tensor) -> Origin | None:
        """Where `tensor` came from; None when it is the model's input, a constant or unknown."""
        found = self._origins.get(id(tensor))
        return found[1] if found is not None and found[0]() is tensor else None

    def mark(self, tensor: Tensor, origin: Origin) -> None:
        """Says where `tensor` came from."""
        self._origins[id(tensor)] = (weakref.ref(tensor), origin)

    def read(self, tensors: Iterable[Tensor], reader: object) -> list[Origin]:
        """Notes that `reader` read `tensors`; returns their known origins."""
        found = []
        for tensor in tensors:
            origin = self.origin(tensor)
            if origin is None:
                continue
            found.append(origin)
            if origin.exact and origin.keys:
                self.readers.setdefault(origin.keys[0], set()).add(reader)
        return found

    def connect(self, origins: Iterable[Origin], key: Key) -> None:
        """Adds the edges from `origins` to the layer `key`."""
        for origin in origins:
            for start in origin.keys or (None,):
                if start != key:
                    self.edges[start, key] = None

    def only_reader(self, base: Key, reader: Key) -> bool:
        """Whether nothing but `reader` read the very output of `base`."""
        return self.readers.get(base, set()) == {reader}


def merged(origins: Iterable[Origin]) -> tuple[Key, ...]:
    """The layers of several origins, each once, in order."""
    return tuple(dict.fromkeys(key for origin in origins for key in origin.keys))


def tensors_in(value: Any, depth: int = 0) -> Iterator[Tensor]:
    """The tensors of an argument or an output: nested tuples, lists, mappings, dataclasses.

    A `torch.nested` tensor is left out.
    """
    if isinstance(value, Tensor):
        if not value.is_nested:  # it has no shape that could be read
            yield value
    elif value is None or isinstance(value, (str, bytes, int, float)) or depth >= MAX_DEPTH:
        return
    elif isinstance(value, dict):
        for part in list(value.values())[:MAX_TENSORS]:
            yield from tensors_in(part, depth + 1)
    elif isinstance(value, (tuple, list)):
        for part in value[:MAX_TENSORS]:
            yield from tensors_in(part, depth + 1)
    elif dataclasses.is_dataclass(value) or type(value).__name__ == "PackedSequence":
        fields = getattr(value, "__dict__", {})
        for part in list(fields.values())[:MAX_TENSORS]:
            yield from tensors_in(part, depth + 1)
