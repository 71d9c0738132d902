"""The multilevel model: two solutions that agree, known special cases, and exact limits."""

from __future__ import annotations

import math
import random

import pytest

from kedge.plan.errors import InfeasibleError, PlanError
from kedge.plan.model import Completion, evaluate, expected_period_seconds
from kedge.plan.phases import expected_seconds, fail_seconds, level_fail_probability, pass_probability
from kedge.plan.schedule import Schedule
from kedge.plan.single import exact_period_seconds
from kedge.plan.system import Level, System


def random_system(generator: random.Random, level_count: int) -> System:
    """Levels from fast to slow, each synchronous or not, some without failures of their own."""
    levels: list[Level] = []
    background = 0.0
    for index in range(level_count):
        overhead = generator.uniform(1.0, 60.0)
        asynchronous = generator.random() < 0.6
        background = max(background, generator.uniform(0.0, 200.0) * 4.0**index) if asynchronous else 0.0
        rate = generator.choice([0.0, 1.0, 1.0, 1.0]) * 10.0 ** generator.uniform(-6.0, -3.6)
        restart = generator.uniform(0.0, 300.0)
        levels.append(Level(f"level{index}", overhead, overhead + background, restart, rate, asynchronous))
    return System(1e6, generator.choice([0.0, 0.1, 0.5]), tuple(levels))


def two_levels(rate_1: float = 2e-5, rate_2: float = 4e-6, background: float = 500.0, alpha: float = 0.0) -> System:
    """A synchronous level below an asynchronous one."""
    fast = Level("xor", 30.0, 30.0, 10.0, rate_1, False)
    slow = Level("store", 30.0, 30.0 + background, 540.0, rate_2, True)
    return System(1e6, alpha, (fast, slow))


def compare_both(generator: random.Random, cases: int) -> None:
    compared = 0
    while compared < cases:
        system = random_system(generator, generator.randint(1, 4))
        counts = tuple(generator.randint(0, 4) for _ in system.levels[1:])
        schedule = Schedule(generator.uniform(20.0, 700.0), counts)
        completion: Completion = generator.choice(["exact", "segment"])
        try:
            merged = expected_period_seconds(system, schedule, completion=completion)
        except InfeasibleError:
            continue
        solved = expected_period_seconds(system, schedule, method="chain", completion=completion)
        # The linear system is as badly conditioned as progress is unlikely: rounding grows with the slow-down.
        slowdown = solved / (schedule.interval_seconds * schedule.lengths[-1])
        assert merged == pytest.approx(solved, rel=max(1e-9, 1e-13 * slowdown)), (system, schedule, completion)
        compared += 1


def test_merging_and_linear_system_agree(generator: random.Random) -> None:
    compare_both(generator, 60)


@pytest.mark.slow
def test_merging_and_linear_system_agree_on_many(generator: random.Random) -> None:
    compare_both(generator, 3000)


def test_phase_quantities_add_up() -> None:
    rates = [1e-5, 3e-4]
    total = sum(rates)
    for duration in (1e-3, 1.0, 50.0, 4e3, 1e5):
        passing = pass_probability(total, duration)
        failing = [level_fail_probability(rates, level, duration) for level in (1, 2)]
        assert passing + sum(failing) == pytest.approx(1.0, rel=1e-12)
        spent = passing * duration + sum(failing) * fail_seconds(total, duration)
        assert spent == pytest.approx(expected_seconds(total, duration), rel=1e-7)


@pytest.mark.parametrize("rate", [1e-7, 1e-5, 1e-3, 1e-2])
def test_one_synchronous_level_is_the_exact_expected_time(rate: float) -> None:
    system = System(1e6, 0.0, (Level("store", 60.0, 60.0, 90.0, rate, False),))
    expected = exact_period_seconds(500.0, 60.0, 90.0, rate)
    assert evaluate(system, 500.0, []).period_seconds == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("rate", [1e-7, 1e-5, 1e-3])
@pytest.mark.parametrize("latency", [30.0, 200.0, 880.0])
def test_one_asynchronous_level_is_vaidya(rate: float, latency: float) -> None:
    system = System(1e6, 0.0, (Level("store", 30.0, latency, 200.0, rate, True),))
    expected = exact_period_seconds(900.0, 30.0, 200.0, rate, latency)
    assert evaluate(system, 900.0, []).period_seconds == pytest.approx(expected, rel=1e-10)


