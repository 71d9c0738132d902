"""The multilevel asynchronous model as an absorbing Markov chain, solved as one sparse linear system.

States are written out one by one, without merging: each phase of each segment, and each restart. A segment
state is (position, ready): `position` counts segments from the start of the period, negative in the period
before, which a failure can force to be made again; `ready` is the set of levels whose newest copy is complete.
Expected time to absorption h solves (I - P) h = t. Slow and plain on purpose: merge.py must agree with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix, identity  # type: ignore[import-untyped]
from scipy.sparse.linalg import spsolve  # type: ignore[import-untyped]

from kedge.plan.phases import expected_seconds, level_fail_probability, pass_probability
from kedge.plan.schedule import Rules, Schedule
from kedge.plan.system import System

Ready = frozenset[int]
END = ("end",)
State = tuple[object, ...]


@dataclass(frozen=True)
class Step:
    """What a state does: how long it lasts, and the next state after passing or after a failure of each level."""

    duration: float
    passed: State
    failed: dict[int, State]


class Chain:
    """The explicit chain of one period of the highest level, W(k)."""

    def __init__(self, system: System, schedule: Schedule, rules: Rules) -> None:
        self.system = system
        self.schedule = schedule
        self.rules = rules
        self.top = len(system.levels)
        self.everything: Ready = frozenset(range(1, self.top + 1))

    def solve(self) -> float:
        """Expected seconds from just after a checkpoint of the highest level to just after the next."""
        start = self.segment_start(0, frozenset(level for level in self.everything if self._age_needed(0, level) == 0))
        numbers = {start: 0}
        reached = [start]
        steps: list[Step] = []
        for state in reached:  # grows while states are found
            step = self.step(state)
            steps.append(step)
            for target in (step.passed, *step.failed.values()):
                if target != END and target not in numbers:
                    numbers[target] = len(reached)
                    reached.append(target)
        return self._expected(steps, numbers)[0]

    def _expected(self, steps: list[Step], numbers: dict[State, int]) -> list[float]:
        """Expected seconds to the end of the period from every state."""
        rates = [level.failure_rate_per_second for level in self.system.levels]
        total = self.system.total_rate
        rows: list[int] = []
        columns: list[int] = []
        values: list[float] = []
        for row, step in enumerate(steps):
            ways = [(step.passed, pass_probability(total, step.duration))]
            ways += [(to, level_fail_probability(rates, level, step.duration)) for level, to in step.failed.items()]
            for target, probability in ways:
                if target != END:
                    rows.append(row)
                    columns.append(numbers[target])
                    values.append(probability)
        size = len(steps)
        transitions = csr_matrix((values, (rows, columns)), shape=(size, size))
        spent = np.array([expected_seconds(total, step.duration) for step in steps])
        solution = np.atleast_1d(spsolve((identity(size) - transitions).tocsc(), spent))
        return [float(value) for value in solution]

    def _checkpoint_before(self, position: int, level: int) -> int:
        """The position of the newest checkpoint of `level` or above, at or before `position`."""
        length = self.schedule.lengths[level - 1]
        return position // length * length

    def _level_at(self, position: int) -> int:
        return self.schedule.level_after(position % self.schedule.segments)

    def _age_needed(self, position: int, level: int) -> float:
        """Seconds after the newest checkpoint of `level` or above until it answers a failure of the level."""
        return self.rules.ready_after(self._level_at(self._checkpoint_before(position, level)), level)

    def _age(self, position: int, level: int) -> float:
        """Wall time from that checkpoint to `position` with a copy in the background all the way."""
        begin = self._checkpoint_before(position, level)
        slowed = (1.0 + self.system.alpha) * self.schedule.interval_seconds
        return sum(
            slowed + self.system.levels[self._level_at(passed) - 1].overhead_seconds
            for passed in range(begin + 1, position + 1)
        )

    def _pending(self, position: int, ready: Ready) -> dict[int, float]:
        """Seconds from the start of the segment at `position` until each level that is not ready will be."""
        return {
            level: self._age_needed(position, level) - self._age(position, level) for level in self.everything - ready
        }

    def segment_start(self, position: int, ready: Ready) -> State:
        """The state at the start of a segment, or the end of the period."""
        return END if position == self.schedule.segments else ("segment", position, ready, 0)

    def phases(self, position: int, ready: Ready) -> Iterator[tuple[float, Ready]]:
        """(duration, ready during it) of the phases of a segment, cut where a copy becomes complete."""
        pending = self._pending(position, ready)
        events = sorted({round(seconds, 9) for seconds in pending.values() if seconds > 1e-9})
        now = 0.0
        work = self.schedule.interval_seconds
        blocked = self.system.levels[self._level_at(position + 1) - 1].overhead_seconds
        while work > 1e-12 * self.schedule.interval_seconds or blocked > 0.0:
            done = ready | {level for level, seconds in pending.items() if seconds <= now + 1e-9}
            slow = 1.0 if done == self.everything else 1.0 + self.system.alpha
            until = next((event - now for event in events if event > now + 1e-9), float("inf"))
            computing = work > 1e-12 * self.schedule.interval_seconds
            duration = min(until, slow * work if computing else blocked)
            if computing:
                work -= duration / slow
            else:
                blocked -= duration
            now += duration
            yield duration, done

    def step(self, state: State) -> Step:
        """What `state` does next."""
        if state[0] == "restart":
            return self._restart_step(state)
        _, position, ready, index = state
        assert isinstance(position, int) and isinstance(ready, frozenset) and isinstance(index, int)
        phases = list(self.phases(position, ready))
        duration, done = phases[index]
        if index + 1 < len(phases):
            passed: State = ("segment", position, ready, index + 1)
        else:
            passed = self._next_segment(position, ready, sum(length for length, _ in phases))
        failed = {level: self._failure(position, done, level) for level in self._failing_levels()}
        return Step(duration, passed, failed)

    def _failing_levels(self) -> list[int]:
        return [n for n, level in enumerate(self.system.levels, start=1) if level.failure_rate_per_second > 0.0]

    def _next_segment(self, position: int, ready: Ready, elapsed: float) -> State:
        """The segment after the checkpoint at `position` + 1: fresh up to its level, older copies progress."""
        reached = self._level_at(position + 1)
        pending = self._pending(position, ready)
        older = {level for level in self.everything if level > reached and pending.get(level, 0.0) <= elapsed + 1e-9}
        fresh = {level for level in range(1, reached + 1) if self.rules.ready_after(reached, level) == 0.0}
        return self.segment_start(position + 1, frozenset(older | fresh))

    def _failure(self, position: int, ready: Ready, level: int) -> State:
        """Where a failure of `level` leads when it strikes in the segment at `position` with `ready` complete."""
        newest = self._checkpoint_before(position, level)
        known = ready
        if level not in ready:
            known = ready | set(range(1, self._level_at(newest) + 1))
            newest = self._checkpoint_before(newest - 1, level)
        restored = self.rules.restore_level(self._level_at(newest), level)
        return ("restart", newest, frozenset(known | set(range(1, restored + 1))), restored)

    def _restart_step(self, state: State) -> Step:
        """Restart from a copy of level l at a position: lower failures repeat it, the others go further up."""
        _, position, ready, level = state
        assert isinstance(position, int) and isinstance(ready, frozenset) and isinstance(level, int)
        failed: dict[int, State] = {}
        for failure in self._failing_levels():
            if failure < level or level == self.top:
                failed[failure] = state
            else:
                failed[failure] = self._failure(position, ready, max(failure, level + 1))
        duration = self.system.levels[level - 1].restart_seconds
        return Step(duration, self.segment_start(position, ready), failed)
