"""Counts of levels that follow what is measured: they change in mid-run, on all nodes between the same two versions.

Two virtual nodes with real agents; ranks 0 and 1 on the first, rank 2 on the other. The configured counts are far from what the
assumed failures call for, so the job changes them within seconds. Every version stays on its node, for the levels that the nodes
gave it to be compared.
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
from kedge.plan.runtime_metrics import parse_prometheus, read_socket
from processes import agent_pid
from schedule_support import job_status, until
from threaded_communicator import ThreadedCommunicator, run_ranks
from tool import KEDGE, kedge_json, kedge_text

RANKS = 3
ELEMENTS = 10_000
VERSIONS_MAX = 300
VERSIONS_AFTER_A_CHANGE = 12

CONFIGURED = (15, 30)

# Failures are assumed to need another node's copy, and the store, every minute: what is made seldom costs a lot. A flush takes some
# tenths of a second.
SETTINGS: dict[str, object] = {
    "schedule.interval": "100ms",
    "schedule.adapt": True,
    "schedule.adapt_levels": True,
    "schedule.node": CONFIGURED[0],
    "schedule.store": CONFIGURED[1],
    "schedule.mtbf_local": "60s",
    "schedule.mtbf_node": "60s",
    "schedule.mtbf_store": "60s",
    "keep.local": VERSIONS_MAX,
    "keep.versions": VERSIONS_MAX,
    "flush.rate": "1MiB",
    "wait.timeout": "40s",
}


@pytest.fixture
def other(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The run folder of the second node; both have room for all versions."""
    monkeypatch.setenv("KEDGE_POOL_SIZE", "512MiB")
    folder = run_folder.with_name("node-b")
    yield folder
    end_agent(folder)
    shutil.rmtree(folder, ignore_errors=True)


def counts_of(job: Any) -> tuple[int, int]:
    """The counts in force, as a node's agent sees them."""
    return job["schedule"]["node_every"], job["schedule"]["store_every"]


def levels_by_version(job: Any) -> dict[int, tuple[str, ...]]:
    """The levels above local that each version of the newest attempt is to reach, as one node has them."""
    return {
        entry["version"]: tuple(level["level"] for level in entry["levels"] if level["level"] != "local")
        for entry in job["versions"]
        if entry["attempt"] == job["attempt"]
    }


class Run:
    """An attempt on both nodes, which checkpoints when that is due until `done` says so, and what was seen of it.

    `pause`: so many seconds pass before the first checkpoint, and the first node's counts are noted then. `waits`: for each version
    to reach its last level before the next.
    """

    def __init__(
        self, other: Path, settings: dict[str, object], done: Callable[[Run], bool], pause: float = 0.0, waits: bool = True
    ) -> None:
        self.other, self.settings, self.done, self.pause, self.waits = other, SETTINGS | settings, done, pause, waits
        self.restored = 0
        self.newest = 0
        self.configured = (CONFIGURED[0] if "protect.scheme" in settings else 0, CONFIGURED[1])
        self.counts: list[tuple[int, int]] = []  # of the first node, as they are seen from the first version on
        self.pausing = False  # before the first checkpoint
        self.changed_at: int | None = None  # the newest version when they were first seen changed
        self.ended: dict[int, Any] = {}  # by rank: the job's status on its node at the end
        self._watch_ends = threading.Event()
        watcher = threading.Thread(target=self._watch)
        watcher.start()
        try:
            run_ranks(RANKS, self._rank)
        finally:
            self._watch_ends.set()
            watcher.join()
        self.first, self.second = (levels_by_version(self.ended[rank]) for rank in (0, 2))

    def _watch(self) -> None:
        while not self._watch_ends.wait(0.2):
            if self.newest == self.restored and not self.pausing:
                continue  # before the nodes know each other, none protects another
            try:
                counts = counts_of(job_status("levels"))
            except (AssertionError, StopIteration):
                continue  # no agent, or the job is not there yet
            if not self.counts or self.counts[-1] != counts:
                self.counts.append(counts)
                if counts != self.configured and self.changed_at is None:
                    self.changed_at = self.newest

    def _rank(self, rank: int, communicator: ThreadedCommunicator) -> None:
        node: dict[str, object] = {"node.name": "node-b", "node.run_folder": str(self.other)} if rank == 2 else {}
        context = Context("levels", communicator=communicator, settings=self.settings | node)
        try:
            self._loop(rank, communicator, context)
            self.ended[rank] = job_status("levels", self.other if rank == 2 else None)
            communicator.barrier()
        finally:
            context.close(drain=False)

    def _loop(self, rank: int, communicator: ThreadedCommunicator, context: Context) -> None:
        data = np.zeros(ELEMENTS)
        context.protect(0, data)
        version = context.restart("sim") if context.newest("sim") is not None else 0
        assert (data == version).all()
        self.restored = version
        self.pausing = self.pause > 0
        time.sleep(self.pause)
        for step in range(100_000):
            time.sleep(0.002 * (1 + rank))
            if context.checkpoint_due():
                version += 1
                data[:] = version
                context.checkpoint("sim", version)
                if self.waits:
                    context.wait("sim", version)
                if rank == 0:
                    self.newest = version
            if step % 20 == 19 and communicator.bcast(b"x" if rank == 0 and self.done(self) else b"", 0):
                break
        communicator.barrier()


