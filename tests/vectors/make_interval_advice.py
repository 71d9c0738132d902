"""Writes interval_advice.json: what was measured of jobs, and the schedules that `kedge plan watch` finds best for them.

The runtime's own answer (src/schedule/interval_advice_test.cc) must be the same. Run from the repository root:
    PYTHONPATH=python python3 tests/vectors/make_interval_advice.py
Deterministic, from a fixed seed. What was not measured is assumed as the runtime does: a restart takes as long as the copy
took to make. Numbers keep 12 significant digits.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from kedge.plan.model import Evaluation
from kedge.plan.online import corrected_system
from kedge.plan.optimum import optimum
from kedge.plan.runtime_metrics import JobMeasurement, LevelMeasurement, Mean
from kedge.plan.system import Level, System

SEED = 20140615
JOBS = 30
WORK_SECONDS = 30 * 86400.0


def rounded(value: float) -> float:
    """12 significant digits."""
    return float(f"{value:.12g}")


def observed(generator: random.Random, low: float, high: float, chance: float = 1.0) -> dict[str, Any]:
    """A sum of seconds and its count; none with the probability 1 - chance."""
    count = generator.randint(1, 40) if generator.random() < chance else 0
    return {"sum": rounded(sum(generator.uniform(low, high) for _ in range(count))), "count": count}


def random_job(generator: random.Random, index: int) -> dict[str, Any]:
    """A job with or without protection across its nodes, with or without a store."""
    node_every = (0, 1, 1, 2, 4)[index % 5]
    store_every = (max(node_every, 1) * generator.choice((1, 2, 5, 20))) if index % 6 else 0
    blocked = 10.0 ** generator.uniform(-2.0, 1.5)
    flush = blocked * 10.0 ** generator.uniform(0.5, 3.5)
    hours = rounded(10.0 ** generator.uniform(-1.0, 2.5))
    return {
        "blocked": observed(generator, 0.8 * blocked, 1.2 * blocked),
        "protection": observed(generator, 0.5 * blocked, 8.0 * blocked),
        "background": observed(generator, 0.7 * flush, 1.3 * flush),
        "restart_local": observed(generator, blocked, 2.0 * blocked, 0.5),
        "restart_node": observed(generator, blocked, 9.0 * blocked, 0.5),
        "restart_store": observed(generator, 0.5 * flush, 1.5 * flush, 0.5),
        "failures_local": generator.choice((0, 0, 1, 7)),
        "failures_node": generator.choice((0, 0, 1, 3)) if node_every else 0,
        "failures_store": generator.choice((0, 0, 0, 1)),
        "observed_seconds": hours * 3600.0,
        "rule": {
            "node_every": node_every,
            "store_every": store_every,
            "mtbf_local_seconds": rounded(10.0 ** generator.uniform(3.3, 5.5)),
            "mtbf_node_seconds": rounded(10.0 ** generator.uniform(4.5, 6.5)),
            "mtbf_store_seconds": rounded(10.0 ** generator.uniform(5.5, 7.0)),
        },
    }


def mean(entry: dict[str, Any], key: str) -> float | None:
    """The mean of an observation, if there is one."""
    return entry[key]["sum"] / entry[key]["count"] if entry[key]["count"] else None


def measurement(job: dict[str, Any]) -> JobMeasurement:
    """The job as the agent's metrics tell it: levels are timed from the start of the call."""
    blocked = mean(job, "blocked") or 0.0

    def level(background: str | None, name: str) -> LevelMeasurement:
        reached = job["blocked"] if background is None else job[background]
        start = 0.0 if background is None else blocked * reached["count"]
        restarts = job[f"restart_{name}"]
        return LevelMeasurement(
            Mean(reached["sum"] + start, reached["count"]), Mean(restarts["sum"], restarts["count"]), job[f"failures_{name}"]
        )

    levels = {"local": level(None, "local")}
    if job["rule"]["node_every"]:
        levels["node"] = level("protection", "node")
    if job["rule"]["store_every"]:
        levels["store"] = level("background", "store")
    return JobMeasurement("job", job["observed_seconds"], Mean(**job["blocked"]), levels)


def assumed_system(job: dict[str, Any], levels: dict[str, LevelMeasurement]) -> System:
    """What the runtime believes before anything else is measured; times are replaced, but for restarts not seen."""
    believed = []
    blocked = background = mean(job, "blocked") or 0.0
    for name, found in levels.items():
        background = max(background, found.reached.value or 0.0)
        rate = 1.0 / job["rule"][f"mtbf_{name}_seconds"]
        believed.append(Level(name, blocked, blocked if name == "local" else background, background, rate, name != "local"))
    return System(WORK_SECONDS, 0.0, tuple(believed))


def present_counts(rule: dict[str, Any]) -> list[int]:
    """The job's counts in the model's terms."""
    every = [rule[key] for key in ("node_every", "store_every") if rule[key]]
    return [own // below - 1 for below, own in zip([1, *every], every, strict=False)]


def answer(found: Evaluation) -> dict[str, Any]:
    """What both sides are compared by."""
    return {
        "interval_seconds": rounded(found.interval_seconds),
        "counts": list(found.counts),
        "efficiency": rounded(found.efficiency),
    }


def vector(job: dict[str, Any]) -> dict[str, Any]:
    """The job with its best interval for the present counts, and its best schedule of all."""
    measured = measurement(job)
    system = corrected_system(assumed_system(job, measured.levels), measured)
    return {
        **job,
        "kept": answer(optimum(system, counts=present_counts(job["rule"]))),
        "best": answer(optimum(system)),
    }


def main() -> None:
    """Write the file beside this script."""
    generator = random.Random(SEED)
    lines = ",\n".join(json.dumps(vector(random_job(generator, index))) for index in range(JOBS))
    Path(__file__).with_name("interval_advice.json").write_text(f'{{"seed": {SEED}, "vectors": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
