"""Watching engine models: the door for one model, and for a whole process.

Nothing has to be hooked: the engine hands out each `Step` with all its values.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stethoscope import config
from stethoscope.engine.layers._base import Array
from stethoscope.engine.run import Run
from stethoscope.engine.step import Listener, Step, everywhere
from stethoscope.engine.training import Trainable
from stethoscope.monitor import FaultyTrainingError, Session
from stethoscope.scope import Scope
from stethoscope.types import Report


class Watch(Listener):
    """Records the models that train, one run each; a `step.Listener`.

    Args:
        session: What the reports go to.
    """

    only_reads = True

    def __init__(self, session: Session) -> None:
        self.session = session
        self._runs: dict[Trainable, Run] = {}
        self._active = True

    def begin(self, model: Trainable, inputs: Sequence[Array], targets: Sequence[Array]) -> None:
        """Opens a run for a model; a second `fit` continues it."""
        self._open(model, inputs, targets, whole=True)

    def step(self, model: Trainable, step: Step) -> bool:
        """Records a step; True when the settings ask to stop.

        Raises:
            FaultyTrainingError: with `on_error="raise"`.
        """
        if model not in self._runs:
            self._open(model, step.inputs, step.targets, whole=False)
        run = self._runs.get(model)
        if run is None or not self._active:
            return False
        self._guarded(model, lambda: run.take(step))
        return run.monitor.should_stop

    def epoch(self, model: Trainable, epoch: int, held_out: Mapping[str, float]) -> None:
        """Records the figures on held-out data."""
        run = self._runs.get(model)
        if run is not None and held_out:
            self._guarded(model, lambda: run.held_out(held_out, epoch))

    def end(self, model: Trainable) -> None:
        """Records what is still held."""
        run = self._runs.get(model)
        if run is not None:
            self._guarded(model, run.catch_up)

    @property
    def usable(self) -> bool:
        """No error of ours has ended the watching."""
        return self._active

    def report(self, model: Trainable) -> Report | None:
        """What can be said of a model so far; None before its first step."""
        run = self._runs.get(model)
        if run is None or not (run.monitor.recorder.rows_written or run.monitor.failed):
            return None
        return run.monitor.report()

    def _open(
        self, model: Trainable, inputs: Sequence[Array], targets: Sequence[Array], *, whole: bool
    ) -> None:
        def work() -> None:
            run = self._runs.get(model)
            if run is None:
                run = self._runs[model] = Run(model, self.session, inputs, targets, whole=whole)
                run.monitor.catch_up = functools.partial(self._catch_up, run)
            else:
                run.goes_on(inputs, targets)

        self._guarded(model, work)

    def _catch_up(self, run: Run) -> None:
        with contextlib.suppress(FaultyTrainingError):  # the training is over, or goes on elsewhere
            self._guarded(run.model, run.catch_up)

    def _guarded(self, model: Trainable, work: Callable[[], None]) -> None:
        """Runs code of ours: its failure is told and ends the watching, not the training.

        Its time is counted as that of watching the model.
        """
        if not self._active:
            return
        run, begun = self._runs.get(model), time.perf_counter()
        judging = run.monitor.seconds if run is not None else 0.0
        try:
            work()
        except FaultyTrainingError:
            raise
        except Exception as error:
            self._active = False
            text = f"watching stopped: {type(error).__name__}: {error}"
            self.session.fail(f"{text}; the training goes on.")
            for one in self._runs.values():
                one.monitor.fail(text)
        finally:
            run = self._runs.get(model)
            if run is not None:
                judging = run.monitor.seconds - judging  # counted already
                run.monitor.spent(time.perf_counter() - begun - judging)


def watch(model: Trainable, **settings: Any) -> Scope:
    """Watches the training of one model.

    Args:
        model: What is to be trained.
        **settings: Fields of `stethoscope.config.Config`.

    Returns:
        A context manager whose `report` holds the verdict. Where the model is watched already, by
        a scope that is still open or by `stethoscope run`, that watching goes on, and the scope
        shows its report.

    Raises:
        ConfigError: A setting is unknown or cannot have its value.
    """
    found = config.load(settings)
    if found.disable:
        return Scope(None, _nothing, _nothing, framework="numpy")
    other = watching(model)
    if other is not None:
        return _shared(other, model, settings)
    session = Session(found)
    listener = Watch(session)
    scope = Scope(
        session,
        lambda: model.listeners.append(listener),
        lambda: model.listeners.remove(listener),
        framework="numpy",
    )
    scope.resume()
    return scope


def watching(model: Trainable) -> Watch | None:
    """What watches a model, of the process or by a scope that is still open."""
    found = (one for one in (*everywhere, *model.listeners) if isinstance(one, Watch))
    return next((one for one in found if one.usable), None)


def _shared(watch: Watch, model: Trainable, settings: Mapping[str, Any]) -> Scope:
    """A scope on what is watched already."""
    if settings:
        watch.session.tell(
            "this model is watched already: the settings of that hold, not those of this watch()."
        )

    def reports() -> list[Report]:
        report = watch.report(model)
        return [] if report is None else [report]

    return Scope(watch.session, _nothing, _nothing, reports=reports, owned=False, framework="numpy")


def install(session: Session) -> Callable[[], None]:
    """Watches every model that this process trains. Used by `stethoscope run`.

    Returns:
        A function that takes everything away again.
    """
    if session.config.disable:
        return _nothing
    listener = Watch(session)
    everywhere.append(listener)
    return lambda: everywhere.remove(listener)


def _nothing() -> None:
    """What a scope that is switched off has to do."""
