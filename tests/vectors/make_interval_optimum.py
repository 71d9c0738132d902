"""Writes interval_optimum.json: schedules evaluated and optimised by the planner's Python model.

The C++ twin (src/model/interval_optimum_test.cc) must give the same. Run from the repository root:
    PYTHONPATH=python python3 tests/vectors/make_interval_optimum.py
Deterministic: the shipped systems, and random ones from a fixed seed. Numbers keep 15 significant digits.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from kedge.plan.catalog import shipped_names, shipped_system
from kedge.plan.errors import InfeasibleError
from kedge.plan.model import evaluate
from kedge.plan.optimum import optimum
from kedge.plan.system import Level, System

SEED = 20140326
RANDOM_SYSTEMS = 40
SCHEDULES_PER_SYSTEM = 4


def rounded(value: float) -> float:
    """15 significant digits: what survives printing and reading on any machine."""
    return float(f"{value:.15g}")


def random_system(generator: random.Random, level_count: int) -> System:
    """Levels from fast to slow, each synchronous or not, some without failures of their own."""
    levels: list[Level] = []
    background = 0.0
    for index in range(level_count):
        overhead = rounded(generator.uniform(1.0, 60.0))
        asynchronous = generator.random() < 0.6
        background = max(background, generator.uniform(0.0, 200.0) * 4.0**index) if asynchronous else 0.0
        rate = rounded(generator.choice([0.0, 1.0, 1.0, 1.0]) * 10.0 ** generator.uniform(-6.5, -4.0))
        latency = rounded(overhead + background) if asynchronous else overhead
        levels.append(Level(f"level{index}", overhead, latency, rounded(generator.uniform(0, 300)), rate, asynchronous))
    return System(1e6, generator.choice([0.0, 0.1, 0.5]), tuple(levels))


def described(system: System) -> dict[str, Any]:
    """The system as the C++ side reads it."""
    return {
        "work_seconds": system.work_seconds,
        "alpha": system.alpha,
        "levels": [
            {
                "overhead_seconds": level.overhead_seconds,
                "latency_seconds": level.latency_seconds,
                "restart_seconds": level.restart_seconds,
                "failure_rate_per_second": level.failure_rate_per_second,
                "asynchronous": level.asynchronous,
            }
            for level in system.levels
        ],
    }


def vector(name: str, system: System, generator: random.Random) -> dict[str, Any]:
    """A system, its optimum, and some schedules with their expected period."""
    best = optimum(system)
    schedules: list[dict[str, Any]] = []
    while len(schedules) < SCHEDULES_PER_SYSTEM:
        interval = rounded(best.interval_seconds * generator.uniform(0.5, 4.0))
        counts = [generator.randint(0, 5) for _ in system.levels[1:]]
        try:
            result = evaluate(system, interval, counts)
        except InfeasibleError:
            continue
        schedules.append(
            {"interval_seconds": interval, "counts": counts, "expected_period_seconds": rounded(result.period_seconds)}
        )
    return {
        "name": name,
        **described(system),
        "schedules": schedules,
        "optimum": {
            "interval_seconds": rounded(best.interval_seconds),
            "counts": list(best.counts),
            "efficiency": rounded(best.efficiency),
        },
    }


def main() -> None:
    """Write the file beside this script."""
    generator = random.Random(SEED)
    vectors = [vector(name, shipped_system(name), generator) for name in shipped_names()]
    for index in range(RANDOM_SYSTEMS):
        level_count = (2, 2, 1, 3, 2, 4)[index % 6]
        system = random_system(generator, level_count)
        vectors.append(vector(f"random-{index}-of-{level_count}-levels", system, generator))
    path = Path(__file__).with_name("interval_optimum.json")
    lines = ",\n".join(json.dumps(entry) for entry in vectors)
    path.write_text(f'{{"seed": {SEED}, "vectors": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
