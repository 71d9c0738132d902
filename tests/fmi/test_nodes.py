"""Jobs over several virtual nodes, of which ranks, tasks and whole nodes are killed, end with the result of an undisturbed run, to
the last bit."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from connections import end_connections
from hosts import as_user, in_own_network, needs_networks
from processes import agent_pid, kill
from waiting import until

from conftest import JACOBI, Ended, Launch, Nodes, armed

CELLS, STEPS = 40, 600
# Of planes for which the receiver asks the sender.
LONG_CELLS, LONG_STEPS = 96, 60
# Milliseconds after a step, so that a job is still at it when it is disturbed, and does not take the processors until then.
PAUSE = 2


def assert_survived(ended: Ended, expected: str) -> None:
    """Who is killed behind FMI_Finalize takes nothing from the result, but does not end with 0."""
    assert ended.code == 0 or "after FMI_Finalize" in ended.err or "is gone" in ended.err, ended.err
    assert ended.result() == expected, ended.err


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize(("cells", "steps"), [(CELLS, STEPS), (LONG_CELLS, LONG_STEPS)])
def test_the_result_is_that_of_one_node(
    launch: Launch, nodes: Nodes, undisturbed: Callable[..., str], count: int, cells: int, steps: int
) -> None:
    job = launch("-n", 4, "--virtual", nodes.some(count), "--interval", 100, JACOBI, cells, steps)
    ended = job.wait()
    assert ended.code == 0, ended.err
    assert ended.result() == undisturbed(4, cells, steps)


def on_the_wire(launch: Launch, nodes: Nodes, expected: str, file: Path) -> bytes:
    """What goes between two nodes, whose ranks are killed on the way, as somebody hears it who listens there."""
    under = [*in_own_network(), sys.executable, Path(__file__).parents[1] / "listening.py", file, *as_user()]
    words = ["-n", 2, "--virtual", nodes.some(2), "--interval", 20, *armed([str(JACOBI), str(CELLS), str(STEPS)], {(1, 0): "fmi.checkpoint:3"})]
    ended = launch(*words, under=under).wait()
    assert_survived(ended, expected)
    assert "was killed by signal 9" in ended.err
    return file.read_bytes()


@needs_networks
def test_nobody_reads_on_the_wire_what_is_sealed(
    launch: Launch, nodes: Nodes, undisturbed: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ranks' planes shrink to less than half when they are compressed; what is sealed looks like noise, whoever has sent it."""
    expected = undisturbed(2, CELLS, STEPS)
    clear = on_the_wire(launch, nodes, expected, tmp_path / "clear")
    for name in nodes.names:
        nodes.lose(name)
    monkeypatch.setenv("KEDGE_NET_ENCRYPT", "true")
    monkeypatch.setenv("KEDGE_JOB_NAME", "sealed")
    sealed = on_the_wire(launch, nodes, expected, tmp_path / "sealed")
    for wire in (clear, sealed):
        assert len(wire) > STEPS * CELLS * CELLS * 4
    assert len(zlib.compress(clear)) < 0.9 * len(clear)
    assert len(zlib.compress(sealed)) > 0.99 * len(sealed)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))])
@pytest.mark.parametrize(("count", "cells", "steps", "pause"), [(2, CELLS, STEPS, PAUSE), (4, LONG_CELLS, LONG_STEPS, 10 * PAUSE)])
def test_random_kills_of_ranks_change_nothing_in_the_result(
    launch: Launch, nodes: Nodes, undisturbed: Callable[..., str], count: int, cells: int, steps: int, pause: int, seed: int
) -> None:
    """One rank or several at once, any time apart: also while the job recovers from the kill before."""
    draws = random.Random(int(os.environ.get("KEDGE_TEST_SEED", seed)))
    expected = undisturbed(4, cells, steps)
    job = launch("-n", 4, "--virtual", nodes.some(count), "--interval", 20, "--failures", 100, JACOBI, cells, steps, pause)
    kills = 0
    while job.process.poll() is None and kills < 8:
        time.sleep(draws.choice([0.02, 0.1, 0.4]) * draws.random() * 2)
        job.kill(*draws.sample(range(4), draws.choice([1, 1, 1, 2, 3])))
        kills += 1
    assert_survived(job.wait(), expected)


