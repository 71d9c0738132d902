"""The multilevel asynchronous model by merging states, level by level ([Sato] 3.4, appendix A, generalised).

A Row is what is left of a part of the Markov chain once its inside is merged: the probability of passing
through, those of leaving by a failure that must be answered further out, and the expected time inside. Rows
in sequence multiply, a run of equal rows is a geometric sum, and a failure answered at the start of the part
is a loop, P = p / (1 - p_loop). Merging goes from segments outward: k-blocks are made of (k-1)-blocks, and
the N-block is W(k), which no failure leaves.

Exits carry (failure level, mask of the levels whose newest copy was complete when it struck). Bit i - 1 of a
mask stands for level i. A failure that finds its level's copy still in the background goes back one block
more; that block is then made again, with everything up to the level of the checkpoint complete.
`remaining[i - 1]` is the time until the newest checkpoint of level i or above answers a failure of level i.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from kedge.plan.phases import expected_seconds, fail_probability, pass_probability
from kedge.plan.schedule import Rules, Schedule
from kedge.plan.system import System

COMPUTE, CHECKPOINT, RESTART, BACKGROUND = range(4)
Times = tuple[float, float, float, float]
Remaining = tuple[float, ...]
Exits = dict[tuple[int, int], float]

NO_TIME: Times = (0.0, 0.0, 0.0, 0.0)
COMPLETE_WITHIN = 1e-9  # seconds; below this a copy counts as complete, so that rounding makes no extra phase


@dataclass
class Row:
    """A merged part: ``passing`` probability, ``exits`` with theirs, expected ``times`` by state, seconds."""

    passing: float = 1.0
    exits: Exits = field(default_factory=dict)
    times: Times = NO_TIME

    def leave(self, key: tuple[int, int], probability: float) -> None:
        """Add to an exit."""
        if probability > 0.0:
            self.exits[key] = self.exits.get(key, 0.0) + probability

    def then(self, following: Row) -> None:
        """Append a part that begins when this one is passed."""
        for key, probability in following.exits.items():
            self.leave(key, self.passing * probability)
        self.times = add_times(self.times, following.times, self.passing)
        self.passing *= following.passing


def add_times(first: Times, second: Times, weight: float) -> Times:
    """first + weight * second."""
    return (
        first[0] + weight * second[0],
        first[1] + weight * second[1],
        first[2] + weight * second[2],
        first[3] + weight * second[3],
    )


def repeated(row: Row, times: int) -> Row:
    """`times` equal rows in sequence, by the geometric sum; accurate where leaving is improbable."""
    if times == 1:
        return row
    leaving = math.fsum(row.exits.values())
    if leaving <= 0.0:
        return Row(1.0, {}, add_times(NO_TIME, row.times, float(times)))
    if leaving >= 1.0 or row.passing <= 0.0:
        passing, weight = 0.0, 1.0
    else:
        exponent = times * math.log1p(-leaving)
        passing, weight = math.exp(exponent), -math.expm1(exponent) / leaving
    return Row(
        passing,
        {key: probability * weight for key, probability in row.exits.items()},
        add_times(NO_TIME, row.times, weight),
    )


class Merger:
    """Merges the model of one system and schedule; `period` gives W(k)."""

    def __init__(self, system: System, schedule: Schedule, rules: Rules) -> None:
        self.rates = tuple(level.failure_rate_per_second for level in system.levels)
        self.total_rate = system.total_rate
        # (level, its share of all failures, the bits of a mask that matter for it), where there are failures.
        self.shares = tuple(
            (number, rate / self.total_rate, -1 << (number - 1)) for number, rate in enumerate(self.rates, start=1) if rate > 0.0
        )
        self.overheads = tuple(level.overhead_seconds for level in system.levels)
        self.restarts = tuple(level.restart_seconds for level in system.levels)
        self.level_count = len(system.levels)
        self.alpha = system.alpha
        self.schedule = schedule
        self.rules = rules
        self.blocks: dict[tuple[int, int, int, int, Remaining], Row] = {}
        self.walls: dict[tuple[int, int], float] = {}
        self.restart_rows: dict[tuple[int, int], Row] = {}
        self.fresh_after = tuple(
            tuple(rules.ready_after(number, level) for level in range(1, number + 1))
            for number in range(1, self.level_count + 1)
        )

    def period(self) -> Row:
        """W(k): one period of the highest level, from just after its checkpoint to just after the next."""
        top = self.level_count
        return self.block(top, top, top, top, self.fresh(top))

    def fresh(self, checkpoint_level: int) -> Remaining:
        """`remaining` right after a checkpoint, for the levels up to its own."""
        return self.fresh_after[checkpoint_level - 1]

    def segment(self, end_level: int, remaining: Remaining) -> Row:
        """One segment and the checkpoint of `end_level` that ends it.

        Cut into phases wherever a copy becomes complete; computing is slowed while one is in the background.
        """
        row = Row()
        left = list(remaining)
        work = self.schedule.interval_seconds
        checkpoint = self.overheads[end_level - 1]
        while work > 0.0:
            pending = next_completion(left)
            slow = 1.0 + self.alpha if pending is not None else 1.0
            if pending is not None and pending < slow * work * (1.0 - 1e-15):
                duration, work = pending, work - pending / slow
            else:
                duration, work = slow * work, 0.0
            self._phase(row, left, duration, COMPUTE)
        while checkpoint > 0.0:
            pending = next_completion(left)
            duration = checkpoint if pending is None else min(pending, checkpoint)
            checkpoint -= duration
            self._phase(row, left, duration, CHECKPOINT)
        return row

    def _phase(self, row: Row, left: list[float], duration: float, state: int) -> None:
        """Append a phase to `row` and let the copies in `left` progress by its duration."""
        mask = ready_mask(left)
        failing = row.passing * fail_probability(self.total_rate, duration)
        for level, share, matters in self.shares:
            row.leave((level, mask & matters), share * failing)
        times = list(row.times)
        spent = row.passing * expected_seconds(self.total_rate, duration)
        times[state] += spent
        if mask != (1 << len(left)) - 1:
            times[BACKGROUND] += spent
        row.times = (times[0], times[1], times[2], times[3])
        row.passing *= pass_probability(self.total_rate, duration)
        for index, value in enumerate(left):
            left[index] = value - duration if value - duration > COMPLETE_WITHIN else 0.0

    def wall(self, block_level: int, end_level: int) -> float:
        """Wall time of a block without failures, slowed down throughout, with its last checkpoint."""
        known = self.walls.get((block_level, end_level))
        if known is None:
            known = self.walls[block_level, end_level] = self._wall(block_level, end_level)
        return known

    def _wall(self, block_level: int, end_level: int) -> float:
        lengths = self.schedule.lengths
        seconds = lengths[block_level - 1] * (1.0 + self.alpha) * self.schedule.interval_seconds
        for level in range(1, block_level):
            inner = lengths[block_level - 1] // lengths[level - 1]
            seconds += (inner - inner // (self.schedule.counts[level - 1] + 1)) * self.overheads[level - 1]
        return seconds + self.overheads[end_level - 1]

    def block(self, level: int, end_level: int, start_level: int, before: int, remaining: Remaining) -> Row:
        """A k-block, k = `level`, with the failures of level k answered; merged once for equal arguments.

        It starts after a checkpoint of `start_level` and ends with one of `end_level`, both at least k; `before`
        is the level of the checkpoint that began the block of level `start_level` before this one.
        """
        clipped = self._clip(remaining, level, end_level)
        key = (level, end_level, start_level, before, clipped)
        if key not in self.blocks:
            self.blocks[key] = self._merge_block(level, end_level, start_level, before, clipped)
        return self.blocks[key]

    def _clip(self, remaining: Remaining, level: int, end_level: int) -> Remaining:
        """Times beyond the end of the block become infinite: which they are makes no difference inside."""
        longest = self.wall(level, end_level)
        return tuple(value if value < longest else math.inf for value in remaining)

    def _inside(self, level: int, end_level: int, start_level: int, before: int, remaining: Remaining) -> Row:
        """The sequence of (k-1)-blocks inside a k-block, or its one segment; failures of level k still leave."""
        if level == 1:
            return self.segment(end_level, remaining)
        row = Row()
        inner = level - 1
        count = self.schedule.counts[inner - 1]
        index = 0
        while index <= count:
            end = inner if index < count else end_level
            start = start_level if index == 0 else inner
            previous = before if index == 0 else (start_level if index == 1 else inner)
            part = self.block(inner, end, start, previous, remaining)
            steady = index >= 2 and index < count
            times = self._equal_parts(count - index, remaining[inner:], self.wall(inner, inner)) if steady else 1
            row.then(repeated(part, times))
            remaining = self._after(inner, end, remaining, times)
            index += times
        return row

    def _equal_parts(self, at_most: int, outer: Remaining, part_wall: float) -> int:
        """How many inner blocks from here are equal: until the next copy of an `outer` level becomes complete."""
        pending = next_completion(outer)
        if pending is None or math.isinf(pending):
            return at_most
        return max(1, min(at_most, int(pending / part_wall)))

    def _after(self, inner: int, end_level: int, remaining: Remaining, times: int) -> Remaining:
        """`remaining` after `times` inner blocks: fresh up to the level of the checkpoint, less above."""
        fresh = self.fresh(end_level)
        elapsed = times * self.wall(inner, end_level)
        left = [value - elapsed if value - elapsed > COMPLETE_WITHIN else 0.0 for value in remaining[end_level:]]
        return (*fresh, *left)

    def _merge_block(self, level: int, end_level: int, start_level: int, before: int, remaining: Remaining) -> Row:
        inside = self._inside(level, end_level, start_level, before, remaining)
        loop = 0.0
        merged = Row(inside.passing, {}, inside.times)
        for (failure, mask), probability in inside.exits.items():
            if failure > level:
                merged.leave((failure, mask), probability)
                continue
            back, then_remaining = self._answer(level, start_level, before, remaining, mask)
            then_remaining = self._clip(then_remaining, level, end_level)
            for key, leaving in back.exits.items():
                merged.leave(key, probability * leaving)
            merged.times = add_times(merged.times, back.times, probability)
            again = probability * back.passing
            if then_remaining == remaining:
                loop += again
            elif again > 0.0:
                following = self.block(level, end_level, start_level, before, then_remaining)
                for key, leaving in following.exits.items():
                    merged.leave(key, again * leaving)
                merged.times = add_times(merged.times, following.times, again)
                merged.passing += again * following.passing
        return self._close_loop(merged, loop)

    def _close_loop(self, row: Row, loop: float) -> Row:
        """Divide by 1 - loop, taken as the sum of the other ways out so that nothing cancels."""
        leaving = row.passing + math.fsum(row.exits.values())
        if loop == 0.0:
            return row
        if leaving <= 0.0:
            return Row(0.0, {}, (math.inf, math.inf, math.inf, math.inf))
        visits = (leaving + loop) / leaving
        return Row(
            row.passing * visits,
            {key: probability * visits for key, probability in row.exits.items()},
            add_times(NO_TIME, row.times, visits),
        )

    def _answer(self, level: int, start_level: int, before: int, remaining: Remaining, mask: int) -> tuple[Row, Remaining]:
        """From a failure of `level` inside its block to the start of the block again: row and `remaining` there."""
        if mask >> (level - 1) & 1:
            restored = self.rules.restore_level(start_level, level)
            kept = tuple(
                0.0 if number <= restored or mask >> (number - 1) & 1 else value
                for number, value in enumerate(remaining, start=1)
            )
            return self.restart(restored, mask), kept
        return self._answer_one_block_back(level, start_level, before, remaining, mask)

    def _answer_one_block_back(
        self, level: int, start_level: int, before: int, remaining: Remaining, mask: int
    ) -> tuple[Row, Remaining]:
        """The copy was still in the background: restart from the block before, make it again, and be back."""
        previous = self._start_of_last_block(level, start_level, before)
        restored = self.rules.restore_level(previous, level)
        wall = self.wall(level, start_level)
        earlier = tuple(
            0.0 if number <= max(restored, start_level) or mask >> (number - 1) & 1 else value + wall
            for number, value in enumerate(remaining, start=1)
        )
        restart = self.restart(restored, mask)
        row = Row(restart.passing, dict(restart.exits), restart.times)
        row.then(self.block(level, start_level, previous, before, earlier))
        below = (1 << start_level) - 1
        relabelled: Exits = {}
        for (failure, found), probability in row.exits.items():
            seen = found & ~below if failure <= start_level else found
            relabelled[failure, seen] = relabelled.get((failure, seen), 0.0) + probability
        row.exits = relabelled
        above = tuple(
            0.0 if mask >> (number - 1) & 1 else value
            for number, value in enumerate(remaining[start_level:], start=start_level + 1)
        )
        return row, (*self.fresh(start_level), *above)

    def _start_of_last_block(self, level: int, start_level: int, before: int) -> int:
        """The level of the checkpoint that begins the last k-block of the block before."""
        start = before
        for number in range(start_level - 1, level - 1, -1):
            if self.schedule.counts[number - 1] > 0:
                start = number
        return start

    def restart(self, level: int, mask: int) -> Row:
        """Reading back from a copy of `level`: repeated after lower failures, left by failures from it up. Not to be changed."""
        key = (level, trim(mask, level + 1))
        if key not in self.restart_rows:
            self.restart_rows[key] = self._restart(*key)
        return self.restart_rows[key]

    def _restart(self, level: int, mask: int) -> Row:
        duration = self.restarts[level - 1]
        failing = fail_probability(self.total_rate, duration)
        row = Row(pass_probability(self.total_rate, duration))
        row.times = (0.0, 0.0, expected_seconds(self.total_rate, duration), 0.0)
        loop = 0.0
        for number, rate in enumerate(self.rates, start=1):
            probability = rate / self.total_rate * failing if rate > 0.0 else 0.0
            if number < level or level == self.level_count:
                loop += probability
            else:
                taken_as = max(number, level + 1)
                row.leave((taken_as, trim(mask, taken_as)), probability)
        return self._close_loop(row, loop)


def next_completion(remaining: Sequence[float]) -> float | None:
    """Seconds until the next copy is complete; None when all are."""
    return min((value for value in remaining if value > COMPLETE_WITHIN), default=None)


def ready_mask(remaining: list[float]) -> int:
    """The levels whose newest copy is complete, as a mask."""
    mask = 0
    for index, value in enumerate(remaining):
        if value <= COMPLETE_WITHIN:
            mask |= 1 << index
    return mask


def trim(mask: int, level: int) -> int:
    """Only what matters for a failure of `level`: the levels from it up."""
    return mask >> (level - 1) << (level - 1)
