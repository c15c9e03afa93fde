"""A root: a model that the user calls, and the names of everything in it."""

from __future__ import annotations

import dataclasses
import math
import weakref
from typing import Any

import torch
from torch import Tensor, nn

from stethoscope.data import DataProfile
from stethoscope.program import DataSpec, LossSpec
from stethoscope.torch.describe import layer_spec, sample
from stethoscope.torch.flow import Key
from stethoscope.torch.tensors import array
from stethoscope.vocabulary import LayerKind

WRAPPERS = frozenset({"DistributedDataParallel", "DataParallel", "OptimizedModule"})
RESCALED = 20  # a GradScaler finds its scale in fewer steps
WRAPPER_PARTS = ("module", "_orig_mod")


@dataclasses.dataclass
class LossSite:
    """One loss call of the program.

    Attributes:
        spec: As last described; its output is filled in when the names are final.
        output: The layer whose output is the prediction.
        profile: Facts of the targets of all probed steps.
        number: Place among the loss calls of its root.
        calls: How often it was seen on probed steps.
        computed: The prediction is computed from the output of layers, and is no layer's own.
        rows, labels, ignored: Samples, and class ids in all and ignored ones, of those targets.
        fed: A `backward` came from it: it is no figure for a log.
        altered: The program masks, weights or adds to it: what `backward` came from was another
            value than the call's own over all its elements.
        whole: "mean" or "sum", when the program reduces the elements itself, and all of them.
        first_count: Samples of its first batch.
        factor, factors, backwards: Of the number that it is multiplied by: the latest, how often it
            changed, and how often it was seen.
    """

    spec: LossSpec
    output: Key | None
    profile: DataProfile
    number: int = 0
    calls: int = 0
    computed: bool = False
    rows: int = 0
    labels: int = 0
    ignored: int = 0
    fed: bool = False
    altered: bool = False
    whole: str | None = None
    first_count: int | None = None
    factor: float | None = None
    factors: int = 0
    backwards: int = 0

    def of_a_first_batch(self, total: float, count: int) -> float:
        """A sum over `count` samples, for as many as the first batch had: batches may grow."""
        if self.first_count is None:
            self.first_count = count
        return total * self.first_count / count if count else total

    def multiplied(self, by: float) -> None:
        """The loss is multiplied `by` this: a scale stays as it is, a weight is always another."""
        if self.factor is not None and not math.isclose(by, self.factor, rel_tol=1e-3):
            self.factors += 1
        self.factor = by
        self.backwards += 1
        if self.factors > max(RESCALED, self.backwards / 3):
            self.altered = True

    def add(self, target: Tensor) -> None:
        """Adds the targets of one call to the facts; class ids that it ignores are none."""
        with torch._C.DisableTorchFunction(), torch.no_grad():
            values = sample(target.detach())
            index = self.spec.ignore_index
            kept = values if index is None else values.reshape(-1)[values.reshape(-1) != index]
            self.labels += values.numel()
            self.ignored += values.numel() - kept.numel()
            if kept.numel():
                self.rows += len(values) if values.ndim else 1
                self.profile.add(array(kept), str(values.dtype).removeprefix("torch."))

    def described(self) -> LossSpec:
        """The loss with the facts of all its targets so far.

        `config["computed"]` says that there is no output layer, rather than an unknown one.
        """
        spec = self.spec
        if self.altered:
            spec = dataclasses.replace(spec, weighted=True)
        elif self.whole == "mean" and spec.reduction == "none":
            spec = dataclasses.replace(spec, reduction="mean")
        if self.computed:
            spec = dataclasses.replace(spec, config={**spec.config, "computed": True})
        if self.ignored:
            config = {**spec.config, "ignored_share": self.ignored / self.labels}
            spec = dataclasses.replace(spec, config=config)
        return dataclasses.replace(spec, target=self.facts()) if self.labels else spec

    def facts(self) -> DataSpec:
        """Facts of all targets so far, under the shape they came in."""
        facts, shape = self.profile.spec(), self.spec.target_shape
        if shape is None:
            return facts
        if self.spec.ignore_index is None:
            return dataclasses.replace(facts, shape=shape[1:], batch_shape=shape)
        columns = facts.columns if len(shape) == 1 else ()  # class ids came in as one row
        return dataclasses.replace(
            facts, shape=shape[1:], batch_shape=shape, columns=columns, rows_seen=self.rows
        )


