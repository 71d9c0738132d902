"""A schedule: the interval T and the counts V, and what follows from them for a system.

Levels are numbered from 1. A k-block is the work from one checkpoint of level k or above to the next; it has
(v_1 + 1) ... (v_(k-1) + 1) segments. Copies and readiness follow the rules at the top of system.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from kedge.plan.checks import check_number
from kedge.plan.errors import InfeasibleError, PlanError
from kedge.plan.system import System

SEGMENT_LIMIT = 1_000_000


@dataclass(frozen=True)
class Schedule:
    """``interval_seconds`` (T, computation between checkpoints) and ``counts`` (v_1 ... v_(N-1))."""

    interval_seconds: float
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        check_number(self.interval_seconds, "interval_seconds", low_open=True)
        for index, count in enumerate(self.counts):
            if isinstance(count, bool) or not isinstance(count, int) or count < 0:
                raise PlanError(f"counts[{index}]", count, "a whole number of at least 0")
        if self.segments > SEGMENT_LIMIT:
            raise PlanError("counts", list(self.counts), f"at most {SEGMENT_LIMIT} checkpoints in one period")

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Segments in a k-block, for k = 1 ... N."""
        lengths = [1]
        for count in self.counts:
            lengths.append(lengths[-1] * (count + 1))
        return tuple(lengths)

    @property
    def segments(self) -> int:
        """n, segments in a period of the highest level."""
        return self.lengths[-1]

    def level_after(self, position: int) -> int:
        """The level of the checkpoint after `position` segments of a period; N at 0 and at n."""
        for level in range(len(self.lengths), 0, -1):
            if position % self.lengths[level - 1] == 0:
                return level
        raise AssertionError("level 1 divides every position")


class Rules:
    """What a checkpoint of each level leaves behind, and when: shared by both solutions of the model.

    ``copies[c - 1]``: levels of the copies that a checkpoint of level c leaves, ascending. ``background[l - 1]``:
    seconds from the end of the blocked part until the copy of level l is complete.
    """

    def __init__(self, system: System, background: Sequence[float]) -> None:
        self.level_count = len(system.levels)
        self.background = tuple(background)
        self.copies: list[tuple[int, ...]] = []
        for number, level in enumerate(system.levels, start=1):
            below = self.copies[-1] if level.asynchronous and number > 1 else ()
            self.copies.append((*below, number))

    def restore_level(self, checkpoint_level: int, failure_level: int) -> int:
        """The lowest copy of a checkpoint that answers a failure of the level."""
        return next(copy for copy in self.copies[checkpoint_level - 1] if copy >= failure_level)

    def ready_after(self, checkpoint_level: int, failure_level: int) -> float:
        """Seconds after the checkpoint until it answers a failure of the level; 0 where at once."""
        return self.background[self.restore_level(checkpoint_level, failure_level) - 1]


def in_flight_seconds(system: System, schedule: Schedule, block_level: int) -> float:
    """Wall time of a k-block without failures, slowed down throughout, before its last checkpoint begins."""
    slowed = (1.0 + system.alpha) * schedule.interval_seconds
    seconds = schedule.lengths[block_level - 1] * slowed
    for level in range(1, block_level):
        inner = schedule.lengths[block_level - 1] // schedule.lengths[level - 1]
        seconds += (inner - inner // (schedule.counts[level - 1] + 1)) * system.levels[level - 1].overhead_seconds
    return seconds


def check_feasible(system: System, schedule: Schedule) -> None:
    """Raise unless every asynchronous copy is complete before the next checkpoint of its level begins.

    PlanError where counts and levels do not match; InfeasibleError names the level and the shortest period.
    """
    level_count = len(system.levels)
    if len(schedule.counts) != level_count - 1:
        raise PlanError("counts", list(schedule.counts), f"{level_count - 1} counts for {level_count} levels")
    rules = Rules(system, [level.background_seconds for level in system.levels])
    used = [number for number in range(1, level_count) if schedule.counts[number - 1] > 0] + [level_count]
    for number, level in enumerate(system.levels, start=1):
        if not any(number in rules.copies[checkpoint - 1] for checkpoint in used):
            continue
        period = in_flight_seconds(system, schedule, number)
        if level.background_seconds > period:
            raise InfeasibleError(
                f"level[{number - 1}].latency_seconds",
                level.latency_seconds,
                f"at most {period + level.overhead_seconds:g} with an interval of "
                f"{schedule.interval_seconds:g} s and counts {list(schedule.counts)}: the copy of level "
                f"{level.name!r} must be complete before the next one begins (longer interval or higher counts)",
            )


def whole_segment_background(system: System, schedule: Schedule) -> list[float]:
    """Background times rounded up to the end of a segment, as the thesis's model has them ([Sato] 3.4.3)."""
    rounded = []
    slowed = (1.0 + system.alpha) * schedule.interval_seconds
    for number, level in enumerate(system.levels, start=1):
        if level.background_seconds == 0.0:
            rounded.append(0.0)
            continue
        elapsed = 0.0
        for position in range(1, schedule.lengths[number - 1]):
            if elapsed >= level.background_seconds:
                break
            reached = min(schedule.level_after(position), number)
            elapsed += slowed + system.levels[reached - 1].overhead_seconds
        if elapsed < level.background_seconds:
            elapsed = in_flight_seconds(system, schedule, number)
        rounded.append(elapsed)
    return rounded
