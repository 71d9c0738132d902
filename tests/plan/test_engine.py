"""The simulator's rules, each against times computed by hand: replayed failures, so that nothing is random."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from kedge.plan.errors import InfeasibleError, PlanError
from kedge.plan.failures import TraceFailures
from kedge.plan.placement import Placement, Protection
from kedge.plan.scenario import Scenario
from kedge.plan.simulate import simulate_jobs
from kedge.plan.system import Level, System

XOR = Level("xor", 10.0, 10.0, 20.0, 1e-5, False)
STORE = Level("store", 10.0, 260.0, 200.0, 1e-6, True)
SYSTEM = System(work_seconds=1000.0, alpha=0.1, levels=(XOR, STORE), nodes=8)
SLOW = 0.1 / 1.1  # extra computing time for each second that a flush is under way


def trace(*failures: tuple[float, int] | tuple[float, int, tuple[int, ...]]) -> TraceFailures:
    """Failures as (seconds, level index) or (seconds, level index, nodes), once, from the start of each run."""
    nodes = [np.array(failure[2] if len(failure) > 2 else (), dtype=np.int64) for failure in failures]
    return TraceFailures(
        np.array([failure[0] for failure in failures]),
        nodes,
        np.array([failure[1] for failure in failures], dtype=np.int64),
        span_seconds=1e12,
        random_phase=False,
    )


def job_seconds(
    scenario: Scenario, system: System = SYSTEM, interval: float = 100.0, counts: tuple[int, ...] = (3,)
) -> float:
    """The time of a job; all runs replay the same failures, so all must agree."""
    jobs = simulate_jobs(system, interval, counts, scenario=scenario, runs=3)
    assert np.ptp(jobs.seconds) == 0.0
    return float(jobs.seconds[0])


NO_FAILURE = Scenario(trace((1e11, 0)))
# Nine checkpoints of 10 s; store copies start at 440 and 880 + 250 SLOW + 10, each 250 s in the background,
# but the second is cut short by the end of the work after two segments of 100 s (the last without checkpoint).
FIRST_FLUSH = 250.0 * SLOW


def test_job_without_failures() -> None:
    # After position 8 two segments remain: computing is slowed for min(250, what they take), with a 10 s checkpoint
    # between them that is not computing.
    rest = 250.0 - (110.0 + 10.0)
    # The first slowed segment computes 110 s, then 10 s checkpoint; of the flush 130 s are left for the last one.
    second_flush = 10.0 + min(rest, 110.0) * SLOW
    # In the first flush the two checkpoints after the slowed segments also lie within the 250 s.
    first = 110.0 + 10.0 + 110.0 + 10.0  # two slowed segments cover 240 s of the flush, 10 s remain
    expected = 1000.0 + 9 * 10.0 + 10.0 + 10.0 + (250.0 - first) * SLOW + second_flush
    assert job_seconds(NO_FAILURE) == pytest.approx(expected, abs=1e-9)


def test_failure_before_any_checkpoint_repeats_from_the_start() -> None:
    base = job_seconds(NO_FAILURE)
    # Level 0 demanded, but only the initial copy of the store exists: restart in 200 s, 50 s lost.
    assert job_seconds(Scenario(trace((50.0, 0)))) == pytest.approx(base + 50.0 + 200.0, abs=1e-9)


def test_low_failure_returns_to_the_newest_checkpoint() -> None:
    base = job_seconds(NO_FAILURE)
    # At 300 s the run is 80 s into the third segment.
    assert job_seconds(Scenario(trace((300.0, 0)))) == pytest.approx(base + 80.0 + 20.0, abs=1e-9)


def test_high_failure_returns_to_the_store() -> None:
    base = job_seconds(NO_FAILURE)
    assert job_seconds(Scenario(trace((300.0, 1)))) == pytest.approx(base + 300.0 + 200.0, abs=1e-9)


def test_high_failure_during_the_flush_loses_it() -> None:
    base = job_seconds(NO_FAILURE)
    # At 500 s: 60 s into the flush of position 4, which is lost; back to 0, and the flush is made anew at position 4.
    assert job_seconds(Scenario(trace((500.0, 1)))) == pytest.approx(base + 500.0 + 200.0, abs=1e-9)


def test_high_failure_after_the_flush_returns_to_its_copy() -> None:
    base = job_seconds(NO_FAILURE)
    # The flush of position 4 ends at 690; segment 7 starts at 680. At 700: back to position 4 (reached at 440), and
    # what is done again from there is not slowed down.
    lost = 700.0 - 440.0
    slowed = 10.0 + 10.0 + 10.0 * SLOW  # segments 5 and 6 and the start of 7, the first time
    assert job_seconds(Scenario(trace((700.0, 1)))) == pytest.approx(base + lost + 200.0 - slowed, abs=1e-9)


@pytest.mark.parametrize(
    ("rule", "flush_end"),
    [
        ("continue", 690.0),  # 440 + 250 whatever happens
        ("restart", 620.0 + 250.0),  # anew after the restart that ends at 620
        ("rewind", 620.0 + 130.0),  # at position 5, 120 s of 250 had passed
    ],
)
def test_flush_after_a_low_failure(rule: str, flush_end: float) -> None:
    # At 600 s, 40 s into segment 6 (it starts at 560): back to position 5, 20 s of restart, on at 620.
    scenario = Scenario(trace((600.0, 0)), flush_after_failure=rule)
    # Segments 6, 7, ... from 620; computing is slowed until flush_end.
    now = 620.0
    for _ in (6, 7, 8):
        now += 100.0 + min(max(flush_end - now, 0.0), 110.0) * SLOW + 10.0
    # Position 8 starts its own flush, as in the run without failures.
    now += 110.0 + 10.0 + 100.0 + 110.0 * SLOW
    assert job_seconds(scenario) == pytest.approx(now, abs=1e-9)


def test_a_checkpoint_waits_for_the_flush_before_it() -> None:
    # Two failures delay the flush of position 4 beyond position 8: restarted at 880.5, it ends at 1130.5, while
    # segment 8 has been computed at 990.5; its checkpoint waits, blocked, and two slowed segments follow.
    scenario = Scenario(trace((600.0, 0), (860.5, 0)), flush_after_failure="restart")
    assert job_seconds(scenario) == pytest.approx(1130.5 + 10.0 + 120.0 + 110.0, abs=1e-9)


def test_restart_brings_the_lower_copies_back() -> None:
    base = job_seconds(NO_FAILURE)
    # The store restart ends at 500; the next low failure, at 550, restarts from the xor copy of the same position.
    assert job_seconds(Scenario(trace((300.0, 1), (550.0, 0)))) == pytest.approx(base + 300 + 200 + 50 + 20, abs=1e-9)


def test_second_failure_escalates_or_retries() -> None:
    base = job_seconds(NO_FAILURE)
    failures = trace((300.0, 0), (310.0, 0))
    retry = Scenario(failures, second_failure="retry")
    assert job_seconds(retry) == pytest.approx(base + 80.0 + 10.0 + 20.0, abs=1e-9)
    escalate = Scenario(failures, second_failure="escalate")
    assert job_seconds(escalate) == pytest.approx(base + 300.0 + 10.0 + 200.0, abs=1e-9)


def test_lower_failure_during_a_restart_repeats_it() -> None:
    base = job_seconds(NO_FAILURE)
    assert job_seconds(Scenario(trace((300.0, 1), (450.0, 0)))) == pytest.approx(base + 300 + 150 + 200, abs=1e-9)


def test_synchronous_store_leaves_only_its_own_copy() -> None:
    store = dataclasses.replace(STORE, overhead_seconds=50.0, latency_seconds=50.0, asynchronous=False)
    system = dataclasses.replace(SYSTEM, levels=(XOR, store))
    base = job_seconds(NO_FAILURE, system)
    assert base == pytest.approx(1000.0 + 7 * 10.0 + 2 * 50.0, abs=1e-9)
    # Position 4 is reached at 3 x 110 + 150 = 480; a low failure at 500 reads the store.
    assert job_seconds(Scenario(trace((500.0, 0))), system) == pytest.approx(base + 20.0 + 200.0, abs=1e-9)
    # And so does the next one before a checkpoint: restarted at 700, 40 s lost at 740.
    twice = Scenario(trace((500.0, 0), (740.0, 0)))
    assert job_seconds(twice, system) == pytest.approx(base + 20.0 + 200.0 + 40.0 + 200.0, abs=1e-9)


def test_single_asynchronous_level_has_no_copy_until_it_is_complete() -> None:
    level = Level("local", 10.0, 60.0, 20.0, 1e-5, True)
    system = System(work_seconds=300.0, alpha=0.0, levels=(level,))
    base = job_seconds(NO_FAILURE, system, counts=())
    assert base == pytest.approx(320.0, abs=1e-9)
    # Checkpoint 1 ends at 110, its copy is complete at 160.
    assert job_seconds(Scenario(trace((159.0, 0))), system, counts=()) == pytest.approx(base + 159.0 + 20.0, abs=1e-9)
    assert job_seconds(Scenario(trace((161.0, 0))), system, counts=()) == pytest.approx(base + 51.0 + 20.0, abs=1e-9)


def test_three_levels_pass_through_the_one_between() -> None:
    local = Level("local", 1.0, 1.0, 5.0, 1e-5, False)
    xor = Level("xor", 2.0, 32.0, 20.0, 1e-5, True)
    store = Level("store", 3.0, 203.0, 100.0, 1e-6, True)
    system = System(work_seconds=1000.0, alpha=0.0, levels=(local, xor, store))
    base = job_seconds(NO_FAILURE, system, counts=(1, 1))
    # Positions: 1 local 101, 2 xor 203, 3 local 304, 4 store 407; the store's copy reaches xor at 437, store at 607.
    at = 440.0
    # A failure of the xor class at 440: the xor copy of position 4 is complete, 33 s are lost.
    jobs = job_seconds(Scenario(trace((at, 1))), system, counts=(1, 1))
    assert jobs == pytest.approx(base + 33.0 + 20.0, abs=1e-9)
    # At 430 it is not: back to position 2, reached at 203.
    jobs = job_seconds(Scenario(trace((430.0, 1))), system, counts=(1, 1))
    assert jobs == pytest.approx(base + (430.0 - 203.0) + 20.0, abs=1e-9)
    # After the xor copy is complete it is the source of the flush, which goes on through a failure of the xor class.
    scenario = Scenario(trace((440.0, 1), (620.0, 2)), flush_after_failure="continue")
    jobs = job_seconds(scenario, system, counts=(1, 1))
    assert jobs == pytest.approx(base + 33.0 + 20.0 + (620.0 - 460.0) + 100.0, abs=1e-9)


GROUPS = Placement(8, (Protection(4, 1, "adjacent"), Protection()))


def test_two_losses_in_one_group_are_fatal_in_two_groups_not() -> None:
    base = job_seconds(NO_FAILURE)
    apart = Scenario(trace((300.0, 0, (0,)), (310.0, 0, (4,))), placement=GROUPS)
    assert job_seconds(apart) == pytest.approx(base + 80.0 + 10.0 + 20.0, abs=1e-9)
    together = Scenario(trace((300.0, 0, (0,)), (310.0, 0, (3,))), placement=GROUPS)
    assert job_seconds(together) == pytest.approx(base + 300.0 + 10.0 + 200.0, abs=1e-9)


def test_losses_do_not_add_up_after_the_restart() -> None:
    base = job_seconds(NO_FAILURE)
    # Restarted at 320 with 80 s lost; at 350 the next loss in the same group finds everything rebuilt.
    scenario = Scenario(trace((300.0, 0, (0,)), (350.0, 0, (3,))), placement=GROUPS)
    assert job_seconds(scenario) == pytest.approx(base + 80.0 + 20.0 + 30.0 + 20.0, abs=1e-9)


def test_the_same_node_twice_is_one_loss() -> None:
    base = job_seconds(NO_FAILURE)
    scenario = Scenario(trace((300.0, 0, (0,)), (310.0, 0, (0,))), placement=GROUPS)
    assert job_seconds(scenario) == pytest.approx(base + 80.0 + 10.0 + 20.0, abs=1e-9)


def test_a_domain_hits_adjacent_groups_and_spares_spread_ones() -> None:
    base = job_seconds(NO_FAILURE)
    failures = trace((300.0, 0, (0, 1)))
    assert job_seconds(Scenario(failures, placement=GROUPS)) == pytest.approx(base + 300.0 + 200.0, abs=1e-9)
    spread = Placement(8, (Protection(4, 1, "spread"), Protection()))
    assert job_seconds(Scenario(failures, placement=spread)) == pytest.approx(base + 80.0 + 20.0, abs=1e-9)


def test_relaunch_and_spares() -> None:
    base = job_seconds(NO_FAILURE)
    failures = trace((300.0, 0, (0,)), (350.0, 0, (3,)))
    relaunch = Scenario(failures, placement=GROUPS, relaunch_seconds=7.0)
    assert job_seconds(relaunch) == pytest.approx(base + 80 + 27 + 23 + 27, abs=1e-9)
    # One spare: the first loss takes it, the second, at 350, waits for the first node's repair, at 1300.
    spares = Scenario(failures, placement=GROUPS, spares=1, repair_seconds=1000.0)
    assert job_seconds(spares) == pytest.approx(base + 80 + 20 + 30 + 950 + 20, abs=1e-9)
    # None: each waits for its own repair; the second failure happens while the first is waited for.
    none = Scenario(failures, placement=Placement(8, (Protection(1, 1), Protection())), spares=0, repair_seconds=100.0)
    assert job_seconds(none) == pytest.approx(base + 80 + 50 + 100 + 20, abs=1e-9)


def test_infeasible_schedule_is_refused() -> None:
    with pytest.raises(InfeasibleError, match=r"latency_seconds = 260\.0.*store"):
        job_seconds(NO_FAILURE, interval=45.0)


def test_bad_values_name_key_value_and_range() -> None:
    with pytest.raises(PlanError, match=r"flush_after_failure = 'later': allowed is one of continue, restart, rewind"):
        Scenario(NO_FAILURE.failures, flush_after_failure="later")
    with pytest.raises(PlanError, match=r"counts = \[1, 2\]: allowed is 1 counts for 2 levels"):
        job_seconds(NO_FAILURE, counts=(1, 2))
    with pytest.raises(PlanError, match=r"runs = 1: allowed is a whole number from 2"):
        simulate_jobs(SYSTEM, 100.0, (3,), runs=1)


def test_jobs_that_never_end_are_an_error() -> None:
    # A failure every 50 s: no segment of 100 s ever ends.
    hopeless = TraceFailures(np.array([50.0]), [np.empty(0, dtype=np.int64)], np.array([1]), 100.0, random_phase=False)
    with pytest.raises(PlanError, match="3 of 3 did not"):
        simulate_jobs(SYSTEM, 100.0, (3,), scenario=Scenario(hopeless), runs=3, transitions_max=3000)
