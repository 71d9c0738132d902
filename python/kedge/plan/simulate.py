"""The simulator: discrete events of checkpoint, failure and restart, over many independent runs at once.

Three questions, one engine (engine.py): the efficiency in the long run (``simulate``), how long a job of a given
length takes (``simulate_jobs``), and how likely a run is to go on for a given time without a failure of a given level
(``simulate_survival``). Each answer has confidence limits from the spread between the runs, and the same seed gives
the same answer, on however many processes.
[Sato 3.5.3, figure 3.15]
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kedge.plan import checks
from kedge.plan.engine import Engine, Rules
from kedge.plan.errors import PlanError
from kedge.plan.parallel import Progress, map_parallel
from kedge.plan.scenario import Scenario, model_scenario
from kedge.plan.timetable import Timetable, make_timetable
from kedge.plan.statistics import Estimate, mean_estimate, proportion_estimate, ratio_estimate
from kedge.plan.system import System

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

TRANSITIONS_DEFAULT = 300_000
TRANSITIONS_MAX = 10_000_000_000
BATCH_TRANSITIONS = 1_000_000
RUNS_MAX = 512
RUNS_MIN = 16
JOBS_MIN, JOBS_MAX = 2, 1_000_000
PERIODS_PER_RUN = 12
WARM_UP_PERIODS = 2


@dataclass(frozen=True)
class Efficiency:
    """The long-run efficiency of one choice of interval and counts.

    ``efficiency``: useful computation over time. ``shares``: of the time, by what it went into: useful, repeated
    (computation lost and done again, and slowed down by background copies), blocked (by checkpoints), recovery
    (relaunch, waiting for spares, restart); they add up to 1. ``failures``, ``restarts``: by level name, how many
    failures demanded it, how many restarts read it, warm-up included.
    """

    efficiency: Estimate
    transitions: int
    simulated_seconds: float
    runs: int
    seed: int
    shares: Mapping[str, float]
    failures: Mapping[str, int]
    restarts: Mapping[str, int]


@dataclass(frozen=True)
class _Batch:
    """One batch of runs to simulate, as it is sent to another process."""

    system: System
    interval_seconds: float
    counts: tuple[int, ...]
    scenario: Scenario
    transitions: int
    seed: np.random.SeedSequence


@dataclass(frozen=True)
class _Tally:
    """What the runs of one batch gathered after the warm-up; arrays of seconds have shape (runs,)."""

    useful: FloatArray
    elapsed: FloatArray
    computed: FloatArray
    blocked: FloatArray
    recovery: FloatArray
    transitions: int
    failures: IntArray
    restarts: IntArray


@dataclass(frozen=True)
class Jobs:
    """How long a job takes. ``seconds``: shape (runs,), each run's time to the end of the work, sorted."""

    work_seconds: float
    seconds: FloatArray
    mean_seconds: Estimate
    efficiency: float
    transitions: int

    def quantile_seconds(self, probability: float) -> float:
        """The time within which a job ends with ``probability``."""
        return float(np.quantile(self.seconds, probability))


