"""One run: the models that are trained together, and how their steps become rows."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from stethoscope.agreement import CORRELATION
from stethoscope.diagnosis.search import find_call
from stethoscope.monitor import Monitor, Session
from stethoscope.program import DataSpec, FitSpec, LossSpec, OptimizerSpec, Program
from stethoscope.torch import describe, structure
from stethoscope.torch.flow import Key
from stethoscope.torch.losses_seen import due
from stethoscope.torch.optimizers import Optimizers
from stethoscope.torch.roots import Root
from stethoscope.torch.sources import Sources
from stethoscope.torch.step import Step
from stethoscope.types import Slot, SourceRef, Stage

MAX_SCANS = 3


class Run:
    """Models and optimizers that are trained together, and the monitor that judges them.

    Args:
        session: Opens the monitor.
        lines: Where things were constructed.

    Attributes:
        session: What its report goes to.
    """

    def __init__(self, session: Session, lines: Sources) -> None:
        self.roots: list[Root] = []
        self.scans_left = MAX_SCANS
        self.named: set[tuple[str, str]] = set()  # weights that a scan found not to be finite
        self.update_source: SourceRef | None = None
        self.user_file: str | None = None
        self._lines = lines
        self.session = session
        self._monitor: Monitor | None = None
        self._structure = structure.Structure(lines)
        self._optimizers = Optimizers()
        self._slots: dict[tuple[Key, str, Stage], Slot] = {}
        self._data: dict[Stage, dict[Key, int]] = {Stage.INPUT: {}, Stage.TARGET: {}}
        self._params: dict[int, tuple[Key, str]] = {}
        self._notes: dict[str, str] = {}
        self._probed = 0
        self._ended: tuple[float, float] | None = None  # the last step, and the cost until then

    @property
    def monitor(self) -> Monitor | None:
        """What judges the run; None before its first step."""
        return self._monitor

    def join(self, roots: list[Root]) -> None:
        """Models that ran in a step of this run belong to it; the later ones get a prefix."""
        for root in roots:
            if root in self.roots:
                continue
            if self.roots or len(roots) > 1:
                root.prefix = _unique(root.title, [r.prefix for r in self.roots])
            self.roots.append(root)
            self._params.update(
                {i: ((root.number, path), name) for i, (path, name) in root.params.items()}
            )

    def has(self, roots: list[Root], optimizer: torch.optim.Optimizer | None) -> bool:
        """Whether a step of `optimizer` in which `roots` ran is a step of this run."""
        if any(root in self.roots and root.trainable for root in roots):
            return True
        return not roots and optimizer is not None and self.known(optimizer)

    def known(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether it updates a parameter of this run."""
        return any(self.param_key(p) for group in optimizer.param_groups for p in group["params"])

    def params(self) -> set[int]:
        """Ids of the parameters of its models."""
        return {id(p) for root in self.roots for p in root.parameters()}

    def is_probed(self) -> bool:
        """Whether the next step is to be probed."""
        if self._monitor is None:
            return True
        rows = self._monitor.recorder.rows_written
        return self._monitor.schedule.probe(rows // self._optimizers.active)

    def alarm(self, step: Step) -> None:
        """A gradient is not finite: the next steps are looked at closely."""
        if self._monitor is not None:
            rows = self._monitor.recorder.rows_written
            self._monitor.schedule.alarm(rows // self._optimizers.active)

    def unseen(self, reasons: Mapping[str, str]) -> None:
        """Declares what cannot be seen of this run."""
        self._notes.update(reasons)
        if self._monitor is not None:
            program = self._monitor.recorder.program
            self._monitor.recorder.revise(unseen={**program.unseen, **reasons})

    def path(self, key: Key) -> str:
        """The layer's path in the Program."""
        return self._structure.path(key, self.roots)

    def param_key(self, param: Tensor) -> tuple[Key, str] | None:
        """Layer and name of a parameter; None for one of no model of this run."""
        found = self._params.get(id(param))
        if found is not None:
            return found
        for root in self.roots:
            if any(p is param for p in root.parameters()):
                root.refresh()
                path, name = root.params[id(param)]
                self._params[id(param)] = ((root.number, path), name)
                return self._params[id(param)]
        return None

    def weights_of(self, optimizer: torch.optim.Optimizer, params: list[Tensor]) -> list[Tensor]:
        """The weights that a row of `optimizer` shows: its own, and those of no optimizer."""
        taken = self._optimizers.params() | {id(p) for p in params}
        free = [
            p
            for root in self.roots
            for p in root.parameters()
            if id(p) not in taken and (p.requires_grad or self._probed == 0)
        ]
        return [*params, *free]

    def finish(self, step: Step, optimizer: torch.optim.Optimizer | None) -> None:
        """Turns a step into a row; without an optimizer the program updated the weights itself."""
        groups = optimizer.param_groups if optimizer is not None else []
        known, changed = self._optimizers.step(optimizer)
        number = known.steps - 1
        begun = time.perf_counter()
        monitor = self._learn(step)
        before, row = monitor.seconds, monitor.recorder.rows_written
        probed = step.probing
        self._revise(monitor, step, changed)
        self._record(monitor, step, groups)
        try:
            monitor.end_step(number, 0, number)
        finally:
            judged = monitor.seconds - before
            now = time.perf_counter()
            monitor.spent(step.spent + now - begun - judged)
            self._took(monitor, row // self._optimizers.active, probed, now)

    def _took(self, monitor: Monitor, step: int, probed: bool, now: float) -> None:
        """Tells the schedule what it cost to watch the time since the step before."""
        if self._ended is not None:
            end, spent = self._ended
            cost = monitor.seconds - spent
            monitor.schedule.took(step, probed=probed, seconds=now - end - cost, cost=cost)
        self._ended = now, monitor.seconds

    def abandon(self, step: Step) -> None:
        """Ends a step that never came to its update: what the Program shows is judged."""
        monitor = self._learn(step)
        self._revise(monitor, step, False)
        monitor.end_epoch(monitor.recorder.rows_written, 0)

    def _learn(self, step: Step) -> Monitor:
        """The monitor, and the structure that a probed step showed."""
        step.settle()
        monitor = self._monitor
        if monitor is None:
            program = Program("torch", torch.__version__, fit=FitSpec(source=self.update_source))
            monitor = self._monitor = self.session.open(program)
        if step.probing:
            self._probed += 1
            if step.tensors and step.roots and Stage.HYPER not in self._notes:
                self._notes.clear()  # declared before the model was called
            self._structure.learn(step.flow)
            for place in step.tensors:
                if place[2] in self._data:
                    self.data_index(place[2], place[0])
        return monitor

    def _record(self, monitor: Monitor, step: Step, groups: list[dict[str, Any]]) -> None:
        recorder = monitor.recorder
        for event in step.events:
            recorder.event("nonfinite", **event)
        for place, row in step.tensors.items():
            slot = self._slot(place)
            if slot is not None:
                recorder.observe(slot, row)
        loss = step.loss()
        if loss is not None:
            recorder.scalar(Stage.LOSS, loss)
        # A loss that is not finite is an event of its own: its scaled value adds nothing.
        if step.backward and (loss is None or math.isfinite(loss)):
            recorder.scalar(Stage.LOSS, step.backward[-1], param="backward")
        for name, values in step.metrics.items():
            recorder.scalar(Stage.METRIC, sum(values) / len(values), param=name)
        if step.correlations:
            value = sum(step.correlations) / len(step.correlations)
            recorder.scalar(Stage.LOSS, value, param=CORRELATION)
        for index, group in enumerate(groups):
            rate = group.get("lr")
            if rate is not None:
                name = f"learning_rate[{index}]" if index else "learning_rate"
                recorder.scalar(Stage.HYPER, float(rate), param=name)

    def data_index(self, stage: Stage, key: Key) -> str:
        """Index of an input or target in the Program, in the order of first appearance."""
        known = self._data[stage]
        return str(known.setdefault(key, len(known)))

    def _slot(self, place: tuple[Key, str, Stage]) -> Slot | None:
        slot = self._slots.get(place)
        if slot is None:
            key, param, stage = place
            if stage in self._data:
                slot = Slot("", self.data_index(stage, key), stage)
            else:
                moved = self._structure.folded(key, stage)
                if moved is None:
                    return None
                slot = Slot(self.path(moved[0]), param, moved[1])
            self._slots[place] = slot
        return slot

    # The Program

    def _revise(self, monitor: Monitor, step: Step, optimizers_changed: bool) -> None:
        changes: dict[str, Any] = {}
        if self._structure.changed:
            changes["layers"] = self._structure.layers(self.roots, self.user_file)
            changes["edges"] = self._structure.edges(self.roots)
        if optimizers_changed:
            changes["optimizers"] = self._optimizer_specs()
        if step.probing and due(self._probed):
            changes["losses"] = self._losses()
            changes["inputs"] = self._data_specs(Stage.INPUT)
            changes["targets"] = self._data_specs(Stage.TARGET)
            size = next((s.batch_shape[0] for s in changes["inputs"] if s.batch_shape), None)
            changes["fit"] = FitSpec(batch_size=size, source=self.update_source)
        elif any(root.news for root in self.roots):
            changes["losses"] = self._losses()
        for root in self.roots:
            root.news = False
        notes = dict(self._notes)
        for root in self.roots:
            notes.update(root.unseen)
        if notes != dict(monitor.recorder.program.unseen):
            changes["unseen"] = notes
        if changes:
            monitor.recorder.revise(**changes)

    def _optimizer_specs(self) -> tuple[OptimizerSpec, ...]:
        names = {i: f"{self.path(key)}/{name}" for i, (key, name) in self._params.items()}
        specs = []
        for known in self._optimizers.listed():
            optimizer = known.optimizer
            if optimizer is None:  # it has done its part: what was known of it stays
                specs += [known.spec] if known.spec is not None else []
                continue
            line = self._lines.of(optimizer)
            if line is None and self.user_file:
                line = find_call(self.user_file, [type(optimizer).__name__])
            spec = describe.optimizer_spec(optimizer, names, line)
            schedule = self._lines.schedule_of(optimizer)
            if schedule is not None:
                spec = dataclasses.replace(spec, schedule=schedule[0], rate_source=schedule[1])
            known.spec = spec
            specs.append(spec)
        return tuple(specs)

    def _sites(self) -> list[Any]:
        """The losses that are trained on; all loss calls where no `backward` was seen."""
        sites = [site for root in self.roots for site in root.sites.values()]
        return [site for site in sites if site.fed] or sites

    def _losses(self) -> tuple[LossSpec, ...]:
        specs = []
        for site in self._sites():
            output = self.path(self._structure.moved(site.output)) if site.output else None
            specs.append(dataclasses.replace(site.described(), output=output))
        return tuple(specs)

    def _data_specs(self, stage: Stage) -> tuple[DataSpec, ...]:
        by_number = {root.number: root for root in self.roots}
        specs = []
        for number, text in self._data[stage]:
            root = by_number[number]
            if stage is Stage.INPUT:
                profile = root.profiles.get(text)
                spec = profile.spec() if profile is not None else DataSpec()
                shape = root.shapes.get(text, ())
                spec = dataclasses.replace(spec, shape=shape[1:], batch_shape=shape)
            else:
                spec = next(s.facts() for s in root.sites.values() if f"#{s.number}" == text)
            several = len(self._data[stage]) > 1
            name = f"{root.prefix}.{text}".strip(".") if several and stage is Stage.INPUT else ""
            specs.append(dataclasses.replace(spec, name=name))
        return tuple(specs)


def _unique(name: str, taken: list[str]) -> str:
    text, count = name, 1
    while text in taken:
        count += 1
        text = f"{name}_{count}"
    return text
