"""Jobs whose ranks are killed, at random moments and at each state, end with the result of an undisturbed run, to the last bit."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tool import kedge, kedge_json
from waiting import until

from conftest import JACOBI, Launch, armed, assert_survived

RANKS, CELLS, STEPS = 4, 40, 600
# Of planes that the receiver reads from the sender's memory.
LONG_CELLS, LONG_STEPS = 96, 60
# Milliseconds after a step, so that a job is still at it when it is disturbed, and does not take the processors until then.
PAUSE = 2


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 13))])
@pytest.mark.parametrize(("cells", "steps", "pause"), [(CELLS, STEPS, PAUSE), (LONG_CELLS, LONG_STEPS, 10 * PAUSE)])
def test_random_kills_change_nothing_in_the_result(
    launch: Launch, undisturbed: Callable[..., str], cells: int, steps: int, pause: int, seed: int
) -> None:
    """One rank or several at once, any time apart: also while the job recovers from the kill before."""
    seed = int(os.environ.get("KEDGE_TEST_SEED", seed))
    draws = random.Random(seed)
    expected = undisturbed(RANKS, cells, steps)
    job = launch("-n", RANKS, "--interval", 20, "--failures", 100, JACOBI, cells, steps, pause)
    kills = 0
    while job.process.poll() is None and kills < 8:
        time.sleep(draws.choice([0.02, 0.1, 0.4]) * draws.random() * 2)
        job.kill(*draws.sample(range(RANKS), draws.choice([1, 1, 1, 2, 3])))
        kills += 1
    assert_survived(job.wait(), expected)


# Where a rank may be when it dies. Rank 1 dies at its third checkpoint, others on the way back from that.
AT_THE_CHECKPOINT = {(1, 0): "fmi.checkpoint:3"}
DEATHS = {
    "before it is here": {(1, 0): "fmi.h1"},
    "before it is connected": {(0, 0): "fmi.h2"},
    "before its first checkpoint": {(2, 0): "fmi.checkpoint"},
    "at a checkpoint": AT_THE_CHECKPOINT,
    "a survivor, before it is here": AT_THE_CHECKPOINT | {(2, 0): "fmi.h1:2"},
    "a survivor, before it restores": AT_THE_CHECKPOINT | {(0, 0): "fmi.restore:2"},
    "a survivor, once it is connected": AT_THE_CHECKPOINT | {(3, 0): "fmi.h2:2"},
    "the successor, before it is here": AT_THE_CHECKPOINT | {(1, 1): "fmi.h1"},
    "the successor, before it restores": AT_THE_CHECKPOINT | {(1, 1): "fmi.restore"},
    "the successor, once it is connected": AT_THE_CHECKPOINT | {(1, 1): "fmi.h2"},
    "two successors in turn": AT_THE_CHECKPOINT | {(1, 1): "fmi.restore", (1, 2): "fmi.h2"},
    "two at once": {(1, 0): "fmi.checkpoint:3", (2, 0): "fmi.checkpoint:3"},
    "all at once": {(rank, 0): "fmi.checkpoint:3" for rank in range(RANKS)},
    "all while they restore": AT_THE_CHECKPOINT | {(rank, 0): "fmi.restore:2" for rank in (0, 2, 3)},
}


@pytest.mark.parametrize("kills", DEATHS.values(), ids=DEATHS.keys())
def test_a_death_in_any_state_changes_nothing_in_the_result(
    launch: Launch, undisturbed: Callable[..., str], kills: dict[tuple[int, int], str]
) -> None:
    expected = undisturbed(RANKS, 16, 60)
    ended = launch("-n", RANKS, "--interval", 10, *armed([str(JACOBI), "16", "60"], kills)).wait()
    assert_survived(ended, expected)
    assert "was killed by signal 9" in ended.err


def test_a_death_in_finalize_is_survived(launch: Launch, undisturbed: Callable[..., str]) -> None:
    """Either all had come there, and the job has ended but for that rank's exit code; or all go on from the last checkpoint."""
    expected = undisturbed(RANKS, 16, 60)
    ended = launch("-n", RANKS, "--interval", 10, *armed([str(JACOBI), "16", "60"], {(1, 0): "fmi.finalize"})).wait()
    assert ended.code in (0, 1, 128 + signal.SIGKILL), ended.err
    assert ended.result() == expected


def test_the_death_of_the_agent_is_survived(
    launch: Launch, undisturbed: Callable[..., str], end_own_agent: Callable[[], None]
) -> None:
    expected = undisturbed(RANKS, CELLS, 2 * STEPS)
    job = launch("-n", RANKS, "--interval", 20, JACOBI, CELLS, 2 * STEPS, PAUSE)
    time.sleep(0.5)
    end_own_agent()
    job.kill(2)
    assert_survived(job.wait(), expected)


def test_a_job_goes_on_where_a_killed_fmirun_has_left_it(launch: Launch, undisturbed: Callable[..., str]) -> None:
    """Where the ranks are to die with it, nothing is left over but the checkpoints."""
    steps = 2 * STEPS
    expected = undisturbed(RANKS, CELLS, steps)
    words = ("-n", RANKS, "--interval", 20, "--orphan-timeout", 0, JACOBI, CELLS)
    job = launch(*words, 100 * steps, 5)  # it is still at it, and long before `steps`, however fast this machine is
    time.sleep(1)
    job.process.send_signal(signal.SIGKILL)
    assert job.wait().code == -signal.SIGKILL
    assert_survived(launch(*words, steps).wait(), expected)


def steps_of_checkpoints() -> list[int]:
    return sorted(version["version"] for version in kedge_json("ls", "fmi")["versions"])


@pytest.mark.parametrize(("interval", "fewest", "most"), [("1h", 1, 1), ("300ms", 3, 30)])
def test_checkpoints_are_taken_when_they_are_due(
    launch: Launch, undisturbed: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interval: str, fewest: int, most: int
) -> None:
    """By Kedge's own schedule, which all ranks follow at the same step, also after a death."""
    expected = undisturbed(RANKS, CELLS, STEPS)
    for key, value in {"STORE_PATH": str(tmp_path / "store"), "KEEP_VERSIONS": "99", "SCHEDULE_INTERVAL": interval}.items():
        monkeypatch.setenv(f"KEDGE_{key}", value)
    job = launch("-n", RANKS, "--interval", "due", JACOBI, CELLS, STEPS, 2 * PAUSE)
    until(lambda: len(job.rank_pids()) == RANKS)
    time.sleep(1)
    job.kill(2)
    assert_survived(job.wait(), expected)
    kedge("wait", "--timeout", "60s")
    steps = steps_of_checkpoints()
    assert steps[0] == 0 and fewest <= len(steps) <= most, steps


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_job(launch: Launch, number: signal.Signals) -> None:
    job = launch("-n", RANKS, JACOBI, CELLS, 100000)
    while len(job.rank_pids()) < RANKS:
        time.sleep(0.01)
    job.process.send_signal(number)
    ended = job.wait()
    assert ended.code == 1
    assert "fmirun: ended by a signal" in ended.err
