"""The schedule from the plan to the running job: advise writes it, the runtime obeys it, measures, proposes and adapts.

Real agents, stores and applications; an application that dies is another process (``loop.py``).
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import end_agent
from kedge import Context, Level
from kedge.plan.cli import main as plan
from kedge.plan.level import Level as PlanLevel
from kedge.plan.optimum import optimum
from kedge.plan.runtime_metrics import parse_prometheus, parse_status, read_port, read_socket
from kedge.plan.system import System
from schedule_support import job_status, kedge_runs, until
from threaded_communicator import ThreadedCommunicator, run_ranks
from tool import kedge_json, kedge_text

LOOP = Path(__file__).with_name("loop.py")

SYSTEM = """
work_seconds = 2592000
[[level]]
name = "local"
overhead_seconds = 0.5
restart_seconds = 5
failure_rate_per_second = 1e-4
[[level]]
name = "store"
asynchronous = true
overhead_seconds = 0.5
latency_seconds = 20
restart_seconds = 30
failure_rate_per_second = 1e-6
"""


def run_loop(*arguments: str, expect: int = 0) -> None:
    """Runs loop.py, which takes checkpoints and perhaps dies."""
    done = subprocess.run([sys.executable, str(LOOP), *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == expect, done.stdout + done.stderr


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """A system with the runtime's two levels."""
    path = tmp_path / "system.toml"
    path.write_text(SYSTEM)
    return path


def test_what_advise_writes_is_what_the_runtime_goes_by(run_folder: Path, system: Path, tmp_path: Path) -> None:
    """`kedge config` accepts the file, and the application's interval and the store's turn are those of the plan."""
    config = tmp_path / "kedge.toml"
    assert plan(["advise", str(system), "--schedule", str(config)]) == 0
    section = tomllib.loads(config.read_text())["schedule"]
    entries = {entry["key"]: entry for entry in kedge_json("config")["keys"]}
    for key in section:
        assert entries[f"schedule.{key}"]["origin"].startswith(f"{config}:"), key
    data = np.arange(1000.0)
    with Context("paced") as context:
        context.protect(0, data)
        assert context.statistics.checkpoint_interval_seconds == pytest.approx(float(section["interval"][:-1]))
        assert not context.checkpoint_due() and context.statistics.checkpoints_not_due == 1
        assert job_status()["schedule"]["store_every"] == section["store"]


def test_an_unknown_schedule_key_is_refused(run_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "kedge.toml").write_text('[schedule]\nlevels = "xor:1"\n')
    assert "schedule.levels" in kedge_text("config", expect=2)


def test_due_follows_the_interval(run_folder: Path) -> None:
    data = np.zeros(10)
    began = time.monotonic()  # the first interval begins while the context is made
    with Context("paced", settings={"schedule.interval": "400ms"}) as context:
        context.protect(0, data)
        until(context.checkpoint_due)
        assert time.monotonic() - began >= 0.35
        assert context.checkpoint_due(), "it stays due until one is taken"
        context.checkpoint("sim", 1)
        assert not context.checkpoint_due()
        until(context.checkpoint_due)
        context.restart("sim")
        assert not context.checkpoint_due(), "a restart begins an interval, too"
        assert context.statistics.checkpoints_not_due >= 3
    with Context("paced") as context:
        assert context.checkpoint_due(), "always, where no interval is configured"


def test_rank_0_decides_for_all(run_folder: Path) -> None:
    """Ranks whose clocks and keys differ take the same versions all the same."""
    taken: dict[int, list[int]] = {0: [], 1: [], 2: []}

    def run(rank: int, communicator: ThreadedCommunicator) -> None:
        interval = {0: "150ms", 1: "0s", 2: "1h"}[rank]
        data = np.zeros(100)
        with Context("paced", communicator=communicator, settings={"schedule.interval": interval}) as context:
            context.protect(0, data)
            for step in range(120):
                time.sleep(0.01 * (1 + rank))
                if context.checkpoint_due():
                    context.checkpoint("sim", step)
                    taken[rank].append(step)
            context.wait("sim", taken[rank][-1], Level.STORE)

    run_ranks(3, run)
    assert taken[0] == taken[1] == taken[2] and 2 <= len(taken[0]) < 24


