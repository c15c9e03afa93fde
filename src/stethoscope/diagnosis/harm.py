"""Is it learning? One pure function of what was measured so far."""

from __future__ import annotations

import dataclasses
import enum
import math

from stethoscope.faults._measure import Measurements
from stethoscope.program import Program
from stethoscope.rules._baseline import Baseline, target_of, trivial_loss
from stethoscope.rules._course import least_steps
from stethoscope.rules._series import CLEAR, Series
from stethoscope.vocabulary import TargetKind

MARGIN = 0.02  # a smaller gap to the baseline is within its own error: it shows nothing
LEAST_BATCHES = 6  # three in the last half: less gives no usable error of a correlation
FAINT = 0.05  # a correlation that explains 1/400 of the targets: a dead network keeps as much
MOVED = 0.01  # of its spread: a weight that changed by less is what it was at the start
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
        criterion: Whether the loss must fall if the run learns, as far as is known.
    """

    state: State
    reason: str
    enough: bool = True
    criterion: bool = True

    def alike(self, other: Harm) -> bool:
        """Whether both say the same, whatever the figures."""
        return dataclasses.replace(other, reason=self.reason) == self


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
    if _below_zero(program, series):
        return Harm(State.HARMED, "a negative log-likelihood of classes is below 0, as none can be")
    if _grow(program, measured):  # what a return is worth is learned on the way
        harm = _without_baseline(series, falls=False)
        unsaid = Harm(State.UNKNOWN, NO_CRITERION, criterion=False)
        return harm if harm.state is State.HARMED else unsaid
    known = trivial_loss(program)
    falls = _has_criterion(program)
    harm = _without_baseline(series, falls) if known is None else _against(known, measured)
    if harm.state is State.HARMED and len(program.optimizers) > 1 and len(program.losses) > 1:
        return Harm(State.UNKNOWN, NO_CRITERION, criterion=False)  # they play against each other
    if not harm.criterion and falls:
        return Harm(State.UNKNOWN, "the loss did not clearly fall")
    return harm


def _has_criterion(program: Program) -> bool:
    """Whether the loss of a run that learns must fall: one known loss of targets that it takes."""
    if len(program.losses) != 1 or program.losses[0].name is None:
        return False
    loss = program.losses[0]
    target = target_of(program, loss)
    rewarded = target is not None and target.rows_sum_to_one is False
    return not (rewarded and loss.target_kind is TargetKind.DISTRIBUTION)


def _below_zero(program: Program, series: Series) -> bool:
    """Whether what is taken for log-probabilities of classes are none: those are at most 0."""
    if len(program.losses) != 1 or program.losses[0].weighted or program.losses[0].name != "nll":
        return False
    level, error = series.level()
    return level + 3 * error < 0


def _grow(program: Program, measured: Measurements) -> bool:
    """Whether real-valued targets grow as the run goes on: they are made from its predictions."""
    if any(loss.target_kind not in (TargetKind.REAL, None) for loss in program.losses):
        return False
    return any(series.risen(by=FAR - 1) for series in measured.targets.values())


def _against(known: Baseline, measured: Measurements) -> Harm:
    series, words = measured.loss, known.words
    level, error = series.level()
    told, slack = f"loss {level:.4g}; {words} {known.high:.4g}", MARGIN * abs(known.high)
    if level + 3 * error < known.low - MARGIN * abs(known.low):
        return Harm(State.LEARNING, told)
    if series.risen() or level - 3 * error > FAR * max(known.high, series.early[0]):
        return Harm(State.HARMED, f"the loss rose from {series.early[0]:.4g} to {level:.4g}")
    slope, clear = series.trend()
    falling = slope < 0 and clear < -CLEAR
    if falling and series.count < SURE:  # far targets are reached ever faster: give it time
        return Harm(State.UNKNOWN, f"the loss is {level:.4g} and still falling")
    patience = 1.0 if level > series.start() else SLOW  # worse than at the start: soon, or never
    if falling and level + slope * patience * series.count < known.high - slack:
        return Harm(State.UNKNOWN, f"the loss is {level:.4g} and still falling")
    # Not seen to fall is not seen to stay: the steepest fall that the noise allows decides, up to
    # `SURE` steps for a loss at the baseline, and longer for one that is still coming down to it.
    above = level > known.high + slack and level + 3 * error < series.early[0]
    horizon = max(SURE - series.count, series.count if above else 0)
    steepest = slope - 2 * abs(slope / clear) if clear else slope
    if level + steepest * horizon < known.high - slack:
        return Harm(State.UNKNOWN, f"after {series.count} steps the loss may still be falling")
    if level > known.high - slack:
        return _near(known, measured)
    agrees, _ = _agreement(measured)
    if agrees and level + 3 * error < known.high and math.isfinite(known.low):
        return Harm(State.LEARNING, told)
    return Harm(State.UNKNOWN, told)


def _near(known: Baseline, measured: Measurements) -> Harm:
    """A loss at that of a constant prediction, or above it.

    Targets that are mostly noise leave a run that learns there too. So the predictions are asked:
    those that go with the targets use the input. That they do not is believed where it would have
    been seen, and a loss without predictions where a gap of `MARGIN` would have been.
    """
    level, error = measured.loss.level()
    after = f"after {measured.loss.count} steps the loss is {level:.4g}"
    told = f"{after}; {known.words} {known.high:.4g}"
    if level - 3 * error > known.high * (1 + MARGIN):
        return Harm(State.HARMED, told)
    agrees, seen = _agreement(measured)
    if agrees:
        if level - 3 * error > known.high or not math.isfinite(known.low):
            return Harm(State.UNKNOWN, f"{told}, but the predictions go with the targets")
        return Harm(State.LEARNING, f"{told}, and the predictions go with the targets")
    if seen is None:
        seen = 2 * error < MARGIN * abs(known.high)
    if seen or level - 3 * error > known.high:
        return Harm(State.HARMED, told)
    return Harm(State.UNKNOWN, f"{told}, which is within the noise")


def _agreement(measured: Measurements) -> tuple[bool, bool | None]:
    """Whether predictions go with their targets, and whether it would have been seen.

    First weights may agree with the targets by luck: weights that did not move have not learned.
    The second answer is None where no predictions were seen.
    """
    series = measured.agreement
    level, error = series.level(0.5)
    if series.count < LEAST_BATCHES or not math.isfinite(error):
        return False, None
    if level > max(CLEAR * error, FAINT):
        return measured.moved(MOVED), True
    could = math.sqrt(MARGIN) if measured.loss.count >= SURE else FAINT  # it may yet come
    return False, level <= FAINT and 2 * error < could


def _without_baseline(series: Series, falls: bool) -> Harm:
    level, error = series.level()
    first = series.start()
    scale = max(abs(first), abs(level), 1e-12)
    if level - 3 * error > HUGE * max(abs(first), 1e-3):
        return Harm(State.HARMED, f"the loss rose from {first:.4g} to {level:.4g}")
    if series.risen():
        state = State.HARMED if falls else State.UNKNOWN
        return Harm(state, f"the loss rose from {first:.4g} to {level:.4g}")
    if level + CLEAR * error < first - FALL * scale:
        return Harm(State.LEARNING, f"the loss fell from {first:.4g} to {level:.4g}")
    return Harm(State.UNKNOWN, NO_CRITERION, criterion=False)
