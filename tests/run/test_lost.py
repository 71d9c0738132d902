"""What ``kedge run`` says and does where checkpoints are lost, and that it restores what it announces."""

from __future__ import annotations

import os
import re
import signal
import subprocess

import pytest

from heat import HEAT, assert_continued, endless_heat, reference
from machine import Machine, result
from processes import kill
from waiting import until

pytestmark = pytest.mark.needs("MPI")


def lose_two_nodes_of_a_group(machine: Machine, *options: str) -> subprocess.Popen[str]:
    """What survives the loss of one node of a group, and lies on the nodes alone, after the loss of two."""
    machine.settings |= {"KEDGE_PROTECT_SCHEME": "xor", "KEDGE_SCHEDULE_STORE": "0"}
    rest = ["--ranks=3", "--nodes=3", "--nodes-min=1", "--", *machine.endless(HEAT, 32)]
    run = machine.start("--launcher=openmpi", f"--probe={machine.probe()}", *options, *rest)
    machine.end_after(until(lambda: machine.protected(machine.names[0])))
    for name in machine.names[1:3]:
        machine.lose(name)
    return run


def test_checkpoints_that_are_lost_are_not_taken_for_a_first_launch(machine: Machine) -> None:
    report, log = machine.finish(lose_two_nodes_of_a_group(machine), expect=4)
    assert report["outcome"] == "lost" and "'heat3d'" in report["reason"] and "--if-lost=begin" in report["reason"]
    assert len(report["launches"]) == 1 and "checksum" not in log
    assert report["reason"].count("(attempt ") == 1 and "ranks 1 and 2: set 0 of group 0 " in report["reason"] and "\n" not in report["reason"]


def test_it_begins_anew_where_it_is_told_to(machine: Machine) -> None:
    report, log = machine.finish(lose_two_nodes_of_a_group(machine, "--if-lost=begin"))
    assert report["outcome"] == "finished" and "lost, so it begins anew: heat3d" in log
    assert "'heat3d' is lost" in log and "continuing from step" not in log
    steps, checksum = result(log)
    assert reference(machine, steps) == (steps, checksum)


@pytest.mark.parametrize("scheme", ["xor", "none"])
def test_what_nodes_had_that_come_back_empty_is_lost(machine: Machine, scheme: str) -> None:
    """They have lost their memory, as after a reboot, and are nodes of the next launch: their agents answer, and know nothing."""
    machine.settings |= {"KEDGE_PROTECT_SCHEME": scheme, "KEDGE_SCHEDULE_STORE": "0"}
    nodes = machine.names[: 3 if scheme == "xor" else 2]
    arguments = ["--launcher=openmpi", "--patience=1s", "--restarts=0", f"--ranks={len(nodes)}", f"--nodes={len(nodes)}"]
    run = machine.start(*arguments, "--", *machine.endless(HEAT, 32))
    machine.end_after(until(lambda: machine.reached(nodes[0], "node" if scheme == "xor" else "local")))
    for name in nodes[1:]:
        machine.reboot(name)
    _, log = machine.finish(run, expect=1)
    if scheme == "xor":
        assert "safe until then: heat3d " in log, "before its nodes were gone"
        assert re.search(f"not everything of node {nodes[0]} is in the store: .*no answer from {nodes[1]}, {nodes[2]}", log), log
    report, log = machine.run(*arguments, "--", *machine.endless(HEAT, 32), expect=4)
    assert report["outcome"] == "lost" and "'heat3d'" in report["reason"] and not report["launches"], log
    report, log = machine.run(*arguments, "--if-lost=begin", "--", *machine.endless(HEAT, 32))
    assert report["outcome"] == "finished" and "lost, so it begins anew: heat3d" in log and "continuing from step" not in log


def test_what_nodes_may_have_whose_agents_stand_still_is_not_called_lost(machine: Machine) -> None:
    """They are left out, and keep what they hold: the next call finds it, with agents that answer."""
    machine.settings |= {"KEDGE_PROTECT_SCHEME": "xor", "KEDGE_SCHEDULE_STORE": "0"}
    arguments = ["--launcher=openmpi", "--patience=1s", "--if-lost=begin", "--ranks=3", "--nodes=3", "--nodes-min=1", "--", *machine.endless(HEAT, 32)]
    run = machine.start(*arguments)
    machine.end_after(until(lambda: machine.protected(machine.names[0])))
    for name in machine.names[1:3]:
        os.kill(machine.ranks_on(name, "kedge-agent")[0], signal.SIGSTOP)
    kill(machine.ranks_on(machine.names[1], "heat3d")[0])
    report, log = machine.finish(run, expect=5)
    assert report["outcome"] == "silent nodes" and len(report["launches"]) == 1, log
    assert f"no answer from {machine.names[1]}, {machine.names[2]}, which may have a checkpoint" in report["reason"]
    _, log = machine.run(*arguments)
    assert_continued(machine, log)


def test_an_application_that_meets_lost_checkpoints_is_told_so(machine: Machine) -> None:
    """Without kedge run's look ahead: the same launch by hand."""
    machine.finish(lose_two_nodes_of_a_group(machine), expect=4)
    ranks = [["-x", f"KEDGE_NODE={node}", "-np", "1", str(HEAT), "32", "100", "0"] for node in (machine.names[0], machine.names[3])]
    environment = machine.environment() | {"KEDGE_JOB_NAME": "sh"}
    done = subprocess.run(["mpirun.openmpi", "--oversubscribe", *ranks[0], ":", *ranks[1]], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0 and "is lost" in done.stdout + done.stderr and "checksum" not in done.stdout


def test_what_is_announced_is_what_is_restored(machine: Machine) -> None:
    machine.settings |= {"KEDGE_PROTECT_SCHEME": "xor", "KEDGE_SCHEDULE_STORE": "3"}
    run = machine.start("--launcher=openmpi", "--restarts=4", *endless_heat(machine))
    until(machine.versions)
    for launch in range(3):
        if launch == 2:
            machine.end_after(until(machine.versions))
        before = machine.log(run).count("continuing from step")
        kill(until(lambda: machine.ranks_on(machine.names[1], "heat3d"))[0])
        until(lambda before=before: machine.log(run).count("continuing from step") > before)  # type: ignore[misc]
    _, log = machine.finish(run)
    announced = re.findall(r"newest found to continue from: heat3d (\d+)", log)
    assert announced and announced == re.findall(r"continuing from step (\d+)", log)
