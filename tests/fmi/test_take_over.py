"""A job outlives its fmirun: the ranks run on, and a successor takes over, whatever has befallen ranks and nodes meanwhile. The result is
that of an undisturbed run, to the last bit."""

from __future__ import annotations

import os
import random
import re
import signal
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from connections import end_connections
from processes import kill, processes_with
from waiting import until

from conftest import JACOBI, LIMIT_SECONDS, Job, Launch, Nodes, armed, assert_completed, finish

RANKS, CELLS, STEPS = 4, 40, 600
# Milliseconds after a step, so that a job is still at it when it is disturbed, also beside other work.
PAUSE = 5
REPLACED = 79


def kill_fmirun(job: Job) -> None:
    job.process.kill()
    job.process.wait()


def runs(job: Job, ranks: int = RANKS) -> bool:
    return len(job.rank_pids()) == ranks


# Where fmirun dies, and how its ranks die before.
NOBODY: dict[tuple[int, int], str] = {}
AT_THE_CHECKPOINT = {(1, 0): "fmi.checkpoint:3"}
BEFORE_THE_CHECKPOINT = {(2, 0): "fmi.checkpoint"}
DEATHS = {
    "before a task has answered": ("fmirun.tasks", NOBODY),
    "before the tasks are to outlive it": ("fmirun.noted", NOBODY),
    "before a rank is started": ("fmirun.kept", NOBODY),
    "while ranks are started": ("fmirun.start:3", NOBODY),
    "in a failure, before a rank is started again": ("fmirun.epoch", AT_THE_CHECKPOINT),
    "in a failure, while a rank is started again": ("fmirun.start:5", AT_THE_CHECKPOINT),
    "in a failure of two, between them": ("fmirun.start:6", {(1, 0): "fmi.checkpoint:3", (2, 0): "fmi.checkpoint:3"}),
    "while all begin anew, before they do": ("fmirun.kill-all", BEFORE_THE_CHECKPOINT),
    "while all begin anew, in the middle": ("fmirun.start:7", BEFORE_THE_CHECKPOINT),
    "before the end is told": ("fmirun.finished", NOBODY),
    "when the end is told": ("fmirun.told", NOBODY),
    "before the tasks leave": ("fmirun.leave", NOBODY),
    "when the tasks have left": ("fmirun.left", NOBODY),
}


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(("point", "kills"), DEATHS.values(), ids=DEATHS.keys())
def test_a_successor_goes_on_wherever_fmirun_dies(
    launch: Launch, nodes: Nodes, undisturbed: Callable[..., str], monkeypatch: pytest.MonkeyPatch,
    point: str, kills: dict[tuple[int, int], str], count: int,
) -> None:
    expected = undisturbed(RANKS, 16, 60)
    where = ("--virtual", nodes.some(count)) if count > 1 else ()
    monkeypatch.setenv("KEDGE_TEST_KILL_POINT", point)
    job = launch("-n", RANKS, *where, "--interval", 10, "--state", "job", *armed([str(JACOBI), "16", "60"], kills))
    assert job.process.wait(LIMIT_SECONDS) == -signal.SIGKILL
    monkeypatch.delenv("KEDGE_TEST_KILL_POINT")
    assert_completed(finish(job, launch("--take-over", "job")), expected)


