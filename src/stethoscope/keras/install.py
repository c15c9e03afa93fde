"""Watching the fits of an unmodified script: for `stethoscope run`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras
from keras.src.optimizers.base_optimizer import BaseOptimizer

from stethoscope.keras.callback import Stethoscope
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
    if session.config.engine == "numpy":
        from stethoscope.keras import engine_fits

        return engine_fits.install(session)
    recorded = Recorded()
    fits = Fits(session, recorded.lines, recorded.compiled, continues=True)
    script = _Script(session, fits)
    undo: list[Callable[[], None]] = []

    def uninstall() -> None:
        while undo:
            undo.pop()()
        script.close()

    try:
        undo.append(recorded.stop)
        recorded.start()
        for name, wrap in (("fit", script.fit), ("train_on_batch", script.train_on_batch)):
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
            args, kwargs, undo = _with_callback(model, args, kwargs, callback)
            self._depth += 1
            try:
                return original(model, *args, **kwargs)
            finally:
                self._depth -= 1
                undo()
                callback.end()

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

    def end(self) -> None:
        """Ends watching; harmless when done twice."""
        self._end()


def _with_callback(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], callback: Stethoscope
) -> tuple[tuple[Any, ...], dict[str, Any], Callable[[], None]]:
    """The arguments of `fit` with one more callback, and what takes it away again."""
    positional = len(args) > CALLBACKS
    given = args[CALLBACKS] if positional else kwargs.get("callbacks")
    if isinstance(given, keras.callbacks.CallbackList):
        # The caller built it, with its own parameters: fit() will not set ours.
        callback.set_model(model)
        callback.set_params(given.params or {})
        given.callbacks.append(callback)
        return args, kwargs, lambda: given.callbacks.remove(callback)
    own = keras.tree.flatten(given) if given else []
    if any(isinstance(one, Stethoscope) for one in own):
        return args, kwargs, lambda: None
    together = [*own, callback]
    if positional:
        args = (*args[:CALLBACKS], together, *args[CALLBACKS + 1 :])
    else:
        kwargs = {**kwargs, "callbacks": together}
    return args, kwargs, lambda: None
