"""Watching the fits of an unmodified script: for `stethoscope run`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras
from keras.src.optimizers.base_optimizer import BaseOptimizer

from stethoscope.keras.callback import Stethoscope, callbacks_in
from stethoscope.keras.fits import Fits
from stethoscope.keras.sources import Recorded, replaced
from stethoscope.monitor import Session
from stethoscope.types import Report

CALLBACKS = 5  # position of `callbacks` among the arguments of `fit`, after the model


def install(session: Session) -> Callable[[], None]:
    """Watches every `fit` from now on, and notes the lines that build the models.

    Args:
        session: The watched process.

    Returns:
        What takes everything back; call it also after an exception.
    """
    if session.config.disable:
        return lambda: None
    recorded = Recorded()
    fits = Fits(session, recorded.lines, recorded.compiled, continues=True)
    script = _Script(session, fits)
    wrap_fit = script.fit
    if session.config.engine == "numpy":
        from stethoscope.keras import engine_fits

        # what the engine cannot run goes on to Keras, watched there
        wrap_fit = functools.partial(engine_fits.wrapped, session, recorded, script.fit)
    undo: list[Callable[[], None]] = []

    def uninstall() -> None:
        while undo:
            undo.pop()()
        script.close()

    try:
        undo.append(recorded.stop)
        recorded.start()
        for name, wrap in (("fit", wrap_fit), ("train_on_batch", script.train_on_batch)):
            owner = next(kind for kind in keras.Model.__mro__ if name in vars(kind))
            undo.append(replaced(owner, name, wrap))
        undo.append(replaced(BaseOptimizer, "apply", script.apply))
    except Exception:
        uninstall()
        raise
    return uninstall


class _Script:
    """What the patched methods do.

    Args:
        session: Where notes go.
        fits: What opens the runs.
    """

    def __init__(self, session: Session, fits: Fits) -> None:
        self._session = session
        self._fits = fits
        self._depth = 0
        self._told: set[str] = set()

    def fit(self, original: Any) -> Any:
        """Adds the callback to a `fit`, and ends watching whatever happens in it."""

        @functools.wraps(original)
        def fit(model: Any, *args: Any, **kwargs: Any) -> Any:
            callback = _SessionCallback(self._fits)
            own = [
                one for one in callbacks_in(_given(args, kwargs)) if isinstance(one, Stethoscope)
            ]
            for one in own:
                one.follow(callback.so_far, callback.finish)
            args, kwargs, undo = _with_callback(model, args, kwargs, callback)
            self._depth += 1
            try:
                return original(model, *args, **kwargs)
            finally:
                self._depth -= 1
                undo()
                callback.end()
                for one in own:
                    one.end()

        return fit

    def train_on_batch(self, original: Any) -> Any:
        """Notes that a script trains batch by batch."""

        @functools.wraps(original)
        def train_on_batch(model: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._depth:
                self._note("train_on_batch() is not watched: only fit() is")
            self._depth += 1
            try:
                return original(model, *args, **kwargs)
            finally:
                self._depth -= 1

        return train_on_batch

    def apply(self, original: Any) -> Any:
        """Notes that a script updates weights in a loop of its own."""

        @functools.wraps(original)
        def apply(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._depth:
                self._note("a custom training loop with a Keras optimizer is not watched")
            return original(optimizer, *args, **kwargs)

        return apply

    def close(self) -> None:
        """Says nothing more; the session closes the runs."""
        self._told.clear()

    def _note(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._session.notes.append(text)
            self._session.tell(text)


class _SessionCallback(Stethoscope):
    """The callback of a session that prints its reports itself, at the end of the script."""

    def __init__(self, fits: Fits) -> None:
        super().__init__()
        self._fits = fits

    def show(self, report: Report) -> None:
        """Nothing: the session does."""

    def so_far(self) -> Report | None:
        """The report of the fit that runs; None before and after it."""
        return self._fit.report if self._fit is not None else None

    def finish(self) -> Report | None:
        """Ends watching; the report, if something was watched."""
        self.end()
        return self.reports[-1] if self.reports else None


def _with_callback(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], callback: Stethoscope
) -> tuple[tuple[Any, ...], dict[str, Any], Callable[[], None]]:
    """The arguments of `fit` with one more callback, and what takes it away again."""
    given = _given(args, kwargs)
    if isinstance(given, keras.callbacks.CallbackList):
        # The caller built it, with its own parameters: fit() will not set ours.
        callback.set_model(model)
        callback.set_params(given.params or {})
        given.callbacks.append(callback)
        return args, kwargs, lambda: given.callbacks.remove(callback)
    together = [*callbacks_in(given), callback]
    if len(args) > CALLBACKS:
        args = (*args[:CALLBACKS], together, *args[CALLBACKS + 1 :])
    else:
        kwargs = {**kwargs, "callbacks": together}
    return args, kwargs, lambda: None


def _given(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The argument `callbacks` of `fit`, among those without the model."""
    return args[CALLBACKS] if len(args) > CALLBACKS else kwargs.get("callbacks")