def moody_two_levels(system: System, interval: float, count: int) -> float:
    """The synchronous two-level model by hand: exits of a level-1 stretch, then of the period.

    a(d), e1(d), e2(d): pass, level-1 and level-2 failure of a segment; a level-1 failure during a level-1
    restart counts as one of level 2 ([Sato] 3.4.2), and the first segment restarts from level 2.
    """
    first, second = system.levels
    rate_1, rate_2 = first.failure_rate_per_second, second.failure_rate_per_second
    rate = rate_1 + rate_2

    def segment(checkpoint: float, from_top: bool) -> tuple[float, float, float]:
        duration = interval + checkpoint
        passing, spent = math.exp(-rate * duration), (1.0 - math.exp(-rate * duration)) / rate
        fail_1, fail_2 = rate_1 / rate * (1.0 - passing), rate_2 / rate * (1.0 - passing)
        if from_top:
            return passing, fail_1 + fail_2, spent
        again = math.exp(-rate * first.restart_seconds)
        restart = (1.0 - again) / rate
        visits = 1.0 / (1.0 - fail_1 * again)
        return passing * visits, (fail_2 + fail_1 * (1.0 - again)) * visits, (spent + fail_1 * restart) * visits

    passing, spent, lost = 1.0, 0.0, 0.0
    for index in range(count + 1):
        checkpoint = first.overhead_seconds if index < count else second.overhead_seconds
        through, out, seconds = segment(checkpoint, index == 0)
        spent += passing * seconds
        lost += passing * out
        passing *= through
    restart = (math.exp(rate * second.restart_seconds) - 1.0) / rate
    return (spent + lost * restart) / passing


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_synchronous_levels_are_the_model_of_moody(count: int) -> None:
    fast = Level("xor", 20.0, 20.0, 15.0, 3e-4, False)
    slow = Level("store", 300.0, 300.0, 250.0, 5e-5, False)
    system = System(1e6, 0.0, (fast, slow))
    expected = moody_two_levels(system, 400.0, count)
    assert evaluate(system, 400.0, [count]).period_seconds == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("counts", [[0], [1], [4], [30]])
def test_without_failures_only_the_checkpoints_cost(counts: list[int]) -> None:
    result = evaluate(two_levels(0.0, 0.0), 1000.0, counts)
    assert result.efficiency == pytest.approx(1000.0 / 1030.0, rel=1e-12)
    assert result.restart_share == 0.0


def test_without_failures_the_slowdown_lasts_as_long_as_the_copy() -> None:
    result = evaluate(two_levels(0.0, 0.0, background=550.0, alpha=0.1), 1000.0, [4])
    slowed = 550.0 - 550.0 / 1.1
    assert result.period_seconds == pytest.approx(5 * 1030.0 + slowed, rel=1e-12)
    assert result.background_share * result.period_seconds == pytest.approx(550.0, rel=1e-12)


def test_free_checkpoints_reach_full_efficiency() -> None:
    levels = (Level("a", 0.0, 0.0, 0.0, 1e-4, False), Level("b", 0.0, 0.0, 0.0, 1e-5, True))
    assert evaluate(System(1e6, 0.0, levels), 1e-3, [0]).efficiency == pytest.approx(1.0, abs=1e-7)


def test_efficiency_falls_with_every_rate_and_cost() -> None:
    base = two_levels(alpha=0.05)
    reference = evaluate(base, 2000.0, [3]).efficiency
    for index in range(2):
        level = base.levels[index]
        worse = [
            base.replace_level(index, failure_rate_per_second=level.failure_rate_per_second * 1.5),
            base.replace_level(index, restart_seconds=level.restart_seconds * 1.5),
            base.replace_level(
                index,
                overhead_seconds=level.overhead_seconds * 1.5,
                latency_seconds=level.latency_seconds + level.overhead_seconds * 0.5,
            ),
        ]
        for system in worse:
            assert evaluate(system, 2000.0, [3]).efficiency < reference
    slower = base.replace_level(1, latency_seconds=base.levels[1].latency_seconds * 2.0)
    assert evaluate(slower, 2000.0, [3]).efficiency < reference
    assert evaluate(System(1e6, 0.06, base.levels), 2000.0, [3]).efficiency < reference


def test_rounding_to_whole_segments_is_pessimistic() -> None:
    system = two_levels(background=2500.0)
    exact = evaluate(system, 1000.0, [5]).efficiency
    rounded = evaluate(system, 1000.0, [5], completion="segment").efficiency
    assert rounded < exact
    fits = two_levels(background=2 * 1030.0)
    assert evaluate(fits, 1000.0, [5]).efficiency == pytest.approx(
        evaluate(fits, 1000.0, [5], completion="segment").efficiency, rel=1e-12
    )


def test_hopeless_systems_have_no_efficiency_and_do_not_raise() -> None:
    result = evaluate(two_levels(1.0, 1.0), 5000.0, [3])
    assert result.efficiency == 0.0
    assert math.isinf(result.expected_seconds)


def test_a_copy_that_does_not_fit_is_named() -> None:
    with pytest.raises(InfeasibleError) as caught:
        evaluate(two_levels(background=5000.0), 1000.0, [3])
    assert caught.value.key == "level[1].latency_seconds"
    assert "'store'" in str(caught.value)
    evaluate(two_levels(background=4 * 1000.0 + 3 * 30.0), 1000.0, [3])


def test_counts_must_match_the_levels() -> None:
    with pytest.raises(PlanError, match="1 counts for 2 levels"):
        evaluate(two_levels(), 1000.0, [3, 2])
    with pytest.raises(PlanError, match=r"counts\[0\] = -1"):
        evaluate(two_levels(), 1000.0, [-1])
    with pytest.raises(PlanError, match="interval_seconds = 0.0"):
        evaluate(two_levels(), 0.0, [1])
