"""The calls of fmi.h: what they do, what they say after a failure, and how they refuse misuse."""

from __future__ import annotations

import contextlib
import os
import re
import socket
from pathlib import Path

import pytest
from waiting import until

from conftest import CALLS, Launch


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_calls_do_as_the_header_says(launch: Launch, ranks: int) -> None:
    ended = launch("-n", ranks, CALLS, "all").wait()
    assert (ended.code, ended.out, ended.err) == (0, "ok\n", "")


def test_calls_fail_after_a_death_until_loop_and_survivors_keep_their_memory(launch: Launch) -> None:
    ended = launch("-n", 4, CALLS, "survive").wait()
    assert (ended.code, ended.out) == (0, "ok\n"), ended.err
    assert "rank 1 (process " in ended.err and "was killed by signal 9; it is started again" in ended.err
    assert "all ranks run again after" in ended.err


def test_a_checkpoint_that_does_not_fit_is_refused(launch: Launch) -> None:
    ended = launch("-n", 3, CALLS, "sizes-differ").wait()
    assert ended.code == 1
    assert "FMI_Loop: rank 1: region 0 was saved with 64 bytes, and 48 are protected" in ended.err


def test_a_checkpoint_that_fails_is_a_warning(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEDGE_JOB_MODE", "sync")
    ended = launch("-n", 2, CALLS, "checkpoint-fails").wait()
    assert (ended.code, ended.out) == (0, "ok\n"), ended.err
    assert "the checkpoint of step 3 has failed, and the one before stays" in ended.err
    assert ended.err.count("was killed by signal 9; it is started again") == 1


def test_without_a_store_the_job_ends_at_its_first_step(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEDGE_STORE_PATH", "/proc/nowhere")
    ended = launch("-n", 2, CALLS, "checkpoint-fails").wait()
    assert ended.code == 1
    assert re.search(r"FMI: rank \d: FMI_Loop: .*/proc/nowhere", ended.err)


@pytest.mark.parametrize(
    ("interval", "case", "expected"),
    [
        (1, "loops-differ", "FMI_Loop: rank 1 has called FMI_Finalize, and never sends this message"),
        (100, "loops-differ", "FMI_Finalize: rank 0 has called FMI_Loop 6 times, rank 1 5 times"),
        (100, "loops-differ-by-messages", "FMI: rank 0: FMI_Recv: rank 1 has called FMI_Finalize, and never sends this message"),
    ],
)
def test_ranks_that_loop_unequally_often_are_told(launch: Launch, interval: int, case: str, expected: str) -> None:
    ended = launch("-n", 2, "--interval", interval, CALLS, case).wait()
    assert ended.code == 1
    assert expected in ended.err


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("before-init", "FMI: FMI_Barrier: call it between FMI_Init and FMI_Finalize"),
        ("truncated", "FMI: rank 0: FMI_Recv: the message of 8 bytes from rank 1 (tag 9) does not fit into 4 bytes"),
        ("different-calls", "FMI_Allreduce: ranks do not make the same call: this one is in a reduction of 4 bytes, rank 1 in a barrier"),
        ("no-such-rank", "FMI_Send: the receiver is 2, and there are 2 ranks"),
        ("no-such-communicator", "FMI_Barrier: there is no communicator 5"),
        ("no-such-type", "FMI_Bcast: there is no type 99"),
        ("no-such-operation", "FMI_Allreduce: there is no operation 0 on type 0"),
        ("exit", "fmirun: rank 1 has ended with code 0 before FMI_Finalize"),
    ],
)
def test_misuse_ends_the_job_and_names_rank_and_call(launch: Launch, case: str, expected: str) -> None:
    ended = launch("-n", 2, CALLS, case).wait()
    assert ended.code == 1
    assert expected in ended.err


def test_abort_ends_the_job_with_its_code(launch: Launch) -> None:
    assert launch("-n", 2, CALLS, "abort").wait().code == 9


def test_who_fails_again_and_again_is_given_up(launch: Launch) -> None:
    ended = launch("-n", 2, "--failures", 3, CALLS, "crash-on-and-on").wait()
    assert ended.code == 1
    assert ended.err.count("was killed by signal 9 before the first checkpoint; all ranks are started again") == 3
    assert "4 failures without a new checkpoint" in ended.err


def test_no_failure_is_survived_where_that_is_meant(launch: Launch) -> None:
    ended = launch("-n", 2, "--failures", 0, CALLS, "crash-on-and-on").wait()
    assert ended.code == 1
    assert ended.err.endswith("was killed by signal 9\nfmirun: no failure is survived (--failures 0)\n")


def test_who_proves_no_secret_takes_no_room(launch: Launch) -> None:
    """The oldest of those that have connected to fmirun and say nothing are let go."""
    job = launch("-n", 2, "sleep", 600)
    until(lambda: len(job.rank_pids()) == 2)
    strangers = [socket.create_connection(("127.0.0.1", listening_port(job.process.pid))) for _ in range(200)]
    try:
        until(lambda: sum(is_over(stranger) for stranger in strangers) >= 200 - 65, seconds=20)
        assert len(job.rank_pids()) == 2
        job.process.terminate()
        assert "ended by a signal" in job.wait().err
    finally:
        for stranger in strangers:
            stranger.close()


def listening_port(pid: int) -> int:
    """Of its only listener."""
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            inodes.add(os.readlink(entry))
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    (address,) = [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in inodes]
    return int(address.split(":")[1], 16)


def is_over(connection: socket.socket) -> bool:
    """Whether the other side has ended it. What it says first is read over."""
    with contextlib.suppress(BlockingIOError):
        try:
            while connection.recv(4096, socket.MSG_DONTWAIT):
                pass
        except ConnectionResetError:
            pass
        return True
    return False


def test_a_rank_that_never_comes_to_loop_is_named(launch: Launch) -> None:
    ended = launch("-n", 3, "--timeout", "2s", CALLS, "never-loops").wait()
    assert ended.code == 1
    assert "after the failure, rank 2 has not come to where all go on together" in ended.err


def test_a_program_is_started_by_fmirun_alone(launch: Launch) -> None:
    ended = launch("-n", 1, "env", "-u", "FMI_RANK", CALLS, "all").wait()
    assert ended.code == 1
    assert "FMI: FMI_Init: this process is not started by fmirun: FMI_RANK is not set" in ended.err


def test_fmirun_runs_programs_that_know_nothing_of_it(launch: Launch) -> None:
    ended = launch("-n", 2, "sh", "-c", "echo $FMI_RANKS").wait()
    assert (ended.code, ended.out) == (0, "2\n2\n")
    assert launch("-n", 2, "sh", "-c", "exit 3").wait().code == 3


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-n", "0", "true"], '-n needs a number from 1 to 1024, not "0"'),
        (["-n", "2"], "-n RANKS and a program are needed"),
        (["true"], "-n RANKS and a program are needed"),
        (["--frequency", "2", "true"], 'unknown option "--frequency"'),
        (["-n", "1", "/nowhere/program"], "rank 0: start /nowhere/program: No such file or directory"),
    ],
)
def test_fmirun_refuses_what_it_cannot_do(launch: Launch, words: list[str], expected: str) -> None:
    ended = launch(*words).wait()
    assert ended.code == 1
    assert expected in ended.err