AT_THE_CHECKPOINT = {(1, 0): "fmi.checkpoint:3"}
DEATHS = {
    "before its first checkpoint": {(2, 0): "fmi.checkpoint"},
    "at a checkpoint": AT_THE_CHECKPOINT,
    "a survivor, before it is here": AT_THE_CHECKPOINT | {(2, 0): "fmi.h1:2"},
    "a survivor, before it restores": AT_THE_CHECKPOINT | {(0, 0): "fmi.restore:2"},
    "the successor, once it is connected": AT_THE_CHECKPOINT | {(1, 1): "fmi.h2"},
    "two nodes at once": {(1, 0): "fmi.checkpoint:3", (2, 0): "fmi.checkpoint:3"},
    "all while they restore": AT_THE_CHECKPOINT | {(rank, 0): "fmi.restore:2" for rank in (0, 2, 3)},
}


@pytest.mark.parametrize("kills", DEATHS.values(), ids=DEATHS.keys())
def test_a_death_in_any_state_changes_nothing_in_the_result(
    launch: Launch, nodes: Nodes, undisturbed: Callable[..., str], kills: dict[tuple[int, int], str]
) -> None:
    expected = undisturbed(4, 16, 60)
    ended = launch("-n", 4, "--virtual", nodes.some(2), "--interval", 10, *armed([str(JACOBI), "16", "60"], kills)).wait()
    assert_survived(ended, expected)
    assert "was killed by signal 9" in ended.err


def test_a_spare_takes_the_ranks_of_a_task_that_is_killed(launch: Launch, nodes: Nodes, undisturbed: Callable[..., str]) -> None:
    expected = undisturbed(4, CELLS, 2 * STEPS)
    job = launch("-n", 4, "--virtual", nodes.some(3), "--spares", 1, "--interval", 20, JACOBI, CELLS, 2 * STEPS, PAUSE)
    time.sleep(1)
    os.kill(job.task_pids()[1], signal.SIGKILL)
    ended = job.wait()
    assert ended.code == 0, ended.err
    assert ended.result() == expected
    assert f"node {nodes.names[2]} takes rank 2, 3" in ended.err


def test_a_task_that_is_killed_before_the_first_checkpoint_costs_nothing(
    launch: Launch, nodes: Nodes, undisturbed: Callable[..., str]
) -> None:
    expected = undisturbed(4, 16, 60)
    late = ["sh", "-c", f"sleep 1; exec {JACOBI} 16 60"]
    job = launch("-n", 4, "--virtual", nodes.some(3), "--spares", 1, *late)
    while len(job.rank_pids()) < 4:
        time.sleep(0.01)
    os.kill(job.task_pids()[0], signal.SIGKILL)
    ended = job.wait()
    assert ended.code == 0, ended.err
    assert ended.result() == expected
    assert "takes rank 0, 1 before the first checkpoint; all ranks are started again" in ended.err


@pytest.mark.parametrize("moments", [[0.0], [0.0, 0.0], [0.0, 0.3]], ids=["one", "two at once", "another one during the recovery"])
def test_a_spare_takes_the_ranks_of_a_node_that_is_lost(
    launch: Launch, nodes: Nodes, undisturbed: Callable[..., str], moments: list[float]
) -> None:
    """The node's agent and memory go with it. Where its neighbours have not protected the last checkpoint, it comes from the store."""
    expected = undisturbed(4, CELLS, 2 * STEPS)
    spares = len(moments)
    job = launch("-n", 4, "--virtual", nodes.some(4 + spares), "--spares", spares, "--interval", 20, JACOBI, CELLS, 2 * STEPS, PAUSE)
    until(lambda: nodes.has_checkpoint(nodes.names[1]))
    for lost, moment in enumerate(moments, 1):
        time.sleep(moment)
        nodes.lose(nodes.names[lost])
    ended = job.wait()
    assert ended.code == 0, ended.err
    assert ended.result() == expected
    assert ended.err.count("takes rank") >= spares


