"""Communicators: what their calls do, how they refuse misuse, and that they come back after kills without being made anew."""

from __future__ import annotations

import os
import random
import time

import pytest
from waiting import until

from conftest import COMMUNICATORS, GRID, Launch, Nodes, armed, assert_survived

RANKS, STEPS = 6, 60


@pytest.fixture
def undisturbed_grid(launch: Launch) -> str:
    """What grid says where nothing happens, and no checkpoint but the first is taken."""
    ended = launch("-n", RANKS, "--interval", 10000, "env", "KEDGE_JOB_NAME=undisturbed", GRID, STEPS).wait()
    assert ended.code == 0, ended.err
    return ended.result()


@pytest.mark.parametrize("ranks", [1, 2, 3, 6])
def test_communicators_do_as_the_header_says(launch: Launch, ranks: int) -> None:
    ended = launch("-n", ranks, COMMUNICATORS, "all").wait()
    assert (ended.code, ended.out, ended.err) == (0, "ok\n", "")


def test_communicators_do_the_same_over_several_nodes(launch: Launch, nodes: Nodes) -> None:
    ended = launch("-n", 4, "--virtual", nodes.some(2), COMMUNICATORS, "all").wait()
    assert (ended.code, ended.out) == (0, "ok\n"), ended.err


def test_communicators_come_back_as_they_were_at_the_checkpoint(launch: Launch) -> None:
    """Also one that was freed since; and a rank that was started again has the same handles."""
    ended = launch("-n", 4, "--interval", 100, COMMUNICATORS, "come-back").wait()
    assert (ended.code, ended.out) == (0, "ok\n"), ended.err
    assert "rank 1 (process " in ended.err and "it is started again" in ended.err


def test_a_communicator_that_was_made_after_the_checkpoint_is_gone(launch: Launch) -> None:
    ended = launch("-n", 4, "--interval", 100, COMMUNICATORS, "stale").wait()
    assert ended.code == 1
    assert "FMI_Barrier: communicator 3 is gone: it was freed, or made after the checkpoint that has come back" in ended.err


# The grid makes three communicators, and then one at every third step.
IN_THE_LOOP = "fmi.communicator:8"
DEATHS = {
    "before the first checkpoint, while they are made": {(1, 0): "fmi.communicator:2"},
    "while one is made": {(1, 0): IN_THE_LOOP},
    "while one is made in which it is not": {(2, 0): "fmi.communicator:4"},
    "after some were made and freed": {(3, 0): "fmi.checkpoint:9"},
    "two of a row at once": {(0, 0): IN_THE_LOOP, (1, 0): IN_THE_LOOP},
    "two of different rows at once": {(1, 0): IN_THE_LOOP, (4, 0): IN_THE_LOOP},
    "all at once": {(rank, 0): IN_THE_LOOP for rank in range(RANKS)},
    "all but one": {(rank, 0): IN_THE_LOOP for rank in range(1, RANKS)},
    "a survivor, before it has its communicators back": {(1, 0): IN_THE_LOOP, (2, 0): "fmi.restore:2"},
    "a survivor, once it has them back": {(1, 0): IN_THE_LOOP, (0, 0): "fmi.h2:2"},
    "the successor, once it has them back": {(1, 0): IN_THE_LOOP, (1, 1): "fmi.h2"},
    "the successor, while it makes its first one": {(1, 0): IN_THE_LOOP, (1, 1): "fmi.communicator"},
    "the successor, and another one while that is made": {(1, 0): IN_THE_LOOP, (1, 1): "fmi.communicator", (5, 0): "fmi.communicator:12"},
}


