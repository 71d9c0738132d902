"""The simulator against exact results, its confidence limits, its speed and its failure processes."""

from __future__ import annotations

import dataclasses
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kedge.plan.distributions import Exponential, GapDistribution, LogNormal, Weibull, make_distribution
from kedge.plan.errors import PlanError
from kedge.plan.failures import FailureKind, RandomFailures
from kedge.plan.placement import Damage, Placement, Protection
from kedge.plan.scenario import Scenario, level_failures, parse_scenario
from kedge.plan.simulate import simulate, simulate_jobs, simulate_survival
from kedge.plan.spares import SparePool
from kedge.plan.system import Level, System

XOR = Level("xor", 20.0, 20.0, 30.0, 2e-4, False)
STORE = Level("store", 20.0, 620.0, 300.0, 3e-5, True)
SYSTEM = System(work_seconds=1e5, alpha=0.05, levels=(XOR, STORE), nodes=64)


def single(rate: float, overhead: float = 20.0, restart: float = 30.0) -> System:
    """One synchronous level."""
    return System(work_seconds=1e5, alpha=0.0, levels=(Level("local", overhead, overhead, restart, rate, False),))


def exact_segment_seconds(system: System, interval: float, relaunch: float = 0.0) -> float:
    """Expected time of one segment of a synchronous single level, failures also during restarts (Daly 2006, eq. 12-13).

    Each attempt lasts until it is done or failed: E = exp(rate R) (exp(rate (T + O)) - 1) / rate.
    """
    level = system.levels[0]
    rate = level.failure_rate_per_second
    restart = level.restart_seconds + relaunch
    return math.exp(rate * restart) * math.expm1(rate * (interval + level.overhead_seconds)) / rate


@pytest.mark.parametrize(("rate", "interval"), [(1e-5, 2000.0), (2e-4, 400.0), (2e-3, 300.0)])
def test_single_level_agrees_with_the_exact_time(rate: float, interval: float) -> None:
    system = single(rate)
    exact = interval / exact_segment_seconds(system, interval)
    # A wide confidence, so that a right simulator fails one seed in ten thousand, and the seed is fixed.
    result = simulate(system, interval, (), seed=1, confidence=0.9999)
    assert result.efficiency.covers(exact), (exact, result.efficiency)
    assert result.efficiency.high - result.efficiency.low < 0.03


def test_relaunch_adds_to_every_restart() -> None:
    system = single(2e-4)
    scenario = Scenario(level_failures(system), relaunch_seconds=100.0)
    exact = 400.0 / exact_segment_seconds(system, 400.0, relaunch=100.0)
    result = simulate(system, 400.0, (), scenario=scenario, seed=2, confidence=0.9999)
    assert result.efficiency.covers(exact)


def test_jobs_agree_with_the_exact_time() -> None:
    # 1e5 s of work are 249 segments of 400 s with a checkpoint and one of 400 s without.
    system = single(2e-4)
    last = dataclasses.replace(
        system, levels=(dataclasses.replace(system.levels[0], overhead_seconds=0.0, latency_seconds=0.0),)
    )
    exact = 249 * exact_segment_seconds(system, 400.0) + exact_segment_seconds(last, 400.0)
    jobs = simulate_jobs(system, 400.0, (), runs=2000, seed=3, confidence=0.9999)
    assert jobs.mean_seconds.covers(exact)
    assert jobs.quantile_seconds(0.05) < exact < jobs.quantile_seconds(0.95)
    assert jobs.efficiency == pytest.approx(1e5 / jobs.mean_seconds.value)


def test_without_failures_the_efficiency_is_exact() -> None:
    levels = tuple(dataclasses.replace(level, failure_rate_per_second=0.0) for level in SYSTEM.levels)
    system = dataclasses.replace(SYSTEM, levels=levels)
    result = simulate(system, 500.0, (3,), transitions=10_000)
    # Of the 600 s in the background 20 s pass in a checkpoint, during which nothing is slowed down.
    slowed = (600.0 - 20.0) * 0.05 / 1.05
    assert result.efficiency.value == pytest.approx(2000.0 / (2000.0 + 4 * 20.0 + slowed), rel=1e-12)
    assert sum(result.failures.values()) == 0