def test_a_connection_that_ends_without_a_death_is_survived(
    launch: Launch, nodes: Nodes, undisturbed: Callable[..., str]
) -> None:
    expected = undisturbed(4, CELLS, 2 * STEPS)
    job = launch("-n", 4, "--virtual", nodes.some(2), "--interval", 20, JACOBI, CELLS, 2 * STEPS, PAUSE)
    until(lambda: len(job.rank_pids()) == 4)
    time.sleep(1)
    until(lambda: end_connections(job.rank_pids()[1]) > 0)
    ended = job.wait()
    assert ended.code == 0, ended.err
    assert ended.result() == expected
    assert "has lost a connection; all go back to the last checkpoint" in ended.err


@pytest.mark.parametrize("deaths", [1, 2])
def test_an_agent_that_dies_while_the_ranks_begin_costs_nothing(
    launch: Launch, nodes: Nodes, undisturbed: Callable[..., str], monkeypatch: pytest.MonkeyPatch, deaths: int
) -> None:
    """Its successor serves them, though each of them has found none that others could reach."""
    expected = undisturbed(4, 16, 60)
    monkeypatch.setenv("KEDGE_PROTECT_SCHEME", "xor")
    job = launch("-n", 4, "--virtual", nodes.some(2), "--interval", 10, JACOBI, 16, 60)
    for _ in range(deaths):
        kill(until(lambda: agent_pid(nodes.folder / nodes.names[1])))
    ended = job.wait()
    assert ended.code == 0, ended.err
    assert ended.result() == expected


def test_more_lost_nodes_than_spares_end_the_job(launch: Launch, nodes: Nodes, undisturbed: Callable[..., str]) -> None:
    """It says what it lacks; the next one goes on from there."""
    job = launch("-n", 4, "--virtual", nodes.some(2), "--interval", 20, JACOBI, CELLS, 100 * STEPS, PAUSE)
    time.sleep(1.5)
    nodes.lose(nodes.names[1])
    ended = job.wait()
    assert ended.code == 1
    assert f"fmirun: node {nodes.names[1]} is gone" in ended.err
    assert "no spare node is left for rank 2, 3" in ended.err


def test_a_killed_fmirun_leaves_nothing_where_nobody_is_to_follow(launch: Launch, nodes: Nodes) -> None:
    job = launch("-n", 4, "--virtual", nodes.some(2), "--orphan-timeout", 0, JACOBI, CELLS, 100 * STEPS, PAUSE)
    while len(job.rank_pids()) < 4:
        time.sleep(0.01)
    job.process.send_signal(signal.SIGKILL)
    assert job.wait().code == -signal.SIGKILL


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--virtual", "a,,b"], "--virtual needs different names"),
        (["--virtual", "a,a"], "--virtual needs different names"),
        (["--virtual", "a,b", "--spares", "2"], "2 nodes, 2 of them spares, are too few for 4 ranks"),
        (["--virtual", "a,b,c,d,e"], "5 nodes, 0 of them spares, are too many for 4 ranks"),
        (["--spares", "1"], "1 nodes, 1 of them spares, are too few for 4 ranks"),
        (["--hosts", "-oProxyCommand=true"], "--hosts needs different names"),
        (["--hosts", "a", "--virtual", "b"], "the nodes are named twice"),
        (["--shell", "ssh"], "--shell is for nodes"),
        (["--interface", "127.0.0.1"], "--interface is for nodes on other machines"),
        (["--hosts", "a", "--interface", "here"], '--interface needs an IPv4 address, not "here"'),
    ],
)
def test_wrong_nodes_are_refused(launch: Launch, words: list[str], why: str) -> None:
    ended = launch("-n", 4, *words, JACOBI, CELLS, STEPS).wait()
    assert ended.code == 1
    assert why in ended.err