@pytest.mark.parametrize("point", ["fmirun.reached", "fmirun.resumed", "fmirun.epoch"])
def test_a_successor_may_die_too(
    launch: Launch, nodes: Nodes, undisturbed: Callable[..., str], monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    expected = undisturbed(RANKS, CELLS, STEPS)
    job = launch("-n", RANKS, "--virtual", nodes.some(2), "--interval", 20, "--state", "job", JACOBI, CELLS, STEPS, PAUSE)
    until(lambda: nodes.has_checkpoint(nodes.names[0]))
    kill_fmirun(job)
    job.kill(1)
    monkeypatch.setenv("KEDGE_TEST_KILL_POINT", point)
    second = launch("--take-over", "job")
    assert second.process.wait(LIMIT_SECONDS) == -signal.SIGKILL
    monkeypatch.delenv("KEDGE_TEST_KILL_POINT")
    assert_completed(finish(job, second, launch("--take-over", "job")), expected)


def test_the_ranks_run_on_undisturbed(launch: Launch, nodes: Nodes, undisturbed: Callable[..., str]) -> None:
    """They come to the end while nobody is there, and wait for being told that all have."""
    expected = undisturbed(RANKS, CELLS, STEPS)
    job = launch("-n", RANKS, "--virtual", nodes.some(2), "--interval", 20, "--state", "job", JACOBI, CELLS, STEPS, PAUSE)
    until(lambda: runs(job))
    before = job.rank_pids()
    kill_fmirun(job)
    time.sleep(4)
    assert job.rank_pids() == before
    second = launch("--take-over", "job")
    ended = finish(job, second)
    assert_completed(ended, expected)
    assert f"takes the job over, in which {RANKS} of {RANKS} ranks run" in ended.err
    assert "last checkpoint" not in ended.err and "started again" not in ended.err


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 9))])
def test_random_kills_of_fmirun_and_ranks_change_nothing_in_the_result(
    launch: Launch, nodes: Nodes, undisturbed: Callable[..., str], tmp_path: Path, seed: int
) -> None:
    draws = random.Random(int(os.environ.get("KEDGE_TEST_SEED", seed)))
    expected = undisturbed(RANKS, CELLS, STEPS)
    where = draws.choice([(), ("--virtual", nodes.some(2))])
    state = tmp_path / "state"
    jobs = [launch("-n", RANKS, *where, "--interval", 20, "--failures", 100, "--state", state, JACOBI, CELLS, STEPS, PAUSE)]
    until(lambda: list(state.glob("state.1")))
    while jobs[-1].process.poll() is None and len(jobs) < 6:
        time.sleep(draws.choice([0.05, 0.4, 1.0]) * draws.random())
        deaths = draws.sample(range(RANKS), draws.choice([0, 1, 2]))
        if draws.random() < 0.5:
            jobs[-1].kill(*deaths)
        kill_fmirun(jobs[-1])
        jobs[-1].kill(*deaths)
        time.sleep(draws.choice([0, 0.3]) * draws.random())
        if jobs[-1].process.returncode != -signal.SIGKILL:
            break
        jobs.append(launch("--take-over", state))
    ended = finish(*jobs)
    assert ended.code == 0 or "after FMI_Finalize" in ended.err or "no fmirun has left anything" in ended.err, ended.err
    assert ended.result() == expected, ended.err


def test_a_node_that_is_lost_together_with_fmirun_is_replaced(
    launch: Launch, nodes: Nodes, undisturbed: Callable[..., str]
) -> None:
    expected = undisturbed(RANKS, CELLS, 2 * STEPS)
    job = launch("-n", RANKS, "--virtual", nodes.some(3), "--spares", 1, "--interval", 20, "--state", "job", JACOBI, CELLS, 2 * STEPS, PAUSE)
    until(lambda: nodes.has_checkpoint(nodes.names[1]))
    kill_fmirun(job)
    nodes.lose(nodes.names[1])
    ended = finish(job, launch("--take-over", "job"))
    assert_completed(ended, expected)
    assert f"node {nodes.names[2]} takes rank 2, 3" in ended.err


def test_a_lost_node_without_a_spare_ends_the_job(launch: Launch, nodes: Nodes) -> None:
    job = launch("-n", RANKS, "--virtual", nodes.some(2), "--interval", 20, "--state", "job", JACOBI, CELLS, 100 * STEPS, PAUSE)
    until(lambda: runs(job))
    kill_fmirun(job)
    nodes.lose(nodes.names[1])
    ended = finish(job, launch("--take-over", "job"))
    assert ended.code == 1
    assert "no spare node is left for rank 2, 3" in ended.err


def test_a_former_fmirun_that_only_stood_still_leaves(launch: Launch, nodes: Nodes, undisturbed: Callable[..., str]) -> None:
    """It wakes up when its successor has started a rank again, and ends nothing."""
    expected = undisturbed(RANKS, CELLS, 2 * STEPS)
    job = launch("-n", RANKS, "--virtual", nodes.some(2), "--interval", 20, "--state", "job", JACOBI, CELLS, 2 * STEPS, PAUSE)
    until(lambda: runs(job))
    time.sleep(0.5)
    job.process.send_signal(signal.SIGSTOP)
    job.kill(2)
    second = launch("--take-over", "job")
    until(lambda: runs(job))
    time.sleep(0.5)
    before = job.rank_pids()
    job.process.send_signal(signal.SIGCONT)
    assert job.process.wait(LIMIT_SECONDS) == REPLACED
    assert job.rank_pids() == before
    ended = finish(job, second)
    assert_completed(ended, expected)
    assert "another fmirun has taken the job over, and this one leaves" in ended.err


