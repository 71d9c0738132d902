"""Nodes that protect each other: what that takes, and the failures that it answered, are measured and planned with."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import end_agent
from kedge import Context
from kedge.plan.cli import main as plan
from kedge.plan.level import Level as PlanLevel
from kedge.plan.optimum import optimum
from kedge.plan.runtime_metrics import parse_prometheus, parse_status, read_socket
from kedge.plan.system import System
from pair import folder_of, settings
from schedule_support import job_status, until
from threaded_communicator import ThreadedCommunicator, run_ranks
from tool import kedge, kedge_text

PAIR = Path(__file__).with_name("pair.py")
VERSIONS = 3

SYSTEM = """
work_seconds = 2592000
[[level]]
name = "local"
overhead_seconds = 0.5
restart_seconds = 5
failure_rate_per_second = 9e-5
[[level]]
name = "partner"
asynchronous = true
overhead_seconds = 0.5
latency_seconds = 3
restart_seconds = 9
failure_rate_per_second = 7e-6
[[level]]
name = "store"
asynchronous = true
overhead_seconds = 0.5
latency_seconds = 20
restart_seconds = 30
failure_rate_per_second = 3e-7
"""


@pytest.fixture
def pair(run_folder: Path) -> Iterator[Path]:
    """The run folder of the second node."""
    yield folder_of(1)
    end_agent(folder_of(1))
    shutil.rmtree(folder_of(1), ignore_errors=True)


def run_and_die() -> None:
    """A job over both nodes takes its versions and is killed."""
    path = os.pathsep.join([str(PAIR.parents[1]), *sys.path])
    done = subprocess.run(
        [sys.executable, str(PAIR), str(VERSIONS)],
        capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == -9, done.stdout + done.stderr


def restart_and_look() -> Any:
    """The job is launched again on both nodes; its status, as soon as the past is known and the proposal follows from it."""
    seen: list[Any] = []

    def run(rank: int, communicator: ThreadedCommunicator) -> None:
        data = np.ones(200_000)
        with Context("pair", communicator=communicator, settings=settings(rank)) as context:
            context.protect(0, data)
            context.restart("sim")
            assert (data == VERSIONS).all()
            assert context.statistics.bytes_restored_store == 0
            if rank == 0:
                seen.append(until(lambda: _has_failed(job := job_status("pair")) and proposal_follows(job) and job))
            communicator.barrier()

    run_ranks(2, run)
    return seen[0]


def _has_failed(job: Any) -> bool:
    return any(level["failures"] for level in job["levels"].values())


def failures(job: Any) -> dict[str, int]:
    """Failures by level."""
    return {name: level["failures"] for name, level in job["levels"].items()}


def test_a_lost_node_counts_as_a_failure_that_other_nodes_answered(pair: Path) -> None:
    run_and_die()
    end_agent(pair)
    shutil.rmtree(pair)
    job = restart_and_look()
    assert failures(job) == {"local": 0, "node": 1, "store": 0}
    assert job["levels"]["node"]["restarts"]["count"] == 1 and job["levels"]["local"]["restarts"]["count"] == 0
    assert job["levels"]["node"]["reached"]["count"] == VERSIONS
    assert 0.0 < job["levels"]["node"]["reached"]["sum"] < 30.0 * VERSIONS
    assert job["schedule"]["node_every"] == 1 and job["schedule"]["proposal"]["best_node_every"] >= 1


def proposal_follows(job: Any) -> bool:
    """Whether the agent's interval is the Python model's for the same measurements, within 2%: it is found every ten seconds."""
    names = ("local", "node", "store")
    measured = {name: job["levels"][name] for name in names}

    def mean(entry: Any, otherwise: float) -> float:
        return float(entry["sum"] / entry["count"]) if entry["count"] else otherwise

    levels = []
    background, blocked = 0.0, mean(job["blocked"], 0.0)
    for name, hours in zip(names, (3, 40, 900), strict=True):
        if name != "local":
            background = max(background, mean(measured[name]["reached"], 0.0) - blocked)
        restart = mean(measured[name]["restarts"], blocked + background)
        rate = (2.0 + measured[name]["failures"]) / (2.0 * hours * 3600.0 + job["observed_seconds"])
        levels.append(PlanLevel(name, blocked, blocked + background, restart, rate, background > 0.0))
    expected = optimum(System(30 * 86400.0, 0.0, tuple(levels)), counts=[0, 0])
    proposal = job["schedule"]["proposal"] or {}
    return proposal.get("interval_seconds") == pytest.approx(expected.interval_seconds, rel=0.02) and proposal.get(
        "efficiency"
    ) == pytest.approx(expected.efficiency, abs=1e-4)


def test_watch_plans_with_what_the_nodes_protection_takes(
    run_folder: Path, pair: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A process dies, the nodes stay: their own copies suffice. Metrics, status and watch have all three levels."""
    run_and_die()
    job = restart_and_look()
    assert failures(job) == {"local": 1, "node": 0, "store": 0}
    by_socket = parse_prometheus(read_socket(run_folder / "metrics.sock"))["pair"]
    by_status = parse_status(kedge_text("status", "--json"))["pair"]
    assert by_socket.levels == by_status.levels and sorted(by_socket.levels) == ["local", "node", "store"]
    assert (by_socket.node_every, by_socket.store_every) == (by_status.node_every, by_status.store_every) == (1, 1)
    system = tmp_path / "system.toml"
    system.write_text(SYSTEM)
    target = tmp_path / "kedge.toml"
    words = ["watch", str(system), "--once", "--json", "--interval", "50000", "--set", str(target)]
    assert plan(words) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [(level["name"], level["measured"]) for level in answer["levels"]] == [
        ("local", True), ("partner", True), ("store", True),
    ]
    assert answer["present_efficiency"] is not None and answer["change"]
    assert "node = " in target.read_text() and "mtbf_node" in target.read_text()
    kedge("config", "--config", str(target))
