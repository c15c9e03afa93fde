"""The callback that a user gives to `model.fit`."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import keras

from stethoscope import config
from stethoscope.keras.fits import Fit, Fits
from stethoscope.monitor import Session
from stethoscope.scope import nothing_seen, show
from stethoscope.types import Report


class Stethoscope(keras.callbacks.Callback):  # type: ignore[misc]
    """Watches a `fit` and prints what is wrong with it when it ends.

    It overrides no batch callback, touches the model on probed steps only, and changes nothing in
    the training: the weights end bit-identical with and without it.

    Under `stethoscope run`, which watches every fit, it shows the report of that and prints none.

    Args:
        **settings: Fields of `stethoscope.config.Config`, such as `on_error="stop"`,
            `probe_every=50` or `quiet=True`.

    Attributes:
        reports: One `Report` for each fit, in order.

    Raises:
        ConfigError: An unknown setting or a value that a setting cannot have.

    Example:
        model.fit(x, y, callbacks=[stethoscope.keras.Stethoscope()])
    """

    async_safe = True  # no batch callback: Keras may dispatch the user's as it likes

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self._fits = Fits(Session(config.load(settings)))
        self._fit: Fit | None = None
        self._guard: Any = None
        self._own_settings = bool(settings)
        self._so_far: Callable[[], Report | None] | None = None
        self._finish: Callable[[], Report | None] | None = None
        self.reports: list[Report] = []

    @property
    def report(self) -> Report:
        """What is known of the fit that runs or, after it, of the last one."""
        if self._fit is not None:
            return self._fit.report
        followed = self._so_far() if self._so_far is not None else None
        if followed is not None:
            return followed
        if self.reports:
            return self.reports[-1]
        session = self._fits.session
        return nothing_seen(None if session.config.disable else session, "keras", "no fit was seen")

    def follow(
        self, so_far: Callable[[], Report | None], finish: Callable[[], Report | None]
    ) -> None:
        """Leaves the watching of the next fit to somebody else. Used by `stethoscope run`.

        Args:
            so_far: Gives the report while the fit runs.
            finish: Ends the watching, unless that is done, and gives the report.
        """
        session = self._fits.session
        if session.config.disable:
            return
        self._so_far, self._finish = so_far, finish
        if self._own_settings:
            self._own_settings = False  # told once
            session.tell(
                "this fit is watched already: the settings of that hold, not those of the callback."
            )

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Starts to watch."""
        if self._fits.session.config.disable or self._finish is not None:
            return
        self._end()
        frame = sys._getframe()
        try:
            # Not `self.model`: on JAX reading that writes the state back to the model.
            self._fit = self._fits.begin(self._model, frame, self.params)
        except Exception as error:
            text = f"this fit is not watched: {type(error).__name__}: {error}"
            self._fits.session.fail(text)
            return
        self._fit.watch.aborted = self._end
        held = _callback_list(frame)
        if held is not None:
            # An exception ends `fit` without `on_train_end`; its list of callbacks goes with it.
            self._guard = weakref.finalize(held, self._end)

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Keras has reset its running means."""
        if self._fit is not None:
            self._fit.begin_epoch(epoch)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Takes the validation figures."""
        if self._fit is not None:
            self._fit.end_epoch(epoch, logs)

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """Stops to watch, and prints the report."""
        self.end()

    def end(self) -> None:
        """Ends watching; harmless when done twice."""
        if self._finish is not None:
            finish, self._finish, self._so_far = self._finish, None, None
            followed = finish()
            if followed is not None:
                self.reports.append(followed)
        self._end()

    def _end(self) -> None:
        fit, self._fit = self._fit, None
        if self._guard is not None:
            self._guard.detach()
            self._guard = None
        report = fit.end() if fit is not None else None
        if report is not None:
            self.reports.append(report)
            self.show(report)

    def show(self, report: Report) -> None:
        """Prints a report to stderr, unless it is to be quiet."""
        show(self._fits.session, [report])


def callbacks_in(given: Any) -> list[Any]:
    """The callbacks that `fit` was given: one, a list, or Keras's own list of them."""
    if isinstance(given, keras.callbacks.CallbackList):
        return list(given.callbacks)
    return list(keras.tree.flatten(given)) if given else []


def _callback_list(frame: FrameType | None) -> Any:
    """The list that a running `fit` made of its callbacks; None when the caller made it."""
    while frame is not None:
        held = frame.f_locals.get("callbacks")
        if frame.f_code.co_name == "fit" and isinstance(held, keras.callbacks.CallbackList):
            return held
        frame = frame.f_back
    return None
