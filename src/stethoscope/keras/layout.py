"""Which layers and parameters of a model are looked at, under which names."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

from stethoscope.keras.describe import layer_kind
from stethoscope.keras.functions import has_own_code, listen
from stethoscope.keras.graph import Graph
from stethoscope.keras.names import is_layer
from stethoscope.keras.settings import parameters
from stethoscope.keras.taps import Listener, Tapped, choose, tap
from stethoscope.program import Program
from stethoscope.types import Slot, Stage
from stethoscope.vocabulary import LayerKind


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A Keras variable and the name it goes by."""

    layer: str
    name: str
    variable: Any

    def slot(self, stage: Stage) -> Slot:
        """The slot of this parameter at `stage`."""
        return Slot(self.layer, self.name, stage)


@dataclasses.dataclass(frozen=True)
class Layout:
    """What can be looked at in a model.

    Attributes:
        graph: Nodes and data flow.
        tapped: Layers and symbolic operations, in call order where that is known.
        parameters: Every parameter once (a tied one under its first name).
        functions: Activations that the user's own `call` applies as functions.
        own_code: The forward pass runs code of the user's.
    """

    graph: Graph
    tapped: tuple[Tapped, ...]
    parameters: tuple[Parameter, ...]
    functions: tuple[Tapped, ...] = ()
    own_code: bool = False

    @contextlib.contextmanager
    def listening(self, model: Any, listener: Listener) -> Iterator[None]:
        """While open, `listener` sees what the layers and functions of `model` compute."""
        inside: list[Tapped | None] = []
        with contextlib.ExitStack() as stack:
            stack.enter_context(tap(self.tapped, listener, inside))
            if self.own_code:
                stack.enter_context(listen(model, self.functions, inside, listener))
            yield

    def of(self, variables: list[Any]) -> list[Parameter | None]:
        """The parameter of each Keras variable, None for one that no layer is known to hold."""
        known = {id(p.variable): p for p in self.parameters}
        return [known.get(id(variable)) for variable in variables]


def layout(model: Any, program: Program, flow: Graph) -> Layout:
    """Reads the layout of a model that `describe.program` described with the same `flow`."""
    found: dict[int, Parameter] = {}
    for path, node in flow.nodes.items():
        if not is_layer(node.operation):
            continue
        own = layer_kind(node.operation) == LayerKind.CONTAINER
        for name, variable in parameters(node.operation, own_only=own).items():
            found.setdefault(id(variable), Parameter(path, name, variable))
    for variable in getattr(model, "trainable_variables", ()):
        # What the model itself holds, or a layer that Keras does not track by attribute.
        found.setdefault(id(variable), Parameter("", str(variable.path), variable))
    tapped = tuple(choose(flow.nodes, program.layers))
    functions: tuple[Tapped, ...] = ()
    if flow.traced:  # the real step calls functions, not these operations
        functions = tuple(t for t in tapped if not is_layer(t.layer) and t.is_activation)
        tapped = tuple(t for t in tapped if is_layer(t.layer))
    own = has_own_code(model, tapped)
    return Layout(flow, tapped, tuple(found.values()), functions, own)
