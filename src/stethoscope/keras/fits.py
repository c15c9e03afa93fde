"""From a `fit` that begins to a watched run, and back."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Mapping
from types import FrameType
from typing import Any

import keras

from stethoscope.keras import describe
from stethoscope.keras.feed import Feed, fit_call
from stethoscope.keras.graph import Graph
from stethoscope.keras.layout import layout
from stethoscope.keras.losses import loss_ends
from stethoscope.keras.sources import found, user_files
from stethoscope.keras.tracing import flow
from stethoscope.keras.undisturbed import tensorflow_left_alone
from stethoscope.keras.watch import Watch
from stethoscope.monitor import Monitor, Session
from stethoscope.program import FitSpec, Program
from stethoscope.types import Phase, Report, SourceRef, Stage

VALIDATION_PREFIX = "val_"
LOSS = "loss"


@dataclasses.dataclass
class Run:
    """One run: the fits of one model with one optimizer, and where the last one ended."""

    monitor: Monitor
    model: Any
    optimizer: Any
    next_step: int = 0
    next_epoch: int = 0


class Fits:
    """Opens and continues the runs of one session.

    Args:
        session: What the reports go to.
        sources: id of an object to the call that made it, as recorded; None to look them up.
        compile_sources: id of a model to its `compile` call, likewise.
        continues: A second fit of a model with the same optimizer continues its run.

    Attributes:
        last_program: As the last fit left it.
    """

    def __init__(
        self,
        session: Session,
        sources: Mapping[int, SourceRef] | None = None,
        compile_sources: Mapping[int, SourceRef] | None = None,
        *,
        continues: bool = False,
    ) -> None:
        self.session = session
        self._sources = sources
        self._compile_sources = compile_sources if compile_sources is not None else {}
        self._continues = continues
        self._runs: list[Run] = []
        self.last_program: Program | None = None

    def begin(self, model: Any, frame: FrameType | None, params: dict[str, Any] | None) -> Fit:
        """Starts to watch a fit that is about to take its first step.

        Args:
            model: The compiled model.
            frame: The running frame, below that of `fit`.
            params: What Keras told its callbacks.
        """
        call = fit_call(model, frame, params)
        files = user_files(frame)
        structure = flow(model, call.x)
        feed = Feed(call, loss_ends(model, structure))
        program = self._describe(model, call.spec, files, structure, feed)
        run = self._run(model, program)
        watch = _watch_class()(
            model,
            run.monitor,
            layout(model, program, structure),
            feed,
            first_step=run.next_step,
            first_epoch=run.next_epoch,
        )
        if not model.built:  # TensorFlow builds it in the first step
            x = call.x
            watch.learn = lambda: self._learn(model, call.spec, files, x, watch)
        fit = Fit(run, watch, self, call.spec)
        watch.start()
        return fit

    def _learn(self, model: Any, spec: FitSpec, files: list[str], x: Any, watch: Watch) -> None:
        """Describes a model again, once it is built."""
        structure = flow(model, x)
        watch.feed.ends = loss_ends(model, structure)
        program = self._describe(model, spec, files, structure, watch.feed)
        watch.layout = layout(model, program, structure)
        self._revise(watch.monitor, program)

    def _revise(self, monitor: Monitor, program: Program) -> None:
        unseen = {**monitor.recorder.program.unseen, **program.unseen}
        if "weights" not in program.unseen:
            unseen.pop("weights", None)
            unseen.pop("data flow", None)
        unseen.update(program.unseen)
        monitor.recorder.replace_program(dataclasses.replace(program, unseen=unseen))

    def _run(self, model: Any, program: Program) -> Run:
        if self._continues:
            for run in self._runs:
                if run.model() is model and run.optimizer is model.optimizer:
                    recorder = run.monitor.recorder
                    unseen = {**recorder.program.unseen, **program.unseen}
                    recorder.replace_program(dataclasses.replace(program, unseen=unseen))
                    return run
        run = Run(self.session.open(program), weakref.ref(model), model.optimizer)
        self._runs.append(run)
        return run

    def _describe(
        self, model: Any, spec: FitSpec, files: list[str], structure: Graph, feed: Feed
    ) -> Program:
        lines, compiled = self._sources, self._compile_sources.get(id(model))
        if lines is None:
            layers = {path: node.operation for path, node in structure.nodes.items()}
            lines, compiled = found(model, layers, files)
        with tensorflow_left_alone():
            program = describe.program(
                model, sources=lines, compile_source=compiled, fit=spec, flow=structure
            )
        return dataclasses.replace(
            program,
            inputs=feed.inputs(),
            targets=feed.targets(),
            losses=feed.losses(program.losses),
        )

    def ended(self, run: Run) -> None:
        """A fit is over: in a session of its own its run is, too."""
        self.last_program = run.monitor.recorder.program
        if not self._continues:
            run.monitor.close()
            self._runs.remove(run)


class Fit:
    """One watched fit, from its first step to its end.

    Args:
        run: The run it belongs to.
        watch: What watches its steps.
        fits: Where it came from.
        spec: How it is run.
    """

    def __init__(self, run: Run, watch: Watch, fits: Fits, spec: FitSpec) -> None:
        self._run = run
        self.watch = watch
        self._fits = fits
        self._spec = spec
        self._offset = run.next_epoch
        self._ended = False

    @property
    def report(self) -> Report:
        """What can be said so far."""
        return self._run.monitor.report()

    def begin_epoch(self, epoch: int) -> None:
        """See `Watch.begin_epoch`."""
        self.watch.begin_epoch(self._offset + epoch)

    def end_epoch(self, epoch: int, logs: Mapping[str, Any] | None) -> None:
        """Closes an epoch with its validation figures, where there are any.

        Raises:
            FaultyTrainingError: with `on_error="raise"`.
        """
        self.watch.end_epoch()
        if not self.watch.active:
            return
        epoch += self._offset
        self._run.next_epoch = epoch + 1
        monitor = self._run.monitor
        if self._spec.steps_per_epoch is None:
            self._spec = dataclasses.replace(self._spec, steps_per_epoch=self.watch.batch)
            monitor.recorder.revise(fit=self._spec)
        found = False
        for name, value in (logs or {}).items():
            if name.startswith(VALIDATION_PREFIX):
                found = True
                self._validation(name.removeprefix(VALIDATION_PREFIX), value)
        if found:
            monitor.end_epoch(max(self.watch.step - 1, 0), epoch)
            if monitor.should_stop:
                self.watch.model.stop_training = True

    def _validation(self, name: str, value: Any) -> None:
        recorder, phase = self._run.monitor.recorder, Phase.VALIDATION
        outputs = getattr(getattr(self.watch.model, "_compile_loss", None), "metrics", ())
        if name == LOSS:
            recorder.scalar(Stage.LOSS, float(value), phase=phase)
        elif name in {metric.name for metric in outputs}:
            recorder.scalar(Stage.LOSS, float(value), param=name.removesuffix("_loss"), phase=phase)
        else:
            recorder.scalar(Stage.METRIC, float(value), param=name, phase=phase)

    def end(self) -> Report | None:
        """Stops to watch; the report, the first time it is called."""
        if self._ended:
            return None
        self._ended = True
        self.watch.stop()
        self._run.next_step = self.watch.step
        self._fits.ended(self._run)
        return self._run.monitor.report()


def _watch_class() -> type[Watch]:
    backend = keras.backend.backend()
    if backend == "jax":
        from stethoscope.keras.jax_watch import JaxWatch

        return JaxWatch
    if backend == "torch":
        from stethoscope.keras.torch_watch import TorchWatch

        return TorchWatch
    if backend == "tensorflow":
        from stethoscope.keras.tensorflow_watch import TensorFlowWatch

        return TensorFlowWatch
    raise RuntimeError(f"the Keras backend {backend!r} does not train: use jax, torch, tensorflow")
