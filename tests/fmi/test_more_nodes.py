"""Where a node is lost and no spare is left, a command is asked for another one, which takes the ranks (fmirun --more)."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from waiting import until

from conftest import JACOBI, LIMIT_SECONDS, Job, Launch, Nodes, assert_completed, finish

RANKS, CELLS, STEPS = 4, 40, 800
PAUSE = 5  # milliseconds after a step, so that the job is still at it when it is disturbed


def begin(launch: Launch, nodes: Nodes, more: str, *words: object) -> Job:
    """A job on two nodes, without a spare."""
    return launch("-n", RANKS, "--virtual", nodes.some(2), "--more", more, "--interval", 20, *words, JACOBI, CELLS, STEPS, PAUSE)


def lose_one(nodes: Nodes, name: str) -> None:
    until(lambda: nodes.has_checkpoint(name))
    nodes.lose(name)


def in_turn(nodes: Nodes, folder: Path) -> str:
    """A command that names the third node, then the fourth one, and so on; two may be asked for at once."""
    (folder / "left").write_text("".join(f"{name}\n" for name in nodes.names[2:]))
    return f"flock {folder}/lock sh -c 'head -n 1 {folder}/left && sed -i 1d {folder}/left'"


@pytest.fixture
def expected(undisturbed: Callable[..., str]) -> str:
    return undisturbed(RANKS, CELLS, STEPS)


def test_a_node_that_is_asked_for_takes_the_ranks(launch: Launch, nodes: Nodes, expected: str) -> None:
    first, second, third, *_ = nodes.names
    job = begin(launch, nodes, f"sleep 1; echo {third}")
    lose_one(nodes, second)
    ended = job.wait()
    assert_completed(ended, expected)
    assert f"node {second} is gone" in ended.err and "another node is asked for, for rank 2, 3" in ended.err
    assert f"node {third} has come, and takes rank 2, 3" in ended.err


def test_what_is_lost_while_it_is_waited_for_is_replaced_too(
    launch: Launch, nodes: Nodes, expected: str, tmp_path: Path
) -> None:
    """A rank of the other node, and then a node that came."""
    _, second, third, fourth, *_ = nodes.names
    job = begin(launch, nodes, f"sleep 1; {in_turn(nodes, tmp_path)}")
    lose_one(nodes, second)
    time.sleep(0.5)
    job.kill(0)
    lose_one(nodes, third)
    ended = job.wait()
    assert_completed(ended, expected)
    assert "rank 0 (process" in ended.err
    assert [f"node {name} has come" in ended.err for name in (third, fourth)] == [True, True], ended.err


def test_both_nodes_of_a_job_are_replaced(launch: Launch, nodes: Nodes, expected: str, tmp_path: Path) -> None:
    """Nothing is left then but what is in the store, if anything is."""
    first, second, *_ = nodes.names
    job = begin(launch, nodes, in_turn(nodes, tmp_path))
    until(lambda: nodes.has_checkpoint(first))
    nodes.lose(second)
    nodes.lose(first)
    ended = job.wait()
    assert_completed(ended, expected)
    assert ended.err.count("has come, and takes rank") == 2


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("echo sorry >&2; exit 3", "and it ended with 3"),
        ("echo", 'it names no node, but writes ""'),
        ("echo {first}", "{first} is one of the job already"),
        ("echo x srun --nodelist", "all nodes are names on this machine, which no shell reaches"),
    ],
)
def test_where_none_is_to_be_had_the_job_ends_and_says_so(launch: Launch, nodes: Nodes, more: str, why: str) -> None:
    first, second, *_ = nodes.names
    job = begin(launch, nodes, more.format(first=first))
    lose_one(nodes, second)
    ended = job.wait()
    assert ended.code == 1
    assert "no other node is to be had for rank 2, 3: " in ended.err and why.format(first=first) in ended.err, ended.err


def test_one_that_does_not_come_in_time_ends_the_job(launch: Launch, nodes: Nodes) -> None:
    """Its command ends, too."""
    job = begin(launch, nodes, "exec sleep 1000", "--timeout", "2s")
    lose_one(nodes, nodes.names[1])
    ended = job.wait()
    assert ended.code == 1
    assert "after the failure, no other node has come for rank 2, 3" in ended.err


def shell_that_does_not_reach(name: str, folder: Path) -> Path:
    path = folder / "reach"
    path.write_text(f'#!/bin/sh\n[ "$1" = {name} ] && exit 255\nshift\nexport SSH_CONNECTION="127.0.0.1 4711 127.0.0.1 22"\nexec "$@"\n')
    path.chmod(0o755)
    return path


def test_one_that_is_not_reached_costs_another_request(launch: Launch, nodes: Nodes, expected: str, tmp_path: Path) -> None:
    _, second, third, fourth, *_ = nodes.names
    job = begin(launch, nodes, in_turn(nodes, tmp_path), "--shell", shell_that_does_not_reach(third, tmp_path))
    lose_one(nodes, second)
    ended = job.wait()
    assert_completed(ended, expected)
    assert f"node {third} is gone: its task does not begin (exit code 255); another node is asked for, for rank 2, 3" in ended.err
    assert f"node {fourth} has come, and takes rank 2, 3" in ended.err


def test_a_shell_of_its_own_reaches_it(launch: Launch, nodes: Nodes, expected: str, tmp_path: Path) -> None:
    """As srun for another allocation does."""
    _, second, third, *_ = nodes.names
    used = shell_that_does_not_reach(third, tmp_path)
    its = tmp_path / "its"
    its.write_text(used.read_text().replace("exit 255", "true"))
    its.chmod(0o755)
    job = begin(launch, nodes, f"echo {third} {its}", "--shell", used)
    lose_one(nodes, second)
    ended = job.wait()
    assert_completed(ended, expected)
    assert f"node {third} has come, and takes rank 2, 3" in ended.err


def test_nodes_that_do_not_begin_are_not_asked_for_forever(launch: Launch, nodes: Nodes, tmp_path: Path) -> None:
    lost = nodes.names[2]
    job = begin(launch, nodes, f"echo {lost}", "--shell", shell_that_does_not_reach(lost, tmp_path), "--failures", 3)
    lose_one(nodes, nodes.names[1])
    ended = job.wait()
    assert ended.code == 1
    assert "4 failures without a new checkpoint" in ended.err


def test_one_that_does_not_begin_at_first_is_replaced_once(launch: Launch, nodes: Nodes, expected: str, tmp_path: Path) -> None:
    """Before the ranks are started, too; then a second node that does not begin ends the job."""
    _, second, third, *_ = nodes.names
    reach = shell_that_does_not_reach(second, tmp_path)
    ended = begin(launch, nodes, f"echo {third}", "--shell", reach).wait()
    assert_completed(ended, expected)
    assert f"node {third} has come, and takes rank 2, 3" in ended.err
    for name in nodes.names:
        nodes.lose(name)
    reach.write_text(reach.read_text().replace(f'"$1" = {second}', f'"$1" != {nodes.names[0]}'))
    ended = begin(launch, nodes, f"echo {third}", "--shell", reach).wait()
    assert ended.code == 1
    assert "no spare node is left for rank 2, 3" in ended.err


POINTS = ["fmirun.found", "fmirun.late-task", "fmirun.joins", "fmirun.start:5"]


@pytest.mark.parametrize("point", POINTS)
def test_a_successor_of_fmirun_goes_on_wherever_that_dies(
    launch: Launch, nodes: Nodes, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    monkeypatch.setenv("KEDGE_TEST_KILL_POINT", point)
    job = begin(launch, nodes, in_turn(nodes, tmp_path), "--state", "job")
    monkeypatch.delenv("KEDGE_TEST_KILL_POINT")
    lose_one(nodes, nodes.names[1])
    assert job.process.wait(LIMIT_SECONDS) == -signal.SIGKILL
    ended = finish(job, launch("--take-over", "job"))
    assert_completed(ended, expected)
    assert "takes the job over, in which" in ended.err


def test_a_successor_asks_again_for_what_its_former_fmirun_waited_for(
    launch: Launch, nodes: Nodes, expected: str, tmp_path: Path
) -> None:
    asked = tmp_path / "asked"
    job = begin(launch, nodes, f"[ -e {asked} ] || {{ touch {asked}; exec sleep 1000; }}; echo {nodes.names[2]}", "--state", "job")
    lose_one(nodes, nodes.names[1])
    until(asked.exists)
    job.process.kill()
    ended = finish(job, launch("--take-over", "job"))
    assert_completed(ended, expected)
    assert f"node {nodes.names[2]} has come, and takes rank 2, 3" in ended.err


def test_it_needs_nodes(launch: Launch) -> None:
    ended = launch("-n", 2, "--more", "echo x", JACOBI, CELLS, STEPS).wait()
    assert ended.code == 1 and "--more is for nodes" in ended.err
