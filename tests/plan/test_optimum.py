"""The optimum: against the closed form, against brute force, and on the shipped systems."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
import time

import pytest

from kedge.plan.catalog import find_system, shipped_names, shipped_system
from kedge.plan.errors import InfeasibleError, PlanError
from kedge.plan.model import evaluate
from kedge.plan.optimum import optimum
from kedge.plan.single import daly_interval, exact_efficiency, exact_interval, vaidya_interval, young_interval
from kedge.plan.system import Level, Power, System
from test_model import random_system, two_levels


def one_level(rate: float, overhead: float = 60.0, latency: float = 60.0) -> System:
    """A single level of checkpoints."""
    return System(1e7, 0.0, (Level("store", overhead, latency, 120.0, rate, latency != overhead),))


@pytest.mark.parametrize("rate", [1e-7, 1e-5, 1e-4, 1e-3])
def test_one_level_meets_the_closed_form(rate: float) -> None:
    best = optimum(one_level(rate))
    assert best.interval_seconds == pytest.approx(exact_interval(60.0, rate), rel=2e-3)
    expected = exact_efficiency(exact_interval(60.0, rate), 60.0, 120.0, rate)
    assert best.efficiency == pytest.approx(expected, rel=1e-6)


def test_young_and_daly_approach_the_exact_optimum() -> None:
    for rate in (1e-8, 1e-6, 1e-4):
        exact = exact_interval(60.0, rate)
        assert abs(daly_interval(60.0, rate) - exact) < abs(young_interval(60.0, rate) - exact)
    assert daly_interval(60.0, 1e-6) == pytest.approx(exact_interval(60.0, 1e-6), rel=1e-4)
    assert daly_interval(60.0, 1e-4) == pytest.approx(exact_interval(60.0, 1e-4), rel=1e-2)
    assert daly_interval(300.0, 1.0 / 100.0) == 100.0


def test_latency_does_not_move_the_optimum_until_it_no_longer_fits() -> None:
    rate = 1e-4
    assert vaidya_interval(60.0, 500.0, rate) == exact_interval(60.0, rate)
    best = optimum(one_level(rate, latency=500.0))
    assert best.interval_seconds == pytest.approx(exact_interval(60.0, rate), rel=2e-3)
    assert optimum(one_level(rate, latency=5000.0)).interval_seconds == pytest.approx(4940.0, rel=1e-6)


def brute_force(system: System) -> float:
    """The best efficiency on a grid of intervals and counts."""
    few = (0, 1, 2, 3, 5, 6) if len(system.levels) > 2 else (0, 1, 2, 3, 4, 6, 8, 11, 15, 20, 30, 45, 70)
    best = 0.0
    for counts in itertools.product(few, repeat=len(system.levels) - 1):
        segments = math.prod(count + 1 for count in counts)
        for interval in (10.0 * 1.5**step for step in range(27)):
            if interval * segments > system.work_seconds:
                break  # no period longer than the work is advised
            try:
                best = max(best, evaluate(system, interval, counts).efficiency)
            except InfeasibleError:
                continue
    return best


def test_no_grid_point_beats_the_optimum(generator: random.Random) -> None:
    for level_count in (1, 2, 2, 3):
        system = random_system(generator, level_count)
        assert optimum(system).efficiency >= brute_force(system) * (1.0 - 1e-4), system


@pytest.mark.slow
def test_no_grid_point_beats_the_optimum_of_many(generator: random.Random) -> None:
    for _ in range(60):
        system = random_system(generator, generator.choice([1, 2, 2, 2, 3]))
        assert optimum(system).efficiency >= brute_force(system) * (1.0 - 1e-4), system


def test_best_efficiency_falls_with_every_rate_and_cost() -> None:
    base = two_levels(rate_1=1e-4, rate_2=1e-5, background=3000.0, alpha=0.05)
    best = optimum(base).efficiency
    for factor in (1.5, 4.0, 20.0):
        scaled = optimum(base.scaled(factor)).efficiency
        assert scaled < best
        assert optimum(base.scaled(factor, [1.0, 2.0])).efficiency < scaled
        best = scaled


def test_fixed_interval_or_counts_are_kept() -> None:
    system = two_levels(background=3000.0)
    assert optimum(system, interval_seconds=700.0).interval_seconds == 700.0
    assert optimum(system, counts=[6]).counts == (6,)
    both = optimum(system, interval_seconds=700.0, counts=[6])
    assert both == evaluate(system, 700.0, [6])
    assert optimum(system).efficiency >= max(both.efficiency, optimum(system, counts=[6]).efficiency)


def test_without_failures_one_checkpoint_at_the_end() -> None:
    best = optimum(one_level(0.0))
    assert best.interval_seconds == pytest.approx(1e7)
    assert best.efficiency == pytest.approx(1e7 / (1e7 + 60.0), rel=1e-12)


def test_energy_objective_checkpoints_less_when_checkpoints_are_hungry() -> None:
    system = dataclasses.replace(one_level(1e-5), power=Power(1e5, 1e6, 1e5))
    by_time, by_energy = optimum(system), optimum(system, objective="energy")
    assert by_energy.interval_seconds > 1.5 * by_time.interval_seconds
    assert by_energy.joules_per_useful_hour is not None and by_time.joules_per_useful_hour is not None
    assert by_energy.joules_per_useful_hour < by_time.joules_per_useful_hour
    with pytest.raises(PlanError, match=r"\[power\]"):
        optimum(one_level(1e-5), objective="energy")


@pytest.mark.parametrize("name", shipped_names())
def test_shipped_systems_load_with_sources_and_have_an_optimum(name: str) -> None:
    system = shipped_system(name)
    assert system.source and system.notes and system.nodes
    best = optimum(system)
    assert 0.3 < best.efficiency < 1.0
    assert best.expected_seconds == pytest.approx(system.work_seconds / best.efficiency)


def test_unknown_systems_are_answered_with_the_known_ones() -> None:
    with pytest.raises(PlanError, match="tsubame2"):
        find_system("tsubame9")


def test_four_levels_take_less_than_ten_seconds() -> None:
    levels = (
        Level("process", 1.0, 1.0, 1.0, 1e-5, False),
        Level("partner", 5.0, 50.0, 20.0, 1e-5, True),
        Level("rs", 8.0, 300.0, 100.0, 2e-6, True),
        Level("store", 8.0, 3000.0, 1000.0, 1e-6, True),
    )
    begin = time.process_time()
    best = optimum(System(1e6, 0.01, levels))
    assert time.process_time() - begin < 8.0
    assert best.efficiency > 0.96
