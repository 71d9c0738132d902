"""A schedule laid out as the arrays that the simulator walks along: what is due at which position.

Levels are indices from 0, the fastest, positions are segments since the start. See system.py for the process and
schedule.py for interval, counts and feasibility; nothing else here is shared with the models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kedge.plan.errors import PlanError
from kedge.plan.schedule import Schedule, check_feasible
from kedge.plan.system import System

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

PERIOD_MAX = 100_000


@dataclass(frozen=True)
class Timetable:
    """Arrays have shape (levels,) unless said; times are seconds.

    ``level_at``: shape (period,), level of the checkpoint that ends the segment at position p, for p modulo the
    period. ``base_level``: highest synchronous level at or below each (-1: none); an asynchronous checkpoint is
    protected there as soon as its blocked part ends. ``flushed_levels``: the asynchronous ones.
    ``flush_progress_seconds``: per level, how much of its background time has passed when the k-th segment after
    the checkpoint has ended without failure; empty for a synchronous level.
    """

    interval_seconds: float
    alpha: float
    level_at: IntArray
    overhead_seconds: FloatArray
    background_seconds: FloatArray
    restart_seconds: FloatArray
    base_level: IntArray
    flushed_levels: tuple[int, ...]
    flush_progress_seconds: tuple[FloatArray, ...]

    @property
    def period(self) -> int:
        """Segments from one checkpoint of the highest level to the next."""
        return int(self.level_at.size)


def make_timetable(system: System, interval_seconds: float, counts: Sequence[int]) -> Timetable:
    """Lay out the interval and ``counts`` (v_1 ... v_(N-1)) over the levels of ``system``.

    Raises PlanError for values out of range, InfeasibleError where a background copy would not be complete, even
    without failures, when the next one of its level begins.
    """
    schedule = Schedule(float(interval_seconds), tuple(counts))
    check_feasible(system, schedule)
    if schedule.segments > PERIOD_MAX:
        raise PlanError("counts", list(counts), f"counts with at most {PERIOD_MAX} checkpoints in one period")
    levels = system.levels
    level_at = np.zeros(schedule.segments, dtype=np.int64)
    for index, stride in enumerate(schedule.lengths):
        level_at[::stride] = index
    overhead = np.array([level.overhead_seconds for level in levels])
    background = np.array([level.background_seconds for level in levels])
    flushed = tuple(index for index, level in enumerate(levels) if level.asynchronous)
    progress = [np.empty(0)] * len(levels)
    for index in flushed:
        progress[index] = _segment_ends(
            system.alpha, schedule.interval_seconds, background[index], overhead, level_at, schedule.lengths[index]
        )
    return Timetable(
        interval_seconds=schedule.interval_seconds,
        alpha=system.alpha,
        level_at=level_at,
        overhead_seconds=overhead,
        background_seconds=background,
        restart_seconds=np.array([level.restart_seconds for level in levels]),
        base_level=np.array(_base_levels(system), dtype=np.int64),
        flushed_levels=flushed,
        flush_progress_seconds=tuple(progress),
    )


def _base_levels(system: System) -> list[int]:
    bases: list[int] = []
    for index, level in enumerate(system.levels):
        bases.append(index if not level.asynchronous else (bases[-1] if bases else -1))
    return bases


def _segment_ends(
    alpha: float, interval: float, background: float, overhead: FloatArray, level_at: IntArray, stride: int
) -> FloatArray:
    """Seconds from the end of a checkpoint to the end of the k-th segment after it (k from 0 to ``stride``).

    Computing is slowed down until ``background`` seconds have passed; the pattern of lower checkpoints between two
    of one level is the same everywhere, but the one at the end may be of a higher level.
    """
    ends = np.zeros(stride + 1)
    for k in range(1, stride + 1):
        slowed = min(max(background - ends[k - 1], 0.0), interval * (1 + alpha))
        compute = interval + slowed * alpha / (1 + alpha)
        ends[k] = ends[k - 1] + compute + overhead[level_at[k % level_at.size]]
    return ends