def test_free_checkpoints_without_failures_cost_nothing() -> None:
    result = simulate(single(0.0, overhead=0.0, restart=0.0), 500.0, (), transitions=10_000)
    assert result.efficiency.value == result.efficiency.low == result.efficiency.high == 1.0


def test_shares_add_up_and_transitions_are_counted() -> None:
    result = simulate(SYSTEM, 300.0, (3,), transitions=50_000, seed=4)
    assert sum(result.shares.values()) == pytest.approx(1.0, abs=1e-12)
    assert result.shares["useful"] == pytest.approx(result.efficiency.value, abs=1e-12)
    assert all(share > 0.0 for share in result.shares.values())
    assert 50_000 <= result.transitions < 55_000
    observed = sum(result.failures.values()) / result.simulated_seconds / 1.2  # the warm-up is in the count
    assert observed == pytest.approx(SYSTEM.total_rate, rel=0.1)


def test_same_seed_same_answer_other_seed_other_answer() -> None:
    first, again, other = (simulate(SYSTEM, 300.0, (3,), transitions=20_000, seed=seed) for seed in (5, 5, 6))
    assert first == again
    assert first.efficiency.value != other.efficiency.value


def test_confidence_limits_hold_as_often_as_they_say() -> None:
    """80% limits must hold in about 80% of 100 seeds: between 66 and 92 with probability 0.999."""
    system = single(2e-4)
    exact = 400.0 / exact_segment_seconds(system, 400.0)
    held = sum(
        simulate(system, 400.0, (), transitions=8_000, seed=seed, confidence=0.8).efficiency.covers(exact)
        for seed in range(100)
    )
    assert 66 <= held <= 92


def test_three_hundred_thousand_transitions_take_under_two_seconds() -> None:
    simulate(SYSTEM, 300.0, (3,), transitions=1_000)
    start = time.process_time()
    result = simulate(SYSTEM, 300.0, (3,), transitions=300_000)
    assert time.process_time() - start < 2.0
    assert result.transitions >= 300_000


@settings(max_examples=8, deadline=None, derandomize=True)
@given(
    interval=st.floats(250.0, 900.0),
    count=st.integers(2, 5),
    change=st.sampled_from(
        [
            (0, "failure_rate_per_second"),
            (1, "failure_rate_per_second"),
            (0, "restart_seconds"),
            (1, "restart_seconds"),
            (0, "overhead_seconds"),
        ]
    ),
)
def test_efficiency_falls_with_every_rate_and_cost(interval: float, count: int, change: tuple[int, str]) -> None:
    index, key = change
    value = 4.0 * getattr(SYSTEM.levels[index], key)
    changes = {key: value, "latency_seconds": value} if key == "overhead_seconds" else {key: value}
    worse = SYSTEM.replace_level(index, **changes)
    before = simulate(SYSTEM, interval, (count,), transitions=30_000, confidence=0.999)
    after = simulate(worse, interval, (count,), transitions=30_000, confidence=0.999)
    assert after.efficiency.value < before.efficiency.value


def test_efficiency_falls_with_alpha_and_latency() -> None:
    base = simulate(SYSTEM, 300.0, (3,), transitions=80_000).efficiency
    slowed = simulate(dataclasses.replace(SYSTEM, alpha=0.3), 300.0, (3,), transitions=80_000).efficiency
    later = simulate(SYSTEM.replace_level(1, latency_seconds=1100.0), 300.0, (3,), transitions=80_000).efficiency
    assert slowed.high < base.low
    assert later.high < base.low


@pytest.mark.parametrize("gap", [Exponential(100.0), Weibull(100.0, 0.6), Weibull(100.0, 2.0), LogNormal(100.0, 1.2)])
def test_gaps_have_their_mean_and_density(gap: GapDistribution) -> None:
    rng = np.random.default_rng(7)
    samples = gap.sample(rng, 200_000)
    assert samples.mean() == pytest.approx(100.0, abs=5 * samples.std() / math.sqrt(samples.size))
    for seconds in (10.0, 50.0, 200.0):
        survival = math.exp(float(gap.log_survival(np.array([seconds]))[0]))
        assert (samples > seconds).mean() == pytest.approx(survival, abs=0.006)
        step = 1e-4 * seconds
        slope = survival - math.exp(float(gap.log_survival(np.array([seconds + step]))[0]))
        assert math.exp(float(gap.log_density(np.array([seconds + step / 2]))[0])) == pytest.approx(
            slope / step, rel=1e-4
        )