def test_of_two_successors_at_once_one_goes_on(launch: Launch, undisturbed: Callable[..., str]) -> None:
    expected = undisturbed(RANKS, CELLS, STEPS)
    job = launch("-n", RANKS, "--interval", 20, "--state", "job", JACOBI, CELLS, STEPS, PAUSE)
    until(lambda: runs(job))
    kill_fmirun(job)
    pair = [launch("--take-over", "job") for _ in range(2)]
    until(lambda: any(one.process.poll() in (1, REPLACED) for one in pair))
    loser, winner = sorted(pair, key=lambda one: one.process.poll() not in (1, REPLACED))
    ended = finish(job, loser, winner)
    assert_completed(ended, expected)
    assert "another fmirun has taken the job over" in ended.err or "another fmirun takes the job over" in ended.err


def test_the_same_command_again_takes_over(launch: Launch, undisturbed: Callable[..., str]) -> None:
    expected = undisturbed(RANKS, CELLS, STEPS)
    words = ("-n", RANKS, "--interval", 20, JACOBI, CELLS, STEPS, PAUSE)
    job = launch(*words)
    until(lambda: runs(job))
    kill_fmirun(job)
    ended = finish(job, launch(*words))
    assert_completed(ended, expected)
    assert "takes the job over, in which 4 of 4 ranks run" in ended.err


def test_the_same_command_goes_on_from_the_checkpoints_where_all_has_died(launch: Launch, undisturbed: Callable[..., str]) -> None:
    expected = undisturbed(RANKS, CELLS, STEPS)
    words = ("-n", RANKS, "--interval", 20, JACOBI, CELLS, STEPS, PAUSE)
    job = launch(*words)
    until(lambda: runs(job))
    time.sleep(0.5)
    kill_fmirun(job)
    kill(job.task_pids()[0])
    ended = finish(job, launch(*words))
    assert_completed(ended, expected)
    assert "no task of the job is left" in ended.err


def test_another_command_of_the_job_ends_what_is_left(launch: Launch, undisturbed: Callable[..., str]) -> None:
    """Two jobs must not take checkpoints under one name."""
    expected = undisturbed(RANKS, CELLS, STEPS)
    words = ("-n", RANKS, "--interval", 20, JACOBI, CELLS)
    job = launch(*words, 100 * STEPS, PAUSE)
    until(lambda: runs(job))
    before = set(job.rank_pids().values())
    kill_fmirun(job)
    second = launch(*words, STEPS, PAUSE)
    until(lambda: runs(second) and not before & set(second.rank_pids().values()))
    ended = finish(job, second)
    assert_completed(ended, expected)
    assert "ends what another command has left" in ended.err


def test_jobs_of_one_name_do_not_meet(launch: Launch) -> None:
    """While their fmirun live: these take no checkpoints, so that they may have one name."""
    words = ("-n", 2, "sh", "-c", "sleep 2; exit 3")
    first, second = launch(*words), launch(*words)
    assert first.process.wait(LIMIT_SECONDS) == 3
    assert finish(first, second).code == 3


def test_ranks_whose_fmirun_nobody_follows_end(launch: Launch, nodes: Nodes) -> None:
    job = launch("-n", RANKS, "--virtual", nodes.some(2), "--orphan-timeout", "6s", "--state", "job", JACOBI, CELLS, 100 * STEPS, PAUSE)
    until(lambda: runs(job))
    kill_fmirun(job)
    time.sleep(0.5)
    assert runs(job)
    ended = finish(job)
    assert re.search("fmirun is gone, and the ranks run on: fmirun --take-over /dev/shm/.*job goes on within 6.00 s", ended.err), ended.err
    assert "no fmirun has taken over node 1 within 6.00 s, and its ranks end" in ended.err
    late = launch("--take-over", "job").wait()
    assert late.code == 1 and "no fmirun has left anything" in late.err


def test_what_is_left_is_the_users_alone(launch: Launch, nodes: Nodes, tmp_path: Path) -> None:
    """And the job's secret stands in its file alone."""
    state = tmp_path / "deep" / "state"
    job = launch("-n", RANKS, "--virtual", nodes.some(2), "--state", state, JACOBI, CELLS, 100 * STEPS, PAUSE)
    until(lambda: runs(job))
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    secret = (state / "secret").read_text()
    assert re.fullmatch("[0-9a-f]{64}", secret)
    for file in state.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert file.name == "secret" or secret.encode() not in file.read_bytes()
    job.process.terminate()
    assert job.wait().code == 1
    assert not state.exists()


