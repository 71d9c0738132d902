"""The simulator's engine: many independent runs of one application, advanced in step.

Every run is in one of two phases: a *segment* (computation of one interval, then the blocked part of the checkpoint
that is due) or a *recovery*. One step takes every run to its next event, the end of the phase or the failure before
it, whichever is first; a step is one state transition of every run. All state is arrays over the runs, so that the
cost of a step hardly depends on their number.

What a run knows of its checkpoints is, per level, the newest complete one (``newest``, counted in segments since the
start, -1: none) and the flush under way. A failure that demands level k destroys the checkpoints below k, stops the
flushes whose source lay below k, and rolls back to the newest checkpoint that is left; the cheapest level that holds
it serves the restart, after which it lies on the levels below again. Invariants: no checkpoint is newer than the run's
position; the highest level always has one.

The process is the one that system.py describes; nothing here is derived from the Markov model of it ([Sato 3.4,
appendix A]), so that the two can be held against each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kedge.plan.failures import FailureSource
from kedge.plan.placement import Damage, Placement
from kedge.plan.timetable import Timetable
from kedge.plan.spares import SparePool

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

NONE = -1


@dataclass(frozen=True)
class Rules:
    """How a run behaves beyond its timetable; see Scenario, which checks and explains the values."""

    flush_after_failure: str
    second_failure: str
    relaunch_seconds: float
    time_variation: float
    spares: int | None
    repair_seconds: float
    placement: Placement | None


class Engine:
    """``runs`` independent runs from time 0, all with a checkpoint of the highest level at position 0.

    ``final_work_seconds``: None for an endless run; else the computation after which a run is finished.
    Not safe for several threads; deterministic for a given ``rng``.
    """

    def __init__(
        self,
        timetable: Timetable,
        rules: Rules,
        failures: FailureSource,
        rng: np.random.Generator,
        runs: int,
        final_work_seconds: float | None = None,
    ) -> None:
        self._timetable = timetable
        self._rules = rules
        self._rng = rng
        self._failures = failures.open(rng, runs)
        self._damage = Damage(rules.placement, runs) if rules.placement else None
        self._spares = None if rules.spares is None else SparePool(runs, rules.spares, rules.repair_seconds)
        levels = timetable.overhead_seconds.size
        self._level_index = np.arange(levels)
        # Multiplier exp(sigma z - sigma^2/2) has mean 1 and the wanted coefficient of variation.
        self._sigma = float(np.sqrt(np.log1p(rules.time_variation**2)))
        self._final_segment = np.iinfo(np.int64).max
        self._final_segment_seconds = 0.0
        if final_work_seconds is not None:
            self._final_segment = max(int(np.ceil(final_work_seconds / timetable.interval_seconds - 1e-9)), 1)
            self._final_segment_seconds = final_work_seconds - (self._final_segment - 1) * timetable.interval_seconds

        self.interval_seconds = timetable.interval_seconds
        self.seconds: FloatArray = np.zeros(runs)
        self.position: IntArray = np.zeros(runs, dtype=np.int64)
        self.finished: BoolArray = np.zeros(runs, dtype=np.bool_)
        self._recovering: BoolArray = np.zeros(runs, dtype=np.bool_)
        self._recovery_end: FloatArray = np.zeros(runs)
        self._recovery_level: IntArray = np.zeros(runs, dtype=np.int64)
        self._newest: IntArray = np.full((runs, levels), NONE, dtype=np.int64)
        self._newest[:, levels - 1] = 0
        self._flush_position: IntArray = np.full((runs, levels), NONE, dtype=np.int64)
        self._flush_end: FloatArray = np.full((runs, levels), np.inf)
        self._flush_source: IntArray = np.full((runs, levels), NONE, dtype=np.int64)

        self.transitions = 0
        self.compute_seconds: FloatArray = np.zeros(runs)
        self.blocked_seconds: FloatArray = np.zeros(runs)
        self.recovery_seconds: FloatArray = np.zeros(runs)
        self.failures_by_level: IntArray = np.zeros(levels, dtype=np.int64)
        self.restarts_by_level: IntArray = np.zeros(levels, dtype=np.int64)
        self.first_demand_seconds: FloatArray = np.full((runs, levels), np.inf)

    def step(self) -> None:
        """Take every unfinished run to its next event."""
        timetable = self._timetable
        following = self.position + 1
        level = timetable.level_at[following % timetable.level_at.size]
        final = following == self._final_segment
        compute, blocked = self._plan_segment(level, final)
        end = np.where(self._recovering, self._recovery_end, self.seconds + compute + blocked)
        struck = (self._failures.next_seconds < end) & ~self.finished
        event = np.where(self.finished, self.seconds, np.minimum(end, self._failures.next_seconds))
        self.transitions += int(event.size - np.count_nonzero(self.finished))
        self._account(event - self.seconds, compute)
        self._complete_flushes(event)
        self.seconds = event
        ended = ~struck & ~self.finished
        segment_ended = ended & ~self._recovering
        self._recovered(np.nonzero(ended & self._recovering)[0])
        self.position[segment_ended] += 1
        self.finished |= segment_ended & final
        self._checkpoint(segment_ended & ~final, level)
        (rows,) = np.nonzero(struck)
        if rows.size:
            self._fail(rows)

    def _variation(self, count: int) -> FloatArray | float:
        """Random factors of mean 1 for a time that varies; 1 where times do not vary."""
        if self._sigma == 0:
            return 1.0
        return self._rng.lognormal(-(self._sigma**2) / 2, self._sigma, count)

    def _plan_segment(self, level: IntArray, final: BoolArray) -> tuple[FloatArray, FloatArray]:
        """The segment that each run would do from now if nothing failed.

        Returns its computation and its blocked time in seconds. While any flush is under way, computing takes
        (1 + alpha) times as long. A checkpoint whose predecessor on the same level is still being flushed waits for
        it, blocked: a flush under way is finished, never superseded.
        """
        timetable = self._timetable
        work = np.where(final, self._final_segment_seconds, timetable.interval_seconds)
        flushing = self._flush_position > NONE
        left = np.where(flushing, self._flush_end - self.seconds[:, None], 0.0)
        overlap = np.minimum(left.max(axis=1), work * (1 + timetable.alpha))
        compute = work + overlap * (timetable.alpha / (1 + timetable.alpha))
        wait = np.where(self._due(level) & flushing, left - compute[:, None], 0.0).max(axis=1, initial=0.0)
        overhead = timetable.overhead_seconds[level] * self._variation(level.size)
        return compute, np.where(final, 0.0, wait + overhead)

    def _due(self, level: IntArray) -> BoolArray:
        """Which levels a checkpoint of ``level`` is flushed to in the background; shape (runs, levels)."""
        base = self._timetable.base_level[level]
        return (self._level_index > base[:, None]) & (self._level_index <= level[:, None])

    def _account(self, elapsed: FloatArray, compute: FloatArray) -> None:
        in_segment = np.where(self._recovering, 0.0, elapsed)
        computed = np.minimum(in_segment, compute)
        self.recovery_seconds += elapsed - in_segment
        self.compute_seconds += computed
        self.blocked_seconds += in_segment - computed

    def _complete_flushes(self, event: FloatArray) -> None:
        """Flushes that end by ``event`` are complete, in the order of their levels."""
        for level in self._timetable.flushed_levels:
            self._complete((self._flush_position[:, level] > NONE) & (self._flush_end[:, level] <= event), level)

    def _complete(self, done: BoolArray, level: int) -> None:
        """The flushes of ``level`` in the runs of ``done`` are complete: they protect, also as a source for others."""
        if not done.any():
            return
        position = self._flush_position[done, level]
        self._newest[done, level] = position
        for above in self._timetable.flushed_levels:
            if above > level:
                same = self._flush_position[done, above] == position
                self._flush_source[done, above] = np.where(same, level, self._flush_source[done, above])
        self._flush_position[done, level] = NONE

    def _checkpoint(self, taken: BoolArray, level: IntArray) -> None:
        """The blocked part of a checkpoint of ``level`` has ended in the runs of ``taken``."""
        timetable = self._timetable
        base = timetable.base_level[level]
        (rows,) = np.nonzero(taken & (base > NONE))
        self._newest[rows, base[rows]] = self.position[rows]
        for flushed in timetable.flushed_levels:
            starts = taken & (level >= flushed) & (base < flushed)
            self._flush_position[starts, flushed] = self.position[starts]
            self._flush_source[starts, flushed] = base[starts]
            background = timetable.background_seconds[flushed] * self._variation(level.size)
            self._flush_end[:, flushed] = np.where(starts, self.seconds + background, self._flush_end[:, flushed])

    def _recovered(self, rows: IntArray) -> None:
        """The recoveries of the runs ``rows`` have ended: nothing is broken, and what was read lies there again.

        That is, on the levels below on which its checkpoint left copies; a synchronous one left none ([Sato 3.4.2]).
        """
        if rows.size == 0:
            return
        if self._damage is not None:
            self._damage.rebuilt(rows)
        self._recovering[rows] = False
        position = self.position[rows]
        lowest = self._timetable.base_level[self._timetable.level_at[position % self._timetable.period]]
        again = (self._level_index >= lowest[:, None]) & (self._level_index < self._recovery_level[rows, None])
        self._newest[rows] = np.where(again, position[:, None], self._newest[rows])

    def _fail(self, rows: IntArray) -> None:
        """The next failure of each run in ``rows`` happens now."""
        strike = self._failures.take(rows)
        demand = self._demanded(rows, strike.levels, strike.rows, strike.nodes)
        levels = self._level_index.size
        self.failures_by_level += np.bincount(demand, minlength=levels)
        first = self.first_demand_seconds[rows]
        reached = self._level_index <= demand[:, None]
        self.first_demand_seconds[rows] = np.where(reached, np.minimum(first, self.seconds[rows, None]), first)

        newest = self._newest[rows]
        newest[self._level_index < demand[:, None]] = NONE
        self._newest[rows] = newest
        restart_level = newest.argmax(axis=1)
        self.position[rows] = newest[np.arange(rows.size), restart_level]
        self._recovery_level[rows] = restart_level
        self.restarts_by_level += np.bincount(restart_level, minlength=levels)
        restart = self._timetable.restart_seconds[restart_level] * self._variation(rows.size)
        ready = self.seconds[rows]
        if self._spares is not None:
            ready = self._spares.replace(rows, ready, strike.node_counts)
        self._recovery_end[rows] = ready + self._rules.relaunch_seconds + restart
        self._recovering[rows] = True
        self._interrupt_flushes(rows, demand)

    def _demanded(self, rows: IntArray, levels: IntArray, struck: IntArray, nodes: IntArray) -> IntArray:
        """The level that each failure demands: by decree, by what lies broken, by the recovery that it hit.

        What an earlier failure demanded needs no memory: the copies below are gone until the recovery ends.
        """
        if self._damage is not None:
            self._damage.strike(rows[struck], nodes)
            return np.maximum(levels, self._damage.lowest_surviving_level(rows))
        if self._rules.second_failure == "retry":
            return levels
        # [Sato 3.4.2]: a failure of the level being read, or of one above, makes that level useless.
        reading = self._recovery_level[rows]
        worse = self._recovering[rows] & (levels >= reading)
        return np.where(worse, np.minimum(np.maximum(levels, reading + 1), self._level_index.size - 1), levels)

    def _interrupt_flushes(self, rows: IntArray, demand: IntArray) -> None:
        """Flushes whose source is lost are given up; the others go on, or start again after the recovery."""
        for level in self._timetable.flushed_levels:
            active = self._flush_position[rows, level] > NONE
            lost = active & (self._flush_source[rows, level] < demand)
            self._flush_position[rows[lost], level] = NONE
            again = rows[active & ~lost]
            background = self._timetable.background_seconds[level]
            if self._rules.flush_after_failure == "restart":
                self._flush_end[again, level] = self._recovery_end[again] + background * self._variation(again.size)
            elif self._rules.flush_after_failure == "rewind":
                offset = self.position[again] - self._flush_position[again, level]
                left = background - self._timetable.flush_progress_seconds[level][offset]
                self._flush_end[again, level] = self._recovery_end[again] + np.maximum(left, 0.0)