def test_a_node_that_was_replaced_counts_as_the_others_do(run_folder: Path) -> None:
    """Two nodes, every third version to the store. One is lost with all it knew: the versions that both send there are the same."""
    folders = [run_folder, run_folder.with_name(run_folder.name + "-b")]

    def settings(rank: int) -> dict[str, object]:
        return {"schedule.store": 3, "node.name": f"n{rank}", "node.run_folder": folders[rank], "wait.timeout": "20s"}

    def attempt(first: int, last: int) -> Callable[[int, ThreadedCommunicator], None]:
        def run(rank: int, communicator: ThreadedCommunicator) -> None:
            data = np.zeros(100)
            with Context("paced", communicator=communicator, settings=settings(rank)) as context:
                context.protect(0, data)
                for version in range(first, last + 1):
                    context.checkpoint("sim", version)
                    context.wait("sim", version)
                    if (version - first) % 3 == 0:
                        context.wait("sim", version, Level.STORE)

        return run

    try:
        run_ranks(2, attempt(1, 2))
        end_agent(folders[1])
        shutil.rmtree(folders[1])
        run_ranks(2, attempt(3, 7))
        # The first version leaves the store when two later ones are there.
        until(lambda: [entry["version"] for entry in kedge_json("ls")["versions"] if entry["complete"]] == [6, 3])
    finally:
        end_agent(folders[1])
        shutil.rmtree(folders[1], ignore_errors=True)


