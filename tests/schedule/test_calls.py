"""What all ranks are told alike at the same call: that a checkpoint is due, that the job is to end. Ranks are threads.

The agent that serves them is real; it is told to halt the job, killed or stopped, or there are two of it, which reach each other or
do not, or none.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import end_agent
from kedge import Context
from processes import agent_pid
from schedule_support import kedge_runs, until
from threaded_communicator import ThreadedCommunicator, run_ranks
from tool import KEDGE, kedge, kedge_json, kedge_text

# No address of this machine: an agent that is to be reached there opens no network.
NOWHERE = "203.0.113.1"
RANKS = 3
STEPS_MAX = 20_000


class Ranks:
    """Ranks that ask at every step, each at its own speed, until they are told to exit; what each was told, and where."""

    def __init__(self, checkpoint_every: int = 0, settings: Callable[[int], dict[str, object]] = lambda rank: {}) -> None:
        self.checkpoint_every, self.settings = checkpoint_every, settings
        self.due: list[list[int]] = [[] for _ in range(RANKS)]
        self.exit: list[int | None] = [None] * RANKS
        self.steps = [0] * RANKS
        self.checkpoints = [0] * RANKS
        self.failures: list[BaseException] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            run_ranks(RANKS, self._rank)
        except BaseException as failure:  # noqa: BLE001
            self.failures.append(failure)

    def _rank(self, rank: int, communicator: ThreadedCommunicator) -> None:
        settings: dict[str, object] = {"schedule.interval": "1h", "wait.timeout": "40s"} | self.settings(rank)
        context = Context("asked", communicator=communicator, settings=settings)
        try:
            self._loop(rank, communicator, context)
        finally:
            context.close(drain=False)  # the agent may be dead: what it holds is its successor's

    def _loop(self, rank: int, communicator: ThreadedCommunicator, context: Context) -> None:
        data = np.zeros(100)
        context.protect(0, data)
        for step in range(STEPS_MAX):
            self.steps[rank] = step
            if step % 25 == 24:
                communicator.barrier()  # as in a program, where no rank runs far ahead of another
            time.sleep(0.0005 * (1 + rank))
            is_due = context.checkpoint_due()
            if is_due:
                self.due[rank].append(step)
            if is_due or (self.checkpoint_every and step % self.checkpoint_every == self.checkpoint_every - 1):
                context.checkpoint("sim", step)
                self.checkpoints[rank] += 1
            if context.should_exit():
                self.exit[rank] = step
                assert context.should_exit(), "once told, always told"
                return

    def until(self, condition: Callable[[], Any], seconds: float = 30) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert self._thread.is_alive(), f"the ranks have ended: {self.failures}"
            assert time.monotonic() < deadline, "it did not come true in time"
            time.sleep(0.005)

    def until_running(self) -> None:
        self.until(lambda: min(self.steps) > 20)

    def join(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive(), "some rank still runs"
        if self.failures:
            raise self.failures[0]

    def assert_ended_alike(self) -> None:
        self.join()
        assert self.exit[0] is not None and len(set(self.exit)) == 1, self.exit
        assert self.due[0] == self.due[1] == self.due[2]
        assert len(set(self.checkpoints)) == 1


@pytest.fixture
def second_node(run_folder: Path) -> Iterator[Path]:
    folder = run_folder.with_name("node-b")
    yield folder
    end_agent(folder)
    shutil.rmtree(folder, ignore_errors=True)


def test_ranks_of_different_speed_take_the_same_checkpoints_and_end_together(run_folder: Path) -> None:
    ranks = Ranks(settings=lambda rank: {"schedule.interval": "60ms"})
    ranks.until(lambda: min(len(due) for due in ranks.due) >= 4)
    assert kedge_json("halt")["jobs"] == [{"job": "asked", "attempt": 1, "has_rank_0": True}]
    ranks.assert_ended_alike()


def test_a_halt_waits_for_the_next_checkpoint(run_folder: Path) -> None:
    ranks = Ranks(checkpoint_every=800)
    ranks.until_running()
    assert "ends after its next checkpoint" in kedge_text("halt", "asked")
    assert kedge_json("status")["jobs"][0]["halting"]
    ranks.assert_ended_alike()
    assert ranks.checkpoints == [1] * RANKS and ranks.exit[0] is not None and ranks.exit[0] >= 799


def test_halt_now_asks_for_a_checkpoint(run_folder: Path) -> None:
    ranks = Ranks()
    ranks.until_running()
    kedge("halt", "--now")
    ranks.assert_ended_alike()
    assert len(ranks.due[0]) == 1 and ranks.checkpoints == [1] * RANKS


def test_the_last_checkpoint_before_a_halt_goes_to_the_store_whatever_its_turn(run_folder: Path) -> None:
    ranks = Ranks(checkpoint_every=300, settings=lambda rank: {"schedule.store": 100})
    ranks.until(lambda: min(ranks.checkpoints) >= 2)
    kedge("halt", "--now")
    ranks.assert_ended_alike()
    kedge("wait")
    stored = [entry["version"] for entry in kedge_json("ls")["versions"] if entry["complete"]]
    assert len(stored) == 2 and stored[0] == max(ranks.due[0]) and stored[1] == 299


def test_halt_at_once_needs_no_checkpoint(run_folder: Path) -> None:
    ranks = Ranks()
    ranks.until_running()
    kedge("halt", "--at-once")
    ranks.assert_ended_alike()
    assert ranks.checkpoints == [0] * RANKS


def test_a_halt_that_is_taken_back_and_one_of_the_last_attempt_do_not_hold(run_folder: Path) -> None:
    ranks = Ranks(checkpoint_every=1500)
    ranks.until_running()
    kedge("halt")
    kedge("halt", "--cancel")
    ranks.until(lambda: min(ranks.checkpoints) >= 1 and min(ranks.steps) > 1600)
    assert ranks.exit == [None] * RANKS
    kedge("halt", "--at-once")
    ranks.assert_ended_alike()
    again = Ranks()
    again.until(lambda: min(again.steps) > 400)
    assert again.exit == [None] * RANKS
    kedge("halt", "--at-once")
    again.assert_ended_alike()


def test_halting_what_does_not_run_says_so(run_folder: Path) -> None:
    assert "no agent runs" in kedge_text("halt", expect=3)
    with Context("asked") as context:
        assert "no job 'other' runs" in kedge_text("halt", "other", expect=1)
        assert not context.should_exit()


def test_an_agents_successor_halts_the_job(run_folder: Path) -> None:
    """The halt was noted; the agent dies before the checkpoint that it waits for."""
    ranks = Ranks(checkpoint_every=1000)
    ranks.until_running()
    kedge("halt")
    first = agent_pid(run_folder)
    assert first is not None
    os.kill(first, signal.SIGKILL)
    assert ranks.checkpoints == [0] * RANKS, "the halt and the kill came too late"
    ranks.assert_ended_alike()
    assert ranks.checkpoints[0] >= 1


def test_an_agent_killed_as_it_notes_a_halt_has_a_successor_that_halts_the_job(run_folder: Path) -> None:
    """No rank has found the halt yet, and who asked for it has no answer."""
    environment = os.environ | {"KEDGE_TEST_KILL_POINT": "agent-halt-noted:1"}
    agent = subprocess.Popen([KEDGE, "agent"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: agent_pid(run_folder) is not None)
        ranks = Ranks()
        ranks.until_running()
        assert not kedge_runs("halt", "--at-once")
        assert agent.wait(30) == -signal.SIGKILL, "the point was never passed"
        ranks.assert_ended_alike()
    finally:
        agent.kill()
        agent.wait()


def test_ranks_of_nodes_that_do_not_reach_each_other_agree(run_folder: Path, second_node: Path) -> None:
    ranks = Ranks(settings=over_two_nodes(second_node, {"schedule.interval": "200ms", "net.interface": NOWHERE}))
    ranks.until(lambda: min(len(due) for due in ranks.due) >= 2)
    other = ["--set", f"node.run_folder={second_node}", "--set", "node.name=node-b"]
    assert "rank 0 is on another node" in kedge_text("halt", "--now", *other)
    kedge("halt", "--now")
    ranks.assert_ended_alike()


def over_two_nodes(second_node: Path, more: dict[str, object]) -> Callable[[int], dict[str, object]]:
    """Ranks 0 and 1 on the first, rank 2 on the other."""

    def settings(rank: int) -> dict[str, object]:
        other: dict[str, object] = {"node.name": "node-b", "node.run_folder": str(second_node)} if rank == 2 else {}
        return more | other

    return settings


def test_ranks_of_two_nodes_agree(run_folder: Path, second_node: Path) -> None:
    ranks = Ranks(settings=over_two_nodes(second_node, {"schedule.interval": "60ms"}))
    ranks.until(lambda: min(len(due) for due in ranks.due) >= 4)
    kedge("halt", "--now")
    ranks.assert_ended_alike()


@pytest.mark.parametrize("which", ["of rank 0", "of the other node"])
def test_ranks_agree_whichever_agent_is_killed(run_folder: Path, second_node: Path, which: str) -> None:
    ranks = Ranks(settings=over_two_nodes(second_node, {"schedule.interval": "200ms"}))
    ranks.until(lambda: min(ranks.checkpoints) >= 1)
    killed = agent_pid(run_folder if which == "of rank 0" else second_node)
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    taken = max(ranks.checkpoints)
    ranks.until(lambda: min(ranks.checkpoints) >= taken + 2)
    until(lambda: kedge_runs("halt", "asked", "--at-once"))
    ranks.assert_ended_alike()


@pytest.mark.parametrize("which", ["of rank 0", "of the other node"])
def test_an_agent_that_does_not_answer_holds_nobody_up(run_folder: Path, second_node: Path, which: str) -> None:
    ranks = Ranks(settings=over_two_nodes(second_node, {}))
    ranks.until_running()
    stopped = agent_pid(run_folder if which == "of rank 0" else second_node)
    assert stopped is not None
    os.kill(stopped, signal.SIGSTOP)
    try:
        before = list(ranks.steps)
        ranks.until(lambda: all(now > then + 200 for now, then in zip(ranks.steps, before, strict=True)))
    finally:
        os.kill(stopped, signal.SIGCONT)
    kedge("halt", "--at-once")
    ranks.assert_ended_alike()


def test_without_an_agent_rank_0_decides(run_folder: Path) -> None:
    taken: dict[int, list[int]] = {rank: [] for rank in range(RANKS)}

    def run(rank: int, communicator: ThreadedCommunicator) -> None:
        with Context("asked", communicator=communicator, settings={"job.mode": "sync", "schedule.interval": "50ms"}) as context:
            data = np.zeros(10)
            context.protect(0, data)
            for step in range(100):
                time.sleep(0.002)
                if context.checkpoint_due():
                    context.checkpoint("sim", step)
                    taken[rank].append(step)
                assert not context.should_exit()

    run_ranks(RANKS, run)
    assert taken[0] == taken[1] == taken[2] and len(taken[0]) >= 2