@pytest.mark.parametrize("kills", DEATHS.values(), ids=DEATHS.keys())
def test_a_death_around_a_communicator_changes_nothing_in_the_result(
    launch: Launch, undisturbed_grid: str, kills: dict[tuple[int, int], str]
) -> None:
    ended = launch("-n", RANKS, "--interval", 4, *armed([str(GRID), str(STEPS)], kills)).wait()
    assert_survived(ended, undisturbed_grid)
    assert "was killed by signal 9" in ended.err


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 10))])
def test_random_kills_change_nothing_in_what_communicators_bring(launch: Launch, seed: int) -> None:
    """One rank or several at once, any time apart: also while the job recovers from the kill before."""
    steps = 3000
    draws = random.Random(int(os.environ.get("KEDGE_TEST_SEED", seed)))
    expected = launch("-n", 4, "--interval", 10000, "env", "KEDGE_JOB_NAME=undisturbed", GRID, steps).wait().result()
    job = launch("-n", 4, "--interval", 20, "--failures", 100, GRID, steps)
    kills = 0
    while job.process.poll() is None and kills < 8:
        time.sleep(draws.choice([0.02, 0.1, 0.4]) * draws.random() * 2)
        job.kill(*draws.sample(range(4), draws.choice([1, 1, 1, 2, 3])))
        kills += 1
    assert_survived(job.wait(), expected)


def test_a_job_that_begins_anew_has_the_communicators_of_its_checkpoint(launch: Launch, undisturbed_grid: str) -> None:
    """All ranks make theirs before the loop together, which then brings back others, those of the loop among them."""
    program = armed([str(GRID), str(STEPS)], {(1, 0): IN_THE_LOOP})
    ended = launch("-n", RANKS, "--interval", 4, "--failures", 0, *program).wait()
    assert (ended.code, ended.out) == (1, "")
    assert_survived(launch("-n", RANKS, "--interval", 4, GRID, STEPS).wait(), undisturbed_grid)


def test_a_spare_has_the_communicators_of_a_node_that_is_lost(launch: Launch, nodes: Nodes) -> None:
    steps = 6000
    expected = launch("-n", 4, "--interval", 10000, "env", "KEDGE_JOB_NAME=undisturbed", GRID, steps).wait().result()
    job = launch("-n", 4, "--virtual", nodes.some(3), "--spares", 1, "--interval", 20, GRID, steps)
    until(lambda: nodes.has_checkpoint(nodes.names[1]))
    nodes.lose(nodes.names[1])
    ended = job.wait()
    assert (ended.code, ended.result()) == (0, expected), ended.err
    assert "takes rank 2, 3" in ended.err


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("freed", "FMI_Barrier: communicator 1 is gone: it was freed, or made after the checkpoint that has come back"),
        ("null", "FMI_Barrier: the communicator is FMI_COMM_NULL"),
        ("never", "FMI_Send: there is no communicator 5"),
        ("free-world", "FMI_Comm_free: FMI_COMM_WORLD cannot be freed"),
        ("rank", "FMI: rank 1: FMI_Send: the receiver is 1, and there are 1 ranks"),
        ("root", "FMI: rank 1: FMI_Bcast: the root is 1, and there are 1 ranks"),
        ("truncated", "FMI: rank 0: FMI_Recv: the message of 8 bytes from rank 1 (tag 9) does not fit into 4 bytes"),
        ("colour", "FMI_Comm_split: the colour is -1"),
        ("different", "ranks do not make the same call: rank 0 is in FMI_Comm_dup, and rank 1 in FMI_Comm_split"),
        ("not-made", "in the making of a communicator of "),
        ("group", "FMI_Group_incl: rank 2 is asked for, and the group has 2 ranks"),
        ("freed-group", "FMI_Group_size: group 1 is gone: it was freed, or made after the checkpoint that has come back"),
        ("others-group", "FMI_Comm_create: the group has rank "),
        ("no-grid", "FMI_Cart_coords: communicator 0 is no grid"),
        ("large-grid", "FMI_Cart_create: the grid 2 x 2 has more places than the communicator has ranks, 2"),
        ("outside", "FMI_Cart_rank: (2) lies outside the grid 2"),
        ("dimension", "FMI_Cart_shift: the dimension is 1, and the grid has 1"),
    ],
)
def test_misuse_of_communicators_ends_the_job_and_names_rank_and_call(launch: Launch, case: str, expected: str) -> None:
    ended = launch("-n", 2, COMMUNICATORS, case).wait()
    assert ended.code == 1
    assert expected in ended.err