def test_watch_reads_a_running_agent(
    run_folder: Path, system: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Socket, port, metrics and status all say what the application did; watch proposes from it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    monkeypatch.setenv("KEDGE_AGENT_METRICS_PORT", str(port))
    data = np.zeros(1_000_000)
    with Context("paced", settings={"schedule.store": 2, "schedule.interval": "50s"}) as context:
        context.protect(0, data)
        for version in range(1, 7):
            context.checkpoint("sim", version)
            context.wait("sim", version)
        blocked = context.statistics.blocked_seconds
        context.restart("sim")
        by_socket = parse_prometheus(read_socket(run_folder / "metrics.sock"))["paced"]
        assert by_socket.blocked.count == 6 and by_socket.blocked.sum == pytest.approx(blocked, rel=1e-3, abs=1e-5)
        assert by_socket.levels["local"].reached.count == 6
        assert by_socket.levels["store"].reached.count == 3 and by_socket.levels["store"].reached.sum > 0.0
        assert by_socket.levels["local"].restarts.count == 1 and by_socket.levels["store"].restarts.count == 0
        assert (by_socket.interval_seconds, by_socket.store_every) == (50.0, 2)
        for other in (parse_prometheus(read_port(port)), parse_status(kedge_text("status", "--json"))):
            assert other["paced"].blocked == by_socket.blocked
            assert other["paced"].levels == by_socket.levels
            assert (other["paced"].interval_seconds, other["paced"].store_every) == (50.0, 2)
        answers = []
        for source in ([], ["--port", str(port)], ["--socket", str(run_folder / "metrics.sock")]):
            capsys.readouterr()
            assert plan(["watch", str(system), "--once", "--json", *source]) == 0
            answers.append(json.loads(capsys.readouterr().out))
        assert all(answer["job"] == "paced" and answer["present_efficiency"] is not None for answer in answers)
        assert answers[0]["levels"][1]["measured"] and answers[0]["levels"][0]["overhead_seconds"] < 0.5


def test_the_agent_proposes_what_the_planner_does(run_folder: Path) -> None:
    """The C++ twin inside the agent against the Python optimum, fed with the agent's own measurements: within 2%."""
    data = np.zeros(2_000_000)
    with Context("paced", settings={"schedule.mtbf_local": "2h", "schedule.mtbf_store": "3d"}) as context:
        context.protect(0, data)
        for version in range(1, 4):
            context.checkpoint("sim", version)
            context.wait("sim", version, Level.STORE)
        until(lambda: proposal_follows(job_status()))  # what came in the last ten seconds may not be in it yet
        assert "best" in kedge_text("status")
        assert context.statistics.checkpoint_interval_seconds == 0.0, "nothing is set that nobody asked for"


def proposal_follows(job: Any) -> bool:
    """Whether the agent's proposal is the Python model's for the job's measurements: interval within 2%."""
    proposal = job["schedule"]["proposal"]
    if proposal is None:
        return False
    blocked = job["blocked"]["sum"] / job["blocked"]["count"]
    stored = job["levels"]["store"]["reached"]["sum"] / job["levels"]["store"]["reached"]["count"]
    rates = [2.0 / (2.0 * seconds + job["observed_seconds"]) for seconds in (7200.0, 3 * 86400.0)]
    levels = (
        PlanLevel("local", blocked, blocked, blocked, rates[0], False),
        PlanLevel("store", blocked, stored, stored, rates[1], True),
    )
    expected = optimum(System(30 * 86400.0, 0.0, levels), counts=[0])
    close = proposal["interval_seconds"] == pytest.approx(expected.interval_seconds, rel=0.02)
    return close and proposal["efficiency"] == pytest.approx(expected.efficiency, abs=1e-4)


def test_adapt_makes_the_proposal_the_interval(run_folder: Path) -> None:
    settings = {"schedule.adapt": True, "schedule.interval": "500s", "schedule.mtbf_local": "60s"}
    with Context("paced", settings=settings) as context:
        data = np.zeros(1000)
        context.protect(0, data)
        assert context.statistics.checkpoint_interval_seconds == 500.0
        context.checkpoint("sim", 1)
        context.wait("sim", 1, Level.STORE)
        until(lambda: context.statistics.checkpoint_interval_seconds != 500.0)
        schedule = job_status()["schedule"]
        assert schedule["adapt"] and schedule["decides"] and schedule["configured_interval_seconds"] == 500.0
        adapted = context.statistics.checkpoint_interval_seconds
        assert adapted == pytest.approx(schedule["proposal"]["interval_seconds"]) == pytest.approx(schedule["interval_seconds"])
        assert adapted < 100.0
        text = read_socket(run_folder / "metrics.sock")
        assert parse_prometheus(text)["paced"].interval_seconds == pytest.approx(adapted)
    with Context("other", settings={"schedule.adapt": True}) as context:
        assert context.statistics.checkpoint_interval_seconds == 60.0, "before anything was measured"


def test_failures_are_counted_by_the_level_they_needed(run_folder: Path, tmp_path: Path) -> None:
    """A process that dies costs a local copy; a node that is lost, the store's; an orderly end is no failure."""
    run_loop("--end")
    run_loop("--die", expect=-9)
    run_loop("--die", expect=-9)
    with Context("paced", settings={"schedule.interval": "1h"}) as context:
        data = np.zeros(1000)
        context.protect(0, data)
        context.restart("sim")
        job = until(lambda: (status := job_status())["levels"]["local"]["failures"] and status)
        assert job["levels"]["local"]["failures"] == 2 and job["levels"]["store"]["failures"] == 0
        assert job["levels"]["local"]["restarts"]["count"] >= 1
    run_loop("--die", expect=-9)
    end_agent(run_folder)
    shutil.rmtree(run_folder)
    with Context("paced") as context:
        data = np.ones(1000)
        context.protect(0, data)
        context.restart("sim")
        assert not data.any()
        job = until(lambda: (status := job_status())["levels"]["store"]["failures"] and status)
        assert job["levels"]["local"]["failures"] == 2 and job["levels"]["store"]["failures"] == 1
        assert job["levels"]["store"]["restarts"]["count"] == 1
        assert job["observed_seconds"] > 0.0


def test_a_successor_goes_on_with_what_was_measured(run_folder: Path) -> None:
    data = np.zeros(1000)
    with Context("paced") as context:
        context.protect(0, data)
        for version in range(1, 4):
            context.checkpoint("sim", version)
            context.wait("sim", version, Level.STORE)
        before = until(lambda: (status := job_status())["schedule"]["proposal"] and status)
        end_agent(run_folder)
        until(lambda: kedge_runs("status"))
        after = until(lambda: (status := job_status())["blocked"]["count"] and status)
        assert after["blocked"]["count"] >= before["blocked"]["count"] - 1, "the last may not be saved yet"
        assert after["levels"]["store"]["reached"]["count"] >= 3
