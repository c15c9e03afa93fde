"""Which steps are probed: dense at the start, then every k-th, and a few after an alarm."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections import deque

PROBE_EVERY = 20  # a probe costs about one step more: 5 % of the time
DENSE_STEPS = 21  # steps 0..20: faults of structure, scale and rate show here
DENSE_SECONDS = 5.0  # what the dense start may cost, without the first probe: that builds it
AFTER_ALARM = 3  # what happens next tells a blow-up from a blip
SHARE = 0.1  # of the training's own time that probing may take
FARTHEST = 10  # times `every`: however dear a probe is, some are needed to see a trend
LAST_COSTS = 9  # an odd number of probes: the median of their costs
LAST_STEPS = 99  # and of plain steps: an evaluation between two of them does not count


@dataclasses.dataclass
class Schedule:
    """Decides, step by step, whether to take full statistics.

    Deterministic with `share=None`, and as long as `took` is not called. Else a dear probe is
    taken less often: at every multiple of `every` that keeps its cost within `share`.

    Args:
        every: Interval between probes after the dense start; 1 probes every step.
        dense: Number of steps at the start that are all probed.
        share: Of the time of plain steps that probing may cost; None: whatever it costs.

    Attributes:
        interval: Between probes, as the costs so far have it.
    """

    every: int = PROBE_EVERY
    dense: int = DENSE_STEPS
    share: float | None = SHARE
    _alarm_until: int = -1

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ValueError(
                f"probe_every must be 1 or more, got {self.every}: 1 probes every step."
            )
        self.interval = self.every
        self._planned = self.dense
        self._dense_cost = 0.0
        self._plain: deque[float] = deque(maxlen=LAST_STEPS)
        self._built = False
        self._costs: deque[float] = deque(maxlen=LAST_COSTS)

    def probe(self, step: int) -> bool:
        """Whether `step` (from 0) is to be probed."""
        return step < self.dense or step % self.interval == 0 or step <= self._alarm_until

    def took(self, step: int, *, probed: bool, seconds: float, cost: float) -> None:
        """Takes what a step took, where the adapter measures it.

        Args:
            step: From 0.
            probed: Whether it was probed.
            seconds: From its begin to that of the next one, without `cost`.
            cost: Seconds of it that went into watching.
        """
        if self.share is None:
            return
        if not probed:
            self._plain.append(seconds)
            return
        if not self._built:
            self._built = True
            return
        self._costs.append(cost)
        if step < self.dense:
            self._dense_cost += cost
            if self._dense_cost >= DENSE_SECONDS:
                self.dense = step + 1
        if self._plain:
            allowed = self.share * statistics.median(self._plain)
            times = statistics.median(self._costs) / max(allowed * self.every, 1e-12)
            self.interval = self.every * min(max(math.ceil(times), 1), FARTHEST)

    def alarm(self, step: int) -> None:
        """Something went wrong at `step`: look closely at the next ones."""
        self._alarm_until = max(self._alarm_until, step + AFTER_ALARM)

    def describe(self) -> dict[str, float]:
        """What is stored in the trace."""
        told: dict[str, float] = {"every": self.every, "dense": self._planned}
        return told if self.share is None else {**told, "share": self.share}
