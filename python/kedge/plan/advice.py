"""What ``plan advise`` answers: the best schedule, how sure it is, what it depends on, what to improve first.

- The curve: efficiency against the interval, counts fixed.
- The range: efficiency of the advised schedule when all failure rates are half or twice what was given, since
  rates are rarely known better.
- Improvements: the efficiency when one cost or rate is halved and the interval chosen anew, counts kept; the
  largest gain is what to improve first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kedge.plan import schedule_section
from kedge.plan.errors import PlanError
from kedge.plan.figure import Figure, Series
from kedge.plan.model import Evaluation, evaluate
from kedge.plan.optimum import Objective, optimum
from kedge.plan.schedule import Schedule
from kedge.plan.single import daly_interval, young_interval
from kedge.plan.system import System

RATE_UNCERTAINTY = 2.0
CURVE_FACTORS = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0)


@dataclass(frozen=True)
class Improvement:
    """One input halved: its key, its value, and the efficiency gained."""

    key: str
    value: float
    efficiency: float
    gain: float


@dataclass(frozen=True)
class Advice:
    """The answer. ``efficiency_low`` and ``efficiency_high`` hold for rates twice and half those given."""

    system: System
    schedule: Schedule
    evaluation: Evaluation
    efficiency_low: float
    efficiency_high: float
    curve: Sequence[tuple[float, float | None]]
    improvements: Sequence[Improvement]
    warnings: Sequence[str]


def advise(
    system: System,
    *,
    objective: Objective = "time",
    interval_seconds: float | None = None,
    counts: Sequence[int] | None = None,
) -> Advice:
    """Advice for a system; with an interval or counts given, about the best schedule that has them."""
    best = optimum(system, objective=objective, interval_seconds=interval_seconds, counts=counts)
    low = evaluate(system.scaled(RATE_UNCERTAINTY), best.interval_seconds, best.counts).efficiency
    high = evaluate(system.scaled(1.0 / RATE_UNCERTAINTY), best.interval_seconds, best.counts).efficiency
    return Advice(
        system=system,
        schedule=Schedule(best.interval_seconds, best.counts),
        evaluation=best,
        efficiency_low=low,
        efficiency_high=high,
        curve=_curve(system, best),
        improvements=improvements(system, best, interval_seconds),
        warnings=[*_warnings(system, best), *schedule_section.warnings(system)],
    )


def _curve(system: System, best: Evaluation) -> list[tuple[float, float | None]]:
    """Efficiency at intervals around the best, None where the schedule is not feasible."""
    curve: list[tuple[float, float | None]] = []
    for factor in CURVE_FACTORS:
        interval = best.interval_seconds * factor
        try:
            curve.append((interval, evaluate(system, interval, best.counts).efficiency))
        except PlanError:
            curve.append((interval, None))
    return curve


def improvements(system: System, best: Evaluation, interval_seconds: float | None = None) -> list[Improvement]:
    """Each cost and rate halved in turn, the largest gain first; inputs that are zero are left out."""
    found = []
    for key, value, changed in _halvings(system):
        if interval_seconds is not None:
            better = evaluate(changed, interval_seconds, best.counts)
        else:
            better = optimum(changed, counts=best.counts, near=best)
        found.append(Improvement(key, value, better.efficiency, better.efficiency - best.efficiency))
    return sorted(found, key=lambda improvement: -improvement.gain)


def _halvings(system: System) -> list[tuple[str, float, System]]:
    """(key, value, system with it halved) for everything that costs time."""
    changes: list[tuple[str, float, System]] = []
    if system.alpha > 0.0:
        changes.append(("alpha", system.alpha, dataclasses.replace(system, alpha=system.alpha / 2.0)))
    for index, level in enumerate(system.levels):
        background = level.background_seconds
        halved: dict[str, Callable[[], System]] = {
            "overhead_seconds": lambda: system.replace_level(
                index,
                overhead_seconds=level.overhead_seconds / 2.0,
                latency_seconds=level.overhead_seconds / 2.0 + background,
            ),
            "restart_seconds": lambda: system.replace_level(index, restart_seconds=level.restart_seconds / 2.0),
            "failure_rate_per_second": lambda: system.replace_level(
                index, failure_rate_per_second=level.failure_rate_per_second / 2.0
            ),
        }
        if background > 0.0:
            halved["latency_seconds"] = lambda: system.replace_level(
                index, latency_seconds=level.overhead_seconds + background / 2.0
            )
        for key, change in halved.items():
            value = float(getattr(level, key))
            if value > 0.0:
                try:
                    changes.append((f"level[{index}].{key} ({level.name})", value, change()))
                except PlanError:
                    continue  # halving this alone would put the levels out of order
    return changes


def _warnings(system: System, best: Evaluation) -> list[str]:
    """What a reader should know before following the advice."""
    found = []
    if best.efficiency == 0.0:
        found.append("no schedule makes progress: the job fails faster than it can checkpoint and restart")
    elif best.efficiency < 0.5:
        found.append(f"more than half of the time is lost even at best (efficiency {best.efficiency:.3f})")
    period = Schedule(best.interval_seconds, best.counts).segments * best.interval_seconds
    if period > system.work_seconds:
        found.append("the period of the highest level is longer than the work: it may never be taken")
    if system.total_rate == 0.0:
        found.append("all failure rates are zero: any checkpoint costs time and gives nothing")
    for index, level in enumerate(system.levels[:-1]):
        if best.counts[index] == 0:
            found.append(f"level {level.name!r} is never worth a checkpoint of its own: a higher level takes its place")
    return found


def single_level_intervals(system: System) -> list[tuple[str, float, float]]:
    """(level, Young's interval, Daly's interval), each level taken alone; for comparison."""
    return [
        (
            level.name,
            young_interval(level.overhead_seconds, level.failure_rate_per_second),
            daly_interval(level.overhead_seconds, level.failure_rate_per_second),
        )
        for level in system.levels
    ]


def curve_figure(advice: Advice) -> Figure:
    """Efficiency against the interval, with the range of the rates."""
    best = advice.evaluation
    points = [interval for interval, _ in advice.curve]
    series = [Series(f"counts {list(best.counts)}", points, [efficiency for _, efficiency in advice.curve])]
    for factor, label in ((RATE_UNCERTAINTY, "failure rates doubled"), (1.0 / RATE_UNCERTAINTY, "failure rates halved")):
        scaled = _curve(advice.system.scaled(factor), best)
        series.append(Series(label, points, [efficiency for _, efficiency in scaled]))
    return Figure(
        key="advise-interval",
        title=f"{advice.system.name}: efficiency against interval",
        source="",
        x_label="interval between checkpoints, seconds",
        y_label="efficiency",
        series=series,
        x_log=True,
    )


def improvement_figure(advice: Advice) -> Figure:
    """The gains of halving each input, as bars."""
    shown = list(advice.improvements)[:8]
    return Figure(
        key="advise-improvements",
        title=f"{advice.system.name}: efficiency gained when one input is halved",
        source="",
        x_label="input",
        y_label="gain in efficiency",
        series=[Series("gain", list(range(len(shown))), [improvement.gain for improvement in shown])],
        categories=[improvement.key for improvement in shown],
        bars=True,
    )