def simulate(
    system: System,
    interval_seconds: float,
    counts: Sequence[int],
    *,
    scenario: Scenario | None = None,
    transitions: int = TRANSITIONS_DEFAULT,
    seed: int = 0,
    confidence: float = 0.95,
    processes: int = 1,
    progress: Progress | None = None,
) -> Efficiency:
    """The efficiency in the long run, from at least ``transitions`` state transitions after a warm-up.

    ``interval_seconds``: computation between checkpoints. ``counts``: v_1 ... v_(N-1). ``scenario``: None for the
    models' assumptions. The answer does not depend on ``processes``. The limits hold for many failures of every
    level; where ``failures`` counts only a few of one that costs much, they are too narrow, and more transitions are
    needed. Raises PlanError for bad values, InfeasibleError where background copies overlap.
    """
    _check_whole("transitions", transitions, RUNS_MIN, TRANSITIONS_MAX)
    _check_confidence(confidence)
    make_timetable(system, interval_seconds, counts)
    batches = -(-transitions // BATCH_TRANSITIONS)
    tasks = [
        _Batch(
            system,
            interval_seconds,
            tuple(counts),
            scenario or model_scenario(system),
            -(-transitions // batches),
            batch_seed,
        )
        for batch_seed in np.random.SeedSequence(seed).spawn(batches)
    ]
    tallies = map_parallel(_simulate_batch, tasks, processes=processes, progress=progress)
    return _summary(system, tallies, seed, confidence)


def _simulate_batch(batch: _Batch) -> _Tally:
    timetable = make_timetable(batch.system, batch.interval_seconds, batch.counts)
    runs = min(max(batch.transitions // (PERIODS_PER_RUN * timetable.period), RUNS_MIN), RUNS_MAX)
    engine = _engine(timetable, batch.scenario, np.random.default_rng(batch.seed), runs)
    # Whole periods, so that without failures no part of one is counted twice.
    steps = -(-batch.transitions // (runs * timetable.period)) * timetable.period
    for _ in range(WARM_UP_PERIODS * timetable.period + steps // 10):
        engine.step()
    before = _snapshot(engine)
    transitions = engine.transitions
    for _ in range(steps):
        engine.step()
    useful, elapsed, computed, blocked, recovery = (
        later - earlier for earlier, later in zip(before, _snapshot(engine), strict=True)
    )
    return _Tally(
        useful,
        elapsed,
        computed,
        blocked,
        recovery,
        engine.transitions - transitions,
        engine.failures_by_level,
        engine.restarts_by_level,
    )


def _snapshot(engine: Engine) -> tuple[FloatArray, ...]:
    return (
        engine.position.astype(np.float64) * engine.interval_seconds,
        engine.seconds.copy(),
        engine.compute_seconds.copy(),
        engine.blocked_seconds.copy(),
        engine.recovery_seconds.copy(),
    )


def _summary(system: System, tallies: Sequence[_Tally], seed: int, confidence: float) -> Efficiency:
    useful = np.concatenate([tally.useful for tally in tallies])
    elapsed = np.concatenate([tally.elapsed for tally in tallies])
    total = float(elapsed.sum())
    computed = sum(float(tally.computed.sum()) for tally in tallies)
    names = [level.name for level in system.levels]
    return Efficiency(
        efficiency=ratio_estimate(useful, elapsed, confidence),
        transitions=sum(tally.transitions for tally in tallies),
        simulated_seconds=total,
        runs=useful.size,
        seed=seed,
        shares={
            "useful": float(useful.sum()) / total,
            "repeated": (computed - float(useful.sum())) / total,
            "blocked": sum(float(tally.blocked.sum()) for tally in tallies) / total,
            "recovery": sum(float(tally.recovery.sum()) for tally in tallies) / total,
        },
        failures=dict(zip(names, np.sum([tally.failures for tally in tallies], axis=0).tolist(), strict=True)),
        restarts=dict(zip(names, np.sum([tally.restarts for tally in tallies], axis=0).tolist(), strict=True)),
    )


def simulate_jobs(
    system: System,
    interval_seconds: float,
    counts: Sequence[int],
    *,
    scenario: Scenario | None = None,
    runs: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
    transitions_max: int = 20_000_000,
) -> Jobs:
    """How long ``system.work_seconds`` of computation takes, from the start to its end, in ``runs`` runs.

    A job starts without anything to restart but its input (a copy of the highest level at position 0), and takes no
    checkpoint at its end. Raises PlanError where ``transitions_max`` transitions do not bring all runs to the end.
    """
    _check_whole("runs", runs, JOBS_MIN, JOBS_MAX)
    _check_confidence(confidence)
    timetable = make_timetable(system, interval_seconds, counts)
    engine = _engine(
        timetable, scenario or model_scenario(system), np.random.default_rng(seed), runs, system.work_seconds
    )
    while not engine.finished.all():
        if engine.transitions >= transitions_max:
            raise PlanError(
                "interval_seconds",
                interval_seconds,
                f"an interval at which all jobs end within {transitions_max} transitions; "
                f"{int((~engine.finished).sum())} of {runs} did not",
            )
        engine.step()
    mean = mean_estimate(engine.seconds, confidence)
    return Jobs(
        system.work_seconds, np.sort(engine.seconds), mean, system.work_seconds / mean.value, engine.transitions
    )


def simulate_survival(
    system: System,
    interval_seconds: float,
    counts: Sequence[int],
    *,
    horizon_seconds: float,
    level: int,
    scenario: Scenario | None = None,
    runs: int = 2000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Estimate:
    """The probability of running ``horizon_seconds`` without a failure that demands ``level`` (index from 0) or above.

    With a placement, failures that come before the last one is repaired add up ([Sato 5.6.3] counts only the
    failures of the level itself).
    """
    checks.check_number(horizon_seconds, "horizon_seconds", low_open=True)
    _check_whole("level", level, 0, len(system.levels) - 1)
    _check_whole("runs", runs, 1, 1_000_000)
    _check_confidence(confidence)
    timetable = make_timetable(system, interval_seconds, counts)
    engine = _engine(timetable, scenario or model_scenario(system), np.random.default_rng(seed), runs)
    while bool((engine.seconds < horizon_seconds).any()):
        engine.step()
    alive = int((engine.first_demand_seconds[:, level] >= horizon_seconds).sum())
    return proportion_estimate(alive, runs, confidence)


def _engine(
    timetable: Timetable,
    scenario: Scenario,
    rng: np.random.Generator,
    runs: int,
    work_seconds: float | None = None,
) -> Engine:
    rules = Rules(
        scenario.flush_after_failure,
        scenario.second_failure,
        scenario.relaunch_seconds,
        scenario.time_variation,
        scenario.spares,
        scenario.repair_seconds,
        scenario.placement,
    )
    return Engine(timetable, rules, scenario.failures, rng, runs, work_seconds)


def _check_whole(name: str, value: int, low: int, high: int) -> None:
    if isinstance(value, bool) or not low <= value <= high:
        raise PlanError(name, value, f"a whole number from {low} to {high}")


def _check_confidence(confidence: float) -> None:
    if not (0.5 <= confidence < 1 and math.isfinite(confidence)):
        raise PlanError("confidence", confidence, "a number from 0.5 to below 1")
