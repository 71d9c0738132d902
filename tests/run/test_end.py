"""How a job ends before it has finished: its allocation's time is over, or an operator halts it."""

from __future__ import annotations

import re
import signal
import subprocess

import pytest

from heat import HEAT, heat
from machine import KEDGE, Machine
from waiting import until

pytestmark = pytest.mark.needs("MPI")


# The time that the allocation has, or the scheduler's signal.
@pytest.mark.parametrize("how", ["until", "signal"])
def test_the_end_of_the_allocation_leaves_a_checkpoint_to_continue_from(machine: Machine, how: str) -> None:
    machine.settings |= {"KEDGE_SCHEDULE_INTERVAL": "1h"}
    limits = ["--until=34s", "--reserve=30s"] if how == "until" else []
    run = machine.start("--launcher=openmpi", *limits, *heat(10_000_000))
    if how == "signal":
        until(lambda: machine.sessions(machine.names[0]))
        run.send_signal(signal.SIGUSR1)
    report, log = machine.finish(run, expect=75)
    assert report["outcome"] == "out of time" and "heat3d: halted at step" in log
    last = report["versions"]["heat3d"]
    assert last > 0 and machine.versions() == [last], "the last checkpoint is in the store, and it was the only one"
    again = machine.start("--launcher=openmpi", *heat(10_000_000))
    until(lambda: f"continuing from step {last}\n" in machine.log(again))
    again.send_signal(signal.SIGTERM)
    machine.finish(again, expect=75)


def test_ranks_that_begin_after_the_end_was_announced_hear_of_it(machine: Machine) -> None:
    machine.settings |= {"KEDGE_SCHEDULE_INTERVAL": "1h"}
    begin_late = f"until test -e {machine.folder}/begin; do sleep 0.1; done; exec {HEAT} 32 10000000 0"
    run = machine.start("--launcher=openmpi", "--reserve=60s", "--ranks=2", "--nodes=2", "--", "sh", "-c", begin_late)
    until(lambda: machine.ranks_on(machine.names[0], "sh"))
    run.send_signal(signal.SIGUSR1)
    until(lambda: "no agent knows of the job's rank 0 yet" in machine.log(run))
    (machine.folder / "begin").touch()
    report, log = machine.finish(run, expect=75)
    assert report["outcome"] == "out of time" and "heat3d: halted at step" in log
    assert machine.versions() == [report["versions"]["heat3d"]]


def test_a_second_signal_ends_what_does_not_listen(machine: Machine) -> None:
    run = machine.start("--launcher=openmpi", "--nodes=1", "--", "sleep", "300")
    until(lambda: machine.ranks_on(machine.names[0], "sleep"))
    run.send_signal(signal.SIGTERM)
    until(lambda: "asking for a last checkpoint" in machine.log(run))
    run.send_signal(signal.SIGTERM)
    report, _ = machine.finish(run, expect=1)
    assert report["outcome"] == "out of time" and "no checkpoint to continue from" in report["reason"]
    assert report["launches"][0]["ended"]


@pytest.mark.parametrize("end", [0, 3])
def test_a_job_that_an_operator_halts_is_not_launched_again(machine: Machine, end: int) -> None:
    application = ["sh", "-c", f"{HEAT} 32 10000000 0 && exit {end}"]
    run = machine.start("--launcher=openmpi", "--job=stopped", "--ranks=2", "--nodes=2", "--", *application)
    until(machine.versions)
    halt = [KEDGE, "halt", "stopped", "--set", f"node.name={machine.names[0]}"]
    subprocess.run(halt, env=machine.environment(), check=True, timeout=60, capture_output=True)
    report, log = machine.finish(run, expect=76)
    assert report["outcome"] == "halted" and len(report["launches"]) == 1 and "heat3d: halted at step" in log
    assert report["launches"][0]["exit_code"] == end


def test_a_job_that_is_halted_leaves_its_last_checkpoint_in_the_store(machine: Machine) -> None:
    """Though its checkpoints are for the nodes only."""
    machine.settings |= {"KEDGE_PROTECT_SCHEME": "partner", "KEDGE_SCHEDULE_STORE": "0"}
    run = machine.start("--launcher=openmpi", "--job=stopped", *heat(10_000_000))
    until(lambda: machine.protected(machine.names[0]))
    halt = [KEDGE, "halt", "stopped", "--now", "--set", f"node.name={machine.names[0]}"]
    subprocess.run(halt, env=machine.environment(), check=True, timeout=60, capture_output=True)
    report, log = machine.finish(run, expect=76)
    (saved,) = re.findall(r"heat3d: halted at step \d+ of \d+, saved at step (\d+)", log)
    assert report["versions"]["heat3d"] == int(saved)


def test_a_node_that_is_not_there_any_more_is_hardly_waited_for(machine: Machine) -> None:
    """The others have all of the newest version."""
    machine.settings |= {"KEDGE_PROTECT_SCHEME": "partner", "KEDGE_NET_INTERFACE": "127.0.0.1"}
    run = machine.start("--launcher=openmpi", "--job=moved", "--ranks=3", "--nodes=3", "--", str(HEAT), "32", "10000000", "0")
    until(machine.versions)
    halt = [KEDGE, "halt", "moved", "--now", "--set", f"node.name={machine.names[0]}"]
    subprocess.run(halt, env=machine.environment(), check=True, timeout=60, capture_output=True)
    saved, _ = machine.finish(run, expect=76)
    again = machine.start("--launcher=openmpi", "--job=moved", "--ranks=3", "--nodes=2", "--", str(HEAT), "32", "10000000", "0")
    until(lambda: f"continuing from step {saved['versions']['heat3d']}\n" in machine.log(again))
    again.send_signal(signal.SIGTERM)
    report, log = machine.finish(again, expect=75)
    assert report["launches"][0]["before"]["nodes are asked what a launch finds"] < 3, log