def has_changed(run: Run) -> bool:
    """Whether so many versions have been taken since the counts changed."""
    assert run.newest < run.restored + VERSIONS_MAX, f"the counts have not changed: {run.counts}"
    return run.changed_at is not None and run.newest >= run.changed_at + VERSIONS_AFTER_A_CHANGE


def stored(run: Run) -> dict[int, bool]:
    """This attempt's versions that the store knows: whether every rank's image is there."""
    entries = kedge_json("ls")["versions"]
    return {entry["version"]: entry["complete"] for entry in entries if entry["version"] > run.restored}


def assert_alike(run: Run) -> None:
    """Both nodes gave each version the same levels, and what was to be in the store comes to be whole there; nothing else is there."""
    assert run.first == run.second and len(run.first) == run.newest - run.restored
    assert counts_of(run.ended[0]) == counts_of(run.ended[2])
    wanted = {version: True for version, levels in run.first.items() if "store" in levels}
    until(lambda: stored(run) == wanted, 60)


def test_counts_change_on_all_nodes_between_the_same_versions(run_folder: Path, other: Path) -> None:
    protected: dict[str, object] = {"protect.scheme": "partner"}
    run = Run(other, protected, has_changed)
    assert_alike(run)
    node_every, store_every = run.counts[-1]
    assert 1 <= node_every < CONFIGURED[0] and 1 <= store_every < CONFIGURED[1]
    assert run.first[1] == ("node", "store") and run.first[2] == (), "it begins with what is configured"
    late = [levels for version, levels in run.first.items() if version > run.newest - VERSIONS_AFTER_A_CHANGE]
    assert sum("node" in levels for levels in late) >= VERSIONS_AFTER_A_CHANGE // node_every
    assert f"schedule.node = {node_every}" in kedge_text("status")
    shown = parse_prometheus(metrics := read_socket(run_folder / "metrics.sock"))["levels"]
    assert (shown.node_every, shown.store_every) == (node_every, store_every)
    assert "kedge_proposed_store_every{" in metrics and "kedge_proposed_node_every{" in metrics
    end_agent(other)
    shutil.rmtree(other)  # the node is lost: what all can restore is what the store and the first node have
    again = Run(other, protected, lambda run: run.newest >= run.restored + 3, pause=2.5)
    assert again.restored >= max(version for version, levels in run.first.items() if levels)
    assert again.counts[0] == run.counts[-1], "a relaunch begins with what held"
    assert_alike(again)


def test_counts_change_where_nodes_do_not_reach_each_other(run_folder: Path, other: Path) -> None:
    """What rank 0 tells carries the counts all the same; no level of all nodes is known."""
    run = Run(other, {"net.interface": "203.0.113.1"}, has_changed, waits=False)
    assert_alike(run)
    assert run.counts[-1][0] == 0 and 1 <= run.counts[-1][1] < CONFIGURED[1]
    assert run.first[1] == ("store",) and run.first[2] == ()
    assert sum("store" in levels for levels in run.first.values()) > 1


def test_without_the_key_counts_stay_as_they_are(run_folder: Path, other: Path) -> None:
    def proposed(run: Run) -> bool:
        proposal = job_status("levels")["schedule"]["proposal"]
        return proposal is not None and proposal["best_store_every"] < CONFIGURED[1] and run.newest > CONFIGURED[0] + 1

    run = Run(other, {"protect.scheme": "partner", "schedule.adapt_levels": False}, proposed)
    assert_alike(run)
    assert run.counts == [CONFIGURED]
    for level, every in zip(("node", "store"), CONFIGURED, strict=True):
        got = {version for version, levels in run.first.items() if level in levels}
        assert got == {version for version in run.first if (version - 1) % every == 0}


def test_an_agent_killed_as_it_tells_new_counts_leaves_no_two(run_folder: Path, other: Path) -> None:
    """One rank of rank 0's node finds them, its neighbour does not: all go by what rank 0 tells, and the successor by what they show."""
    environment = os.environ | {"KEDGE_TEST_KILL_POINT": "agent-levels-changed:1", "KEDGE_FLUSH_RATE": str(SETTINGS["flush.rate"])}
    agent = subprocess.Popen([KEDGE, "agent"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: agent_pid(run_folder) is not None)
        run = Run(other, {"protect.scheme": "partner"}, has_changed, waits=False)
        assert agent.wait(10) == -signal.SIGKILL, "the point was never passed"
        # A rank that finds no agent stores its image itself, and no agent hears of that one.
        common = run.first.keys() & run.second.keys()
        assert len(common) > VERSIONS_AFTER_A_CHANGE
        assert {version: run.first[version] for version in common} == {version: run.second[version] for version in common}
        assert counts_of(run.ended[0]) == counts_of(run.ended[2]) == run.counts[-1]
    finally:
        agent.kill()
        agent.wait()

