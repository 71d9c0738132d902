"""Planning while a job runs: the system as given, corrected by what was measured, and whether to change.

Levels are matched by name, or by what the runtime calls them (an ``xor`` of the system is its ``node``). A system without
``local`` has its lowest level answer those failures, too.

Times: a measured mean replaces the given value. Kedge blocks an application only for its capture, so the blocked
time is every level's overhead, and a level that is reached later is asynchronous. Failure rates: a gamma
distribution around the given rate, worth `prior_failures` failures, is updated by those observed: (a + k) / (a /
lambda + t). So a short run without failures changes little, and a long one decides. alpha cannot be measured from
outside and stays.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from kedge.plan.checks import check_number
from kedge.plan.errors import InfeasibleError, PlanError
from kedge.plan.level import Level
from kedge.plan.model import Evaluation, evaluate
from kedge.plan.optimum import optimum
from kedge.plan.runtime_metrics import JobMeasurement, LevelMeasurement
from kedge.plan.schedule_section import LOCAL, runtime_levels
from kedge.plan.system import System

PRIOR_FAILURES = 2.0
LEAST_GAIN = 0.005


@dataclass(frozen=True)
class Proposal:
    """The corrected system, its best schedule, and the efficiency of the present one (None: not known).

    ``change`` says whether following is worth it: the gain is at least the threshold, the present schedule is
    not known, or its copies no longer complete in time.
    """

    system: System
    best: Evaluation
    present_efficiency: float | None
    change: bool
    reason: str


def corrected_rate(given: float, failures: float, observed_seconds: float, prior_failures: float) -> float:
    """The failure rate after `failures` in `observed_seconds`, per second; without observation the given one."""
    if given <= 0.0 or prior_failures <= 0.0:
        return failures / observed_seconds if observed_seconds > 0.0 else given
    return (prior_failures + failures) / (prior_failures / given + observed_seconds)


def corrected_system(system: System, measured: JobMeasurement, prior_failures: float = PRIOR_FAILURES) -> System:
    """The system with measured times and updated rates; PlanError for a measured level that it does not have."""
    check_number(prior_failures, "--prior-failures")
    by_level = measured_levels(system, measured)
    levels: list[Level] = []
    for level, found in zip(system.levels, by_level, strict=True):
        rate = corrected_rate(
            level.failure_rate_per_second, found.failures, measured.observed_seconds, prior_failures
        )
        levels.append(_corrected_level(level, found, measured.blocked.value, rate, levels))
    return dataclasses.replace(system, levels=tuple(levels), storage=None)


def measured_levels(system: System, measured: JobMeasurement) -> list[LevelMeasurement]:
    """What was measured of each level of the system, in its order; PlanError for a measured level that it does not have."""
    names = [level.name for level in system.levels]
    roles = runtime_levels(system)
    matched = [LevelMeasurement() for _ in names]
    for name, found in measured.levels.items():
        if name in names:
            matched[names.index(name)] = found
        elif name in roles:
            matched[roles.index(name)] = found
    for name, found in measured.levels.items():
        if name in names or name in roles:
            continue
        if name == LOCAL:
            matched[0] = dataclasses.replace(matched[0], failures=matched[0].failures + found.failures)
        elif found.reached.count or found.restarts.count or found.failures:
            raise PlanError("measured level", name, f"a level of the system, which has {', '.join(names)}: describe this one, too")
    return matched


def _corrected_level(
    level: Level, found: LevelMeasurement, blocked: float | None, rate: float, below: Sequence[Level]
) -> Level:
    reached = found.reached.value
    overhead = level.overhead_seconds if blocked is None else blocked
    if reached is not None:
        background = max(0.0, reached - overhead)
    else:
        background = level.background_seconds
    asynchronous = background > 0.0 or (level.asynchronous and reached is None)
    if asynchronous and below and below[-1].asynchronous:
        background = max(background, below[-1].background_seconds)  # made after the copy of the level below
    restart = found.restarts.value
    return Level(
        name=level.name,
        overhead_seconds=overhead,
        latency_seconds=overhead + background,
        restart_seconds=level.restart_seconds if restart is None else restart,
        failure_rate_per_second=rate,
        asynchronous=asynchronous,
    )


def propose(
    system: System,
    measured: JobMeasurement,
    *,
    interval_seconds: float | None = None,
    counts: Sequence[int] | None = None,
    prior_failures: float = PRIOR_FAILURES,
    least_gain: float = LEAST_GAIN,
) -> Proposal:
    """The best schedule for what was measured, against the present one when its interval and counts are given."""
    check_number(least_gain, "--least-gain", high=1.0)
    corrected = corrected_system(system, measured, prior_failures)
    best = optimum(corrected)
    if interval_seconds is None or counts is None:
        return Proposal(corrected, best, None, True, "the present schedule is not known")
    try:
        present = evaluate(corrected, interval_seconds, counts).efficiency
    except InfeasibleError as error:
        return Proposal(corrected, best, None, True, f"the present schedule does not fit any more: {error}")
    gain = best.efficiency - present
    if gain >= least_gain:
        return Proposal(corrected, best, present, True, f"{gain:.4f} of efficiency to gain")
    return Proposal(corrected, best, present, False, f"only {max(gain, 0.0):.4f} of efficiency to gain")