@pytest.mark.parametrize("gap", [Weibull(100.0, 0.6), Weibull(100.0, 3.0), LogNormal(100.0, 1.0)])
def test_failures_start_in_the_steady_state(gap: GapDistribution) -> None:
    """A window from the start holds window / mean failures; it would not if watching started at a failure."""
    stream = RandomFailures((FailureKind("all", gap),)).open(np.random.default_rng(8), 40_000)
    count = 0
    while (early := np.nonzero(stream.next_seconds < 150.0)[0]).size:
        count += early.size
        stream.take(early)
    assert count / 40_000 == pytest.approx(1.5, rel=0.03)


def test_domains_take_neighbours_and_the_last_may_be_smaller() -> None:
    source = RandomFailures((FailureKind("rack", Exponential(1.0), 0, 4),), nodes=10)
    stream = source.open(np.random.default_rng(9), 3000)
    strike = stream.take(np.arange(3000))
    groups = {tuple(strike.nodes[strike.rows == row].tolist()) for row in range(200)}
    assert groups == {(0, 1, 2, 3), (4, 5, 6, 7), (8, 9)}
    np.testing.assert_array_equal(strike.node_counts, np.bincount(strike.rows, minlength=3000))


def test_damage_finds_the_lowest_level_that_holds() -> None:
    placement = Placement(
        12, (Protection(0, 0), Protection(4, 1, "adjacent"), Protection(4, 2, "adjacent"), Protection())
    )
    damage = Damage(placement, 2)
    runs = np.array([0, 1])
    assert damage.lowest_surviving_level(runs).tolist() == [0, 0]
    damage.strike(np.array([0, 0, 1]), np.array([0, 5, 11]))
    assert damage.lowest_surviving_level(runs).tolist() == [1, 1]
    damage.strike(np.array([0]), np.array([1]))
    assert damage.lowest_surviving_level(runs).tolist() == [2, 1]
    damage.strike(np.array([0, 0]), np.array([2, 2]))
    assert damage.lowest_surviving_level(runs).tolist() == [3, 1]
    damage.rebuilt(np.array([0]))
    assert damage.lowest_surviving_level(runs).tolist() == [0, 1]


def test_spare_pool_waits_for_the_earliest_repair() -> None:
    pool = SparePool(2, 2, 100.0)
    both = np.array([0, 1])
    assert pool.replace(both, np.array([10.0, 10.0]), np.array([1, 2])).tolist() == [10.0, 10.0]
    assert pool.replace(both, np.array([20.0, 20.0]), np.array([2, 1])).tolist() == [110.0, 110.0]
    assert pool.replace(both, np.array([200.0, 200.0]), np.array([0, 1])).tolist() == [200.0, 200.0]


def test_survival_of_poisson_failures_is_the_exponential() -> None:
    """[Sato 5.6.3]: exp(-rate T) with the rate of the failures that cannot be recovered."""
    survival = simulate_survival(
        SYSTEM,
        300.0,
        (3,),
        horizon_seconds=2e4,
        level=1,
        runs=4000,
        confidence=0.9999,
        scenario=Scenario(level_failures(SYSTEM), second_failure="retry"),
    )
    assert survival.covers(math.exp(-3e-5 * 2e4))
    everything = simulate_survival(SYSTEM, 300.0, (3,), horizon_seconds=5e3, level=0, runs=4000, confidence=0.9999)
    assert everything.covers(math.exp(-SYSTEM.total_rate * 5e3))


