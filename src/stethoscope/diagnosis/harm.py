"""Is it learning? One pure function of what was measured so far."""

from __future__ import annotations

import dataclasses
import enum

from stethoscope.faults._measure import Measurements
from stethoscope.program import Program
from stethoscope.rules._baseline import trivial_loss
from stethoscope.rules._course import least_steps
from stethoscope.rules._series import CLEAR, Series

MARGIN = 0.02  # a model that uses its input is 2 % better than one that does not
FALL = 0.05  # without a baseline: a fall by a twentieth is no rounding
NO_CRITERION = "no learning criterion applies to this loss"
HUGE = 100.0  # a loss of unknown meaning may rise (returns, lengths), but not a hundredfold
FAR = 2.0  # twice the first loss and twice the baseline: no noise of a first batch does that
SURE = 300  # steps by which a network that learns has left its first loss, with room to spare
SLOW = 10.0  # at its present slope it would need ten times the run so far to reach the baseline


class State(enum.StrEnum):
    """What the run is doing to the user's goal."""

    HARMED = "harmed"
    LEARNING = "learning"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True)
class Harm:
    """The answer, with the reason in one sentence.

    Attributes:
        state: The answer.
        reason: Why.
        enough: Whether there were enough steps to judge at all.
    """

    state: State
    reason: str
    enough: bool = True


def judge(program: Program, measured: Measurements) -> Harm:
    """Whether the run is harmed, learning, or whether it cannot be known yet."""
    if measured.nonfinite_step is not None:
        return Harm(State.HARMED, f"numbers became non-finite at step {measured.nonfinite_step}")
    series, least = measured.loss, least_steps(program)
    if series.count == 0:
        return Harm(State.UNKNOWN, "no training loss was seen", enough=False)
    if series.count < least:
        reason = f"only {series.count} steps were seen; {least} are needed"
        return Harm(State.UNKNOWN, reason, enough=False)
    known = trivial_loss(program)
    harm = _without_baseline(program, series) if known is None else _against(*known, series)
    if harm.state is State.HARMED and len(program.optimizers) > 1 and len(program.losses) > 1:
        return Harm(State.UNKNOWN, NO_CRITERION)  # models that play against each other
    if harm.state is State.UNKNOWN and known is None and _has_criterion(program):
        return Harm(State.UNKNOWN, "the loss did not clearly fall")
    return harm


def _has_criterion(program: Program) -> bool:
    """Whether the loss of a run that learns must fall: one known loss, though weighted."""
    return len(program.losses) == 1 and program.losses[0].name is not None


def _against(baseline: float, words: str, series: Series) -> Harm:
    level, error = series.level()
    slack = MARGIN * abs(baseline)
    if level + 3 * error < baseline - slack:
        return Harm(State.LEARNING, f"loss {level:.4g}; {words} {baseline:.4g}")
    if series.risen() or level - 3 * error > FAR * max(baseline, series.early[0]):
        return Harm(State.HARMED, f"the loss rose from {series.early[0]:.4g} to {level:.4g}")
    slope, clear = series.trend()
    falling = slope < 0 and clear < -CLEAR
    if falling and series.count < SURE:  # far targets are reached ever faster: give it time
        return Harm(State.UNKNOWN, f"the loss is {level:.4g} and still falling")
    patience = 1.0 if level > series.start() else SLOW  # worse than at the start: soon, or never
    if falling and level + slope * patience * series.count < baseline - slack:
        return Harm(State.UNKNOWN, f"the loss is {level:.4g} and still falling")
    # Not seen to fall is not seen to stay: the steepest fall that the noise allows decides, up to
    # `SURE` steps for a loss at the baseline, and longer for one that is still coming down to it.
    above = level > baseline + slack and level + 3 * error < series.early[0]
    horizon = max(SURE - series.count, series.count if above else 0)
    steepest = slope - 2 * abs(slope / clear) if clear else slope
    if level + steepest * horizon < baseline - slack:
        return Harm(State.UNKNOWN, f"after {series.count} steps the loss may still be falling")
    if level > baseline - slack:
        return Harm(
            State.HARMED,
            f"after {series.count} steps the loss is {level:.4g}; {words} {baseline:.4g}",
        )
    return Harm(State.UNKNOWN, f"the loss is {level:.4g}; {words} {baseline:.4g}")


def _without_baseline(program: Program, series: Series) -> Harm:
    level, error = series.level()
    first = series.start()
    scale = max(abs(first), abs(level), 1e-12)
    if level - 3 * error > HUGE * max(abs(first), 1e-3):
        return Harm(State.HARMED, f"the loss rose from {first:.4g} to {level:.4g}")
    if series.risen():
        state = State.HARMED if _has_criterion(program) else State.UNKNOWN
        return Harm(state, f"the loss rose from {first:.4g} to {level:.4g}")
    if level + CLEAR * error < first - FALL * scale:
        return Harm(State.LEARNING, f"the loss fell from {first:.4g} to {level:.4g}")
    return Harm(State.UNKNOWN, NO_CRITERION)