class Root:
    """Names of the modules and parameters of one model. Does not keep the model alive.

    Args:
        number: Identifies the root within the session.
        module: The model.
        title: The user's name for it.
    """

    def __init__(self, number: int, module: nn.Module, title: str) -> None:
        self.number = number
        self.title = title
        self.prefix = ""
        self.paths: dict[int, str] = {}
        self.params: dict[int, tuple[str, str]] = {}
        self.profiles: dict[str, DataProfile] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}  # of the inputs, as last seen
        self.sites: dict[tuple[Any, ...], LossSite] = {}
        self.last_site: dict[tuple[str, int], LossSite] = {}
        self.unseen: dict[str, str] = {}
        self.loss_inside = False
        self.news = False  # a loss is another than its description says
        self._kinds: dict[int, tuple[LayerKind, str | None]] = {}
        self.trainable = True
        self.optimized = False
        self._module = weakref.ref(module)
        self.refresh()

    @property
    def module(self) -> nn.Module | None:
        """The model, while it lives."""
        return self._module()

    def refresh(self) -> None:
        """Reads the names again: modules may have been added."""
        module = self.module
        if module is None:
            return
        wrapped = _wrapped(module)
        self.paths = {id(m): name.removeprefix(wrapped) for name, m in module.named_modules()}
        inner = module
        for part in wrapped.split(".")[:-1]:  # the wrappers and what they wrap are the root
            inner = inner._modules[part]  # type: ignore[assignment]
            self.paths[id(inner)] = ""
        self.params = {}
        self._kinds = {}
        for child in module.modules():
            path = self.paths[id(child)]
            for name, param in child._parameters.items():
                if param is not None:
                    layer, own = _owner(path, name)
                    self.params.setdefault(id(param), (layer, own))
        self.trainable = any(p.requires_grad for p in module.parameters())

    def path(self, module: nn.Module) -> str:
        """Attribute path of a module of this root."""
        path = self.paths.get(id(module))
        if path is None:
            self.refresh()
            path = self.paths.get(id(module), type(module).__name__.lower())
        return path

    def holds(self, module: nn.Module) -> bool:
        """Whether `module` is part of this model."""
        if id(module) not in self.paths or self.module is None:
            return False
        return any(m is module for m in self.module.modules())

    def kind(self, module: nn.Module) -> tuple[LayerKind, str | None]:
        """Kind and activation of a module of this root."""
        found = self._kinds.get(id(module))
        if found is None:
            spec = layer_spec("", module, None)
            found = self._kinds[id(module)] = (spec.kind, spec.activation)
        return found

    def parameters(self) -> list[nn.Parameter]:
        """All parameters, shared ones once."""
        module = self.module
        return list(module.parameters()) if module is not None else []

    def shown(self, path: str) -> str:
        """A path within the root as the Program names it."""
        if not path:
            return self.title
        if path.startswith("/"):  # a call in the root's own forward
            path = path[1:]
            if path in self.paths.values():
                path += "_call"
        return f"{self.prefix}.{path}" if self.prefix else path


def _wrapped(module: nn.Module) -> str:
    """What wrappers around a model put before every name: "" or "module."."""
    prefix = ""
    while type(module).__name__ in WRAPPERS:
        part = next((p for p in WRAPPER_PARTS if module._modules.get(p) is not None), None)
        if part is None:
            break
        prefix += f"{part}."
        module = module._modules[part]  # type: ignore[assignment]
    return prefix


def _owner(path: str, name: str) -> tuple[str, str]:
    """The layer and the name of a parameter: a parametrized one belongs to the layer itself."""
    head, found, tail = path.partition("parametrizations")
    if found:
        return head.rstrip("."), f"{found}{tail}.{name}"
    return path, name


def is_compiled(module: nn.Module) -> bool:
    """Whether calling `module` runs a compiled graph."""
    return type(module).__name__ == "OptimizedModule" or module._compiled_call_impl is not None


def is_keras(module: nn.Module) -> bool:
    """Whether Keras made it: Keras's own loop drives it, and Keras's adapter watches it."""
    return any(
        cls.__module__.partition(".")[0] in ("keras", "tf_keras") for cls in type(module).__mro__
    )


def gradient(param: Tensor) -> Tensor | None:
    """The gradient, without the warning that reading it of a non-leaf gives."""
    return param.grad if param.is_leaf else None