def test_small_groups_that_span_domains_survive_longer() -> None:
    system = dataclasses.replace(
        SYSTEM,
        simulation={
            "protection": [{"group_nodes": 8, "tolerance": 1, "layout": "adjacent"}, {}],
            "failure": [
                {"name": "node", "domain_nodes": 1, "failure_rate_per_second": 1e-4},
                {"name": "power", "domain_nodes": 4, "failure_rate_per_second": 3e-5},
            ],
        },
    )
    adjacent = parse_scenario(system)
    spread = parse_scenario(
        dataclasses.replace(
            system, simulation={**system.simulation, "protection": [{"group_nodes": 8, "tolerance": 1}, {}]}
        )
    )
    survival = [
        simulate_survival(
            system, 300.0, (3,), horizon_seconds=2e4, level=1, scenario=scenario, runs=1500, confidence=0.999
        )
        for scenario in (adjacent, spread)
    ]
    # Every power supply is fatal to adjacent groups: exp(-3e-5 x 2e4) = 0.55 at most.
    assert survival[0].covers(0.54) and survival[0].value <= 0.56
    assert survival[1].low > 0.95


def test_clustered_failures_hurt_less_at_the_same_rate() -> None:
    """Weibull of shape 0.5: more of the failures hit work that the one before had lost already."""
    poisson, weibull = (
        simulate(
            SYSTEM,
            300.0,
            (3,),
            scenario=Scenario(level_failures(SYSTEM, name, shape), second_failure="retry"),
            transitions=150_000,
            confidence=0.999,
        )
        for name, shape in (("exponential", None), ("weibull", 0.5))
    )
    rates = [sum(result.failures.values()) / result.simulated_seconds for result in (poisson, weibull)]
    assert rates[1] == pytest.approx(rates[0], rel=0.1)
    assert weibull.efficiency.low > poisson.efficiency.high


def test_times_that_vary_keep_their_means() -> None:
    levels = tuple(dataclasses.replace(level, failure_rate_per_second=0.0) for level in SYSTEM.levels)
    system = dataclasses.replace(SYSTEM, levels=levels, alpha=0.0)
    scenario = Scenario(level_failures(system), time_variation=0.2)
    result = simulate(system, 500.0, (3,), transitions=100_000, scenario=scenario, confidence=0.9999)
    assert result.efficiency.low < result.efficiency.high
    assert result.efficiency.covers(500.0 / 520.0)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"shape": 0.7}, r"simulation\.shape = 0\.7: allowed is left out"),
        (
            {"distribution": "gamma"},
            r"simulation\.distribution = 'gamma': allowed is one of exponential, weibull, lognormal",
        ),
        ({"spares": -1}, r"simulation\.spares = -1: allowed is a whole number of at least 0"),
        ({"relaunch": 5}, r"simulation\.relaunch = 5: allowed is a key with its unit: relaunch_seconds"),
        ({"time_variation": -0.1}, r"simulation\.time_variation = -0\.1"),
        ({"second_failure": "ignore"}, r"simulation\.second_failure = 'ignore': allowed is one of escalate, retry"),
        ({"protection": [{}]}, r"simulation\.protection = '1 tables': allowed is one table for each of the 2 levels"),
        (
            {"protection": [{"group_nodes": 8, "tolerance": 1}, {"tolerance": 1}]},
            r"tolerance = 1: allowed is left out on the highest",
        ),
        ({"failure": [{"name": "a", "failure_rate_per_second": 1e-6}]}, r"simulation\.failure\[0\]\.level is not given"),
        (
            {"failure": [{"name": "a", "failure_rate_per_second": -1.0, "level": "xor"}]},
            r"failure\[0\]\.failure_rate_per_second = -1\.0",
        ),
        (
            {"failure": [{"name": "a", "failure_rate_per_second": 1.0, "level": "disk"}]},
            r"failure\[0\]\.level = 'disk'.*xor, store",
        ),
        ({"trace": "/nonexistent.csv"}, r"trace = '/nonexistent.csv': allowed is a file that can be read"),
    ],
)
def test_scenario_errors_name_key_value_and_range(table: dict[str, object], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        parse_scenario(dataclasses.replace(SYSTEM, simulation=table))


def test_distributions_need_their_parameters() -> None:
    with pytest.raises(PlanError, match=r"shape is not given.*the key is missing"):
        make_distribution("weibull", 10.0)
    with pytest.raises(PlanError, match="sigma = 9"):
        make_distribution("lognormal", 10.0, sigma=9.0)
