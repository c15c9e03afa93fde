"""Which steps are probed: dense at the start, then every k-th, and a few after an alarm."""

from __future__ import annotations

import dataclasses

DENSE_STEPS = 21  # steps 0..20: faults of structure, scale and rate show here
AFTER_ALARM = 3  # what happens next tells a blow-up from a blip


@dataclasses.dataclass
class Schedule:
    """Decides, step by step, whether to take full statistics. Deterministic.

    Args:
        every: Interval between probes after the dense start; 1 probes every step.
        dense: Number of steps at the start that are all probed.
    """

    every: int = 20
    dense: int = DENSE_STEPS
    _alarm_until: int = -1

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ValueError(
                f"probe_every must be 1 or more, got {self.every}: 1 probes every step."
            )

    def probe(self, step: int) -> bool:
        """Whether `step` (from 0) is to be probed."""
        return step < self.dense or step % self.every == 0 or step <= self._alarm_until

    def alarm(self, step: int) -> None:
        """Something went wrong at `step`: look closely at the next ones."""
        self._alarm_until = max(self._alarm_until, step + AFTER_ALARM)

    def describe(self) -> dict[str, int]:
        """What is stored in the trace."""
        return {"every": self.every, "dense": self.dense}
