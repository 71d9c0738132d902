"""The best schedule: interval T and counts V that minimise expected time (or energy) per useful second.

For given counts, the cost is a smooth function of log T with one minimum in practice: a grid finds its valley,
golden section the bottom. Counts are whole numbers: from the first-order solution, each count in turn moves to
the best of its neighbours near and far (and trades with the next count) until no move helps. With two levels
the start is a whole geometric range of counts, so a valley elsewhere is not missed. Schedules whose copies
would not be complete in time are outside the range of T.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from kedge.plan.errors import InfeasibleError, PlanError
from kedge.plan.model import Completion, Evaluation, evaluate
from kedge.plan.schedule import Rules, Schedule, in_flight_seconds
from kedge.plan.system import System

Objective = Literal["time", "energy"]

SHORTEST_SECONDS = 1e-3
GRID_RATIO = 3.0
MOST_SEGMENTS = 100_000
LOG_TOLERANCE = 3e-4
ROUGH_TOLERANCE = 2e-2
GLANCE_MARGIN = 2e-3  # counts whose rough cost is higher by this are not looked at closely
LEAST_GAIN = 1e-5  # a move that gains less is not made: with high counts the cost is flat
MOST_MOVES = 200
GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


@dataclass(frozen=True)
class Candidate:
    """A schedule with its cost per useful second (or joules per useful hour)."""

    cost: float
    interval_seconds: float
    counts: tuple[int, ...]


class Search:
    """Finds the best interval and counts of one system; remembers what it has evaluated."""

    def __init__(self, system: System, objective: Objective, completion: Completion) -> None:
        if objective == "energy" and system.power is None:
            raise PlanError("power", None, "a [power] table, which the energy objective needs")
        self.system = system
        self.objective = objective
        self.completion: Completion = completion
        self.found: dict[tuple[int, ...], Candidate] = {}
        self.passed_over: set[tuple[int, ...]] = set()

    def cost(self, interval_seconds: float, counts: tuple[int, ...]) -> float:
        """The objective for one schedule; infinite where it makes no progress or does not fit."""
        try:
            result = evaluate(self.system, interval_seconds, counts, completion=self.completion)
        except InfeasibleError:
            return math.inf
        if self.objective == "energy":
            return math.inf if result.joules_per_useful_hour is None else result.joules_per_useful_hour
        return 1.0 / result.efficiency if result.efficiency > 0.0 else math.inf

    def interval_range(self, counts: tuple[int, ...]) -> tuple[float, float]:
        """The shortest interval in which every copy fits, and the longest with one period inside the work."""
        shortest = SHORTEST_SECONDS
        probe = Schedule(1.0, counts)
        rules = Rules(self.system, [level.background_seconds for level in self.system.levels])
        used = [k for k in range(1, len(counts) + 1) if counts[k - 1] > 0] + [len(counts) + 1]
        for number, level in enumerate(self.system.levels, start=1):
            if not any(number in rules.copies[checkpoint - 1] for checkpoint in used):
                continue
            slope = probe.lengths[number - 1] * (1.0 + self.system.alpha)
            blocked = in_flight_seconds(self.system, probe, number) - slope
            shortest = max(shortest, (level.background_seconds - blocked) / slope * (1.0 + 1e-12))
        return shortest, max(self.system.work_seconds / probe.segments, shortest)

    def best_interval(self, counts: tuple[int, ...], near: float | None = None) -> Candidate:
        """The best interval for `counts`, looked for around `near` or over the whole range."""
        if counts in self.found:
            return self.found[counts]
        low, high = self.interval_range(counts)
        if near is None:
            steps = max(2, math.ceil(math.log(high / low) / math.log(GRID_RATIO)) + 1)
            grid = [low * (high / low) ** (index / (steps - 1)) for index in range(steps)]
            costs = [self.cost(interval, counts) for interval in grid]
            middle = grid[min(range(steps), key=lambda index: costs[index])]
        else:
            middle = min(max(near, low), high)
        candidate = self._descend(counts, middle, low, high, ROUGH_TOLERANCE)
        self.found[counts] = candidate
        return candidate

    def _descend(
        self, counts: tuple[int, ...], middle: float, low: float, high: float, tolerance: float, ratio: float = 1.5
    ) -> Candidate:
        """Bracket the minimum around `middle` by steps of `ratio` within [low, high], then golden section."""

        def cost_at(x: float) -> float:
            return self.cost(math.exp(x), counts)

        step, lowest, highest = math.log(ratio), math.log(low), math.log(high)
        centre = math.log(middle)
        left, right = max(lowest, centre - step), min(highest, centre + step)
        at_centre, at_left, at_right = cost_at(centre), cost_at(left), cost_at(right)
        while at_left < at_centre and left > lowest:
            right, centre, at_centre = centre, left, at_left
            left = max(lowest, left - step)
            at_left = cost_at(left)
        while at_right < at_centre and right < highest:
            left, centre, at_centre = centre, right, at_right
            right = min(highest, right + step)
            at_right = cost_at(right)
        ends = [(at_left, left), (at_centre, centre), (at_right, right)]
        best_cost, best = min([*ends, golden_section(cost_at, left, right, tolerance)])
        return Candidate(best_cost, math.exp(best), counts)

    def glance(self, counts: tuple[int, ...], near: float) -> Candidate:
        """Roughly the best interval for `counts` around `near`: three costs and the bottom of their parabola."""
        low, high = self.interval_range(counts)
        step = math.log(1.4)
        middle = min(max(math.log(near), math.log(low)), math.log(high))
        points = [(self.cost(math.exp(x), counts), x) for x in (middle - step, middle, middle + step)]
        below, at, above = (cost for cost, _ in points)
        if math.isfinite(below) and math.isfinite(above) and below + above > 2.0 * at:
            shift = 0.5 * step * (below - above) / (below - 2.0 * at + above)
            bottom = min(max(middle + min(max(shift, -2.0 * step), 2.0 * step), math.log(low)), math.log(high))
            points.append((self.cost(math.exp(bottom), counts), bottom))
        cost, x = min(points)
        return Candidate(cost, math.exp(x), counts)

    def glance_both(self, counts: tuple[int, ...], known: Candidate) -> Candidate:
        """The better glance of two: with the interval of a known schedule, and with its period."""
        growth = math.prod(count + 1 for count in counts) / math.prod(count + 1 for count in known.counts)
        glances = [self.glance(counts, known.interval_seconds / factor) for factor in (1.0, growth)]
        return min(glances, key=lambda found: found.cost)

    def polish(self, candidate: Candidate) -> Candidate:
        """The same counts with the interval to full precision."""
        low, high = self.interval_range(candidate.counts)
        interval = min(max(candidate.interval_seconds, low), high)
        return self._descend(candidate.counts, interval, low, high, LOG_TOLERANCE, ratio=1.05)

    def first_order_counts(self) -> tuple[int, ...]:
        """Counts from sqrt(2 (O_k - O_(k-1)) / lambda_k), the best period of each level when taken alone."""
        periods: list[float] = []
        below = 0.0
        for level in self.system.levels:
            extra = max(level.overhead_seconds - below, 0.02 * level.overhead_seconds)
            below = level.overhead_seconds
            rate = max(level.failure_rate_per_second, 1.0 / (100.0 * self.system.work_seconds))
            periods.append(max(math.sqrt(2.0 * extra / rate), level.background_seconds))
        counts: list[int] = []
        segments = 1
        for inner, outer in zip(periods, periods[1:], strict=False):
            wished = round(min(outer / inner, 1000.0)) - 1 if inner > 0.0 else 10
            counts.append(max(0, min(wished, MOST_SEGMENTS // segments - 1)))
            segments *= counts[-1] + 1
        return tuple(counts)

    def improve(self, start: Candidate) -> Candidate:
        """Move counts, one at a time or two against each other, while it helps."""
        best = start
        for _ in range(MOST_MOVES):
            for counts in neighbours(best.counts):
                if counts in self.passed_over:
                    continue
                candidate = self.found.get(counts)
                if candidate is None:
                    glanced = self.glance_both(counts, best)
                    if glanced.cost > best.cost * (1.0 + GLANCE_MARGIN):
                        self.passed_over.add(counts)
                        continue
                    candidate = self.best_interval(counts, glanced.interval_seconds)
                if candidate.cost < best.cost * (1.0 - LEAST_GAIN):
                    best = candidate
                    break
            else:
                return best
        return best


def golden_section(function: Callable[[float], float], left: float, right: float, tolerance: float) -> tuple[float, float]:
    """(value, argument) of the minimum of a function with one valley in [left, right]."""
    inner_left = right - GOLDEN * (right - left)
    inner_right = left + GOLDEN * (right - left)
    at_left, at_right = function(inner_left), function(inner_right)
    while right - left > tolerance:
        if at_left <= at_right:
            right, inner_right, at_right = inner_right, inner_left, at_left
            inner_left = right - GOLDEN * (right - left)
            at_left = function(inner_left)
        else:
            left, inner_left, at_left = inner_left, inner_right, at_right
            inner_right = left + GOLDEN * (right - left)
            at_right = function(inner_right)
    return min((at_left, inner_left), (at_right, inner_right))


def neighbours(counts: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
    """Counts one move away, with a bounded number of segments."""
    for moved in _moves(counts):
        if math.prod(count + 1 for count in moved) <= MOST_SEGMENTS:
            yield moved


def _moves(counts: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
    """One count up or down, by a factor or by one, and trades between two counts; the larger steps first."""
    for index, count in enumerate(counts):
        steps = (count * 3 + 2, count // 3, round(count * 1.5), round(count / 1.5), count + 1, count - 1, 0)
        for moved in dict.fromkeys(steps):
            if moved >= 0 and moved != count:
                yield (*counts[:index], moved, *counts[index + 1 :])
    for index in range(len(counts) - 1):
        first, second = counts[index], counts[index + 1]
        total = (first + 1) * (second + 1)
        for moved in dict.fromkeys((first * 2 + 1, first // 2, first + 1, first - 1)):
            if moved >= 0 and moved != first:
                partner = max(0, round(total / (moved + 1)) - 1)
                yield (*counts[:index], moved, partner, *counts[index + 2 :])


def optimum(
    system: System,
    *,
    objective: Objective = "time",
    interval_seconds: float | None = None,
    counts: Sequence[int] | None = None,
    near: Evaluation | None = None,
    completion: Completion = "exact",
) -> Evaluation:
    """The schedule with the least expected time (or energy), or the best one with T or V fixed.

    ``near`` starts the search at a known good schedule (of a similar system) instead of everywhere. Raises
    PlanError as evaluate does, and InfeasibleError when a fixed interval fits no counts.
    """
    search = Search(system, objective, completion)
    if interval_seconds is not None:
        fixed = _best_counts(search, float(interval_seconds)) if counts is None else tuple(counts)
        return evaluate(system, interval_seconds, fixed, completion=completion)
    if counts is not None:
        start = near.interval_seconds if near is not None else None
        best = search.best_interval(Schedule(1.0, tuple(counts)).counts, start)
    elif near is not None:
        best = search.improve(search.best_interval(near.counts, near.interval_seconds))
    else:
        best = search.improve(_start(search))
    best = search.polish(best)
    return evaluate(system, best.interval_seconds, best.counts, completion=completion)


def _start(search: Search) -> Candidate:
    """The best of the first-order counts, none or one lower level at all, and with two levels a range of counts."""
    guess = search.first_order_counts()
    best = search.best_interval(guess)
    starts = [tuple(0 for _ in guess)]
    starts += [tuple(int(index == place) for index in range(len(guess))) for place in range(len(guess))]
    if len(guess) == 1:
        starts += [(2**power,) for power in range(1, 11)]
    for counts in dict.fromkeys(starts):
        glanced = search.glance_both(counts, best)
        if glanced.cost > best.cost * (1.0 + GLANCE_MARGIN):
            continue
        candidate = search.best_interval(counts, glanced.interval_seconds)
        if candidate.cost < best.cost:
            best = candidate
    return best


def _best_counts(search: Search, interval: float) -> tuple[int, ...]:
    """The best counts for a fixed interval."""
    least = [0] * (len(search.system.levels) - 1)
    for _ in range(40):
        if not least or search.interval_range(tuple(least))[0] <= interval or least[0] * 2 + 2 > MOST_SEGMENTS:
            break
        least[0] = least[0] * 2 + 1
    costs = {counts: search.cost(interval, counts) for counts in {tuple(least), search.first_order_counts()}}
    best = min(costs, key=lambda counts: costs[counts])
    improved = True
    while improved:
        improved = False
        for counts in neighbours(best):
            if counts not in costs:
                costs[counts] = search.cost(interval, counts)
                if costs[counts] < costs[best]:
                    best, improved = counts, True
                    break
    return best
