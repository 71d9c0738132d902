"""Simulator and Markov model, derived independently of each other, must agree where the model's assumptions hold."""

from __future__ import annotations

import dataclasses
import functools

import pytest

from kedge.plan.model import evaluate
from kedge.plan.scenario import Scenario, level_failures
from kedge.plan.simulate import Efficiency, simulate
from kedge.plan.system import Level, System

XOR = Level("xor", 20.0, 20.0, 30.0, 2e-4, False)
STORE = Level("store", 20.0, 620.0, 300.0, 3e-5, True)
TWO = System(work_seconds=1e6, alpha=0.05, levels=(XOR, STORE))
SYNCHRONOUS = System(work_seconds=1e6, alpha=0.0, levels=(XOR, Level("store", 200.0, 200.0, 300.0, 3e-5, False)))
LOCAL = Level("local", 5.0, 5.0, 8.0, 3e-4, False)
THREE = System(
    work_seconds=1e6,
    alpha=0.2,
    levels=(LOCAL, Level("xor", 6.0, 66.0, 40.0, 1e-4, True), Level("store", 7.0, 907.0, 400.0, 2e-5, True)),
)
ONE_ASYNCHRONOUS = System(work_seconds=1e6, alpha=0.3, levels=(Level("local", 10.0, 150.0, 60.0, 5e-4, True),))
FOUR = System(
    work_seconds=1e6,
    alpha=0.1,
    levels=(
        LOCAL,
        Level("partner", 12.0, 12.0, 20.0, 1e-4, False),
        Level("rs", 15.0, 115.0, 60.0, 5e-5, True),
        Level("store", 16.0, 816.0, 300.0, 2e-5, True),
    ),
)

CASES = {
    "two levels": (TWO, 300.0, (3,)),
    "two levels, flush nearly as long as the period": (TWO, 250.0, (2,)),
    "no level-1 checkpoint at all": (TWO, 900.0, (0,)),
    "synchronous (Moody et al.)": (SYNCHRONOUS, 400.0, (5,)),
    "three levels": (THREE, 150.0, (2, 3)),
    "four levels": (FOUR, 140.0, (1, 2, 2)),
    "one asynchronous level (Vaidya)": (ONE_ASYNCHRONOUS, 300.0, ()),
}


@functools.cache
def simulated(name: str) -> Efficiency:
    """A case as the simulator has it, with limits of 99.9%."""
    system, interval, counts = CASES[name]
    return simulate(system, interval, counts, transitions=200_000, seed=17, confidence=0.999)


@pytest.mark.parametrize("name", CASES)
def test_model_lies_within_the_simulators_limits(name: str) -> None:
    """At 99.9%: seven cases with fixed seeds; a wrong rule shifts the efficiency by far more than the limits."""
    system, interval, counts = CASES[name]
    model = evaluate(system, interval, counts).efficiency
    result = simulated(name)
    assert result.efficiency.covers(model), (model, result.efficiency)
    assert result.efficiency.high - result.efficiency.low < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_model_lies_within_narrow_limits(name: str) -> None:
    system, interval, counts = CASES[name]
    model = evaluate(system, interval, counts).efficiency
    result = simulate(system, interval, counts, transitions=8_000_000, seed=18, confidence=0.999)
    assert result.efficiency.covers(model), (model, result.efficiency)
    assert result.efficiency.high - result.efficiency.low < 0.005


def test_the_comparison_notices_a_broken_assumption() -> None:
    """With the other rules for flushes and second failures the same limits leave the model outside."""
    system = dataclasses.replace(TWO, alpha=0.3).replace_level(1, restart_seconds=900.0)
    model = evaluate(system, 250.0, (2,)).efficiency
    scenario = Scenario(level_failures(system), second_failure="retry", flush_after_failure="continue")
    result = simulate(system, 250.0, (2,), scenario=scenario, transitions=200_000, seed=17, confidence=0.999)
    assert not result.efficiency.covers(model)


def test_shares_agree_too() -> None:
    model = evaluate(TWO, 300.0, (3,))
    result = simulated("two levels")
    assert result.shares["useful"] + result.shares["repeated"] == pytest.approx(model.compute_share, abs=0.003)
    assert result.shares["blocked"] == pytest.approx(model.checkpoint_share, abs=0.003)
    assert result.shares["recovery"] == pytest.approx(model.restart_share, abs=0.003)