def detaching_shell(tmp_path: Path) -> Path:
    """What it starts on a node outlives it."""
    path = tmp_path / "reach"
    path.write_text('#!/bin/sh\nshift\nexport SSH_CONNECTION="127.0.0.1 4711 127.0.0.1 22"\nexec 3<&0\n"$@" <&3 &\nwait $!\n')
    path.chmod(0o755)
    return path


def test_tasks_that_have_lost_their_shells_together_with_fmirun_are_reached(
    launch: Launch, nodes: Nodes, undisturbed: Callable[..., str], tmp_path: Path
) -> None:
    """As when the machine of fmirun is gone. What the ranks write then is lost, and does not end them."""
    expected = undisturbed(RANKS, CELLS, STEPS)
    words = ("-n", RANKS, "--virtual", nodes.some(2), "--shell", detaching_shell(tmp_path), "--interval", 20, "--state", tmp_path / "state")
    job = launch(*words, "sh", "-c", f'{JACOBI} {CELLS} {STEPS} {PAUSE} > {tmp_path}/out.$FMI_RANK; echo told; exit 0')
    until(lambda: runs(job))
    time.sleep(0.5)
    kill_fmirun(job)
    for pid in processes_with([job.mark.encode()]):
        with suppress(OSError):
            if b"reach" in Path(f"/proc/{pid}/cmdline").read_bytes():
                kill(pid)
    job.process.stdout.close()  # type: ignore[union-attr]
    second = launch("--take-over", tmp_path / "state")
    ended = second.wait()
    assert ended.code == 0, ended.err
    assert expected in (tmp_path / "out.0").read_text()


def test_a_task_that_has_lost_its_connection_alone_ends(launch: Launch, nodes: Nodes, undisturbed: Callable[..., str], tmp_path: Path) -> None:
    """It asks fmirun, which lives, and has given its ranks to a spare."""
    expected = undisturbed(RANKS, CELLS, 2 * STEPS)
    words = ("-n", RANKS, "--virtual", nodes.some(3), "--spares", 1, "--shell", detaching_shell(tmp_path), "--interval", 20)
    job = launch(*words, JACOBI, CELLS, 2 * STEPS, PAUSE)
    until(lambda: runs(job))
    time.sleep(0.5)
    task = next(pid for pid in job.task_pids() if f"KEDGE_NODE={nodes.names[1]}".encode() in Path(f"/proc/{job_rank(pid)}/environ").read_bytes())
    assert end_connections(task) > 0
    until(lambda: task not in job.task_pids())
    ended = job.wait()
    assert_completed(ended, expected)
    assert f"node {nodes.names[2]} takes rank 2, 3" in ended.err


def job_rank(task: int) -> int:
    """A rank of the task, or the task itself where it has none."""
    found = Path(f"/proc/{task}/task/{task}/children").read_text().split()
    return int(found[0]) if found else task


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--take-over", "nothing"], r"no fmirun has left anything in /dev/shm/kedge-fmirun-\d+/.*\.nothing"),
        (["--take-over", "x", "-n", "2"], "only --interface may stand beside it"),
        (["--take-over", "x", "--state", "y"], "only --interface may stand beside it"),
        (["--take-over", "x", "program"], "only --interface may stand beside it"),
        (["--take-over", ""], "--take-over needs a folder or the name of a job"),
        (["-n", "2", "--orphan-timeout", "soon", "program"], "soon"),
    ],
)
def test_wrong_calls_are_refused(launch: Launch, words: list[str], why: str) -> None:
    ended = launch(*words).wait()
    assert ended.code == 1
    assert re.search(why, ended.err), ended.err


def test_a_folder_of_somebody_else_is_left_alone(launch: Launch, tmp_path: Path) -> None:
    (tmp_path / "photos" / "2026").mkdir(parents=True)
    (tmp_path / "photos").chmod(0o700)
    for words in (["--take-over", f"{tmp_path}/photos"], ["-n", "1", "--state", f"{tmp_path}/photos", "true"]):
        ended = launch(*words).wait()
        assert ended.code == 1 and "is no folder of a job" in ended.err, ended.err
    assert (tmp_path / "photos" / "2026").is_dir()


def test_the_fmirun_of_a_named_state_is_not_doubled(launch: Launch) -> None:
    words = ("-n", RANKS, "--state", "job", JACOBI, CELLS, 100 * STEPS, PAUSE)
    job = launch(*words)
    until(lambda: runs(job))
    second = launch(*words).process
    assert "lives; --take-over replaces it" in second.communicate(timeout=LIMIT_SECONDS)[1]
    assert second.returncode == 1 and runs(job)
    job.process.terminate()
    job.wait()
