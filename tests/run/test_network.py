"""``kedge run`` on hosts with a network each, reached by real sshds: links are cut in mid-run, for a while and for ever."""

from __future__ import annotations

import time
from collections.abc import Iterator
from subprocess import Popen
from typing import Any

import pytest

from heat import HEAT, assert_continued
from hosts import needs_networks
from machine import Machine, name_of
from processes import kill
from network import Network
from sshd import processes_on
from waiting import until

pytestmark = [pytest.mark.needs("MPI"), needs_networks]


@pytest.fixture
def network(machine: Machine) -> Iterator[Network]:
    # What nodes have is on their neighbours, and the links are the only way there.
    machine.settings |= {"KEDGE_PROTECT_SCHEME": "xor", "KEDGE_SCHEDULE_STORE": "0"}
    with Network(machine) as network:
        yield network


def heat(machine: Machine) -> list[str]:
    return ["--launcher=openmpi", "--probe=true", "--ranks=2", "--nodes=2", "--", *machine.endless(HEAT, 24)]


def nodes_of(report: dict[str, Any]) -> list[list[str]]:
    return [launch["nodes"] for launch in report["launches"]]


def test_a_host_whose_link_is_cut_for_ever_is_left_out(machine: Machine, network: Network) -> None:
    """Though all that runs there is alive: a spare takes its place, and what it had is rebuilt."""
    first, second, spare, _ = machine.names
    machine.where[-1] += " -o ServerAliveInterval=1"  # for a probe that was on its way
    run = machine.start("--patience=3s", *heat(machine))
    machine.end_after(until(lambda: machine.protected(first)))
    network.cut(second)
    report, log = machine.finish(run)
    assert report["outcome"] == "finished" and nodes_of(report) == [[first, second], [first, spare]], log
    assert f"node {second} is left out: its health probe failed: " in log
    assert_continued(machine, log, cells=24)


def test_a_link_that_is_cut_for_five_seconds_loses_nobody(machine: Machine, network: Network) -> None:
    first, second, *_ = machine.names
    failures = machine.folder / "failures"
    machine.where[-1] += f" -E {failures}"
    # A probe that is on its way waits until the link is back. With pauses most of them begin while it is not.
    run = machine.start("--heartbeat=3s", *heat(machine))
    version = max(until(lambda: machine.protected(first)))
    cuts = 0
    while "Connection timed out" not in failures.read_text():
        assert (cuts := cuts + 1) <= 20
        network.cut(second)
        time.sleep(5)
        network.mend(second)
        # The same launch goes on, and so does protection.
        version = until(lambda past=version + 100: [version for version in machine.protected(first) if version > past])[0]
    machine.end_after([version])
    for process in processes_on(second):
        if name_of(process) == "heat3d":
            kill(process)
    report, log = machine.finish(run)
    assert report["outcome"] == "finished" and nodes_of(report) == [[first, second], [first, second]], log
    assert "is left out" not in log
    assert_continued(machine, log, cells=24)


def part_after_a_checkpoint(machine: Machine, network: Network, *options: str) -> Popen[str]:
    """What survives the loss of one node of three, and lies on the nodes alone, when no two of them reach each other any more."""
    application = ["--launcher=openmpi", "--ranks=3", "--nodes=3", *options, "--", *machine.endless(HEAT, 24)]
    run = machine.start(*application)
    machine.end_after(until(lambda: machine.protected(machine.names[0])))
    network.part()
    for process in processes_on(machine.names[1]):
        if name_of(process) == "heat3d":
            kill(process)
    return run


def test_what_silent_nodes_may_have_is_not_called_lost(machine: Machine, network: Network) -> None:
    """Not even where the job would begin anew when all is lost: when the nodes reach each other again, it is there."""
    options = ["--patience=3s", "--if-lost=begin"]
    report, log = machine.finish(part_after_a_checkpoint(machine, network, *options), expect=5)
    assert report["outcome"] == "silent nodes" and len(report["launches"]) == 1, log
    assert all(name in report["reason"] for name in ("'heat3d'", *machine.names[:3])), report["reason"]
    assert machine.names[3] not in report["reason"] and "begin" not in report["reason"]
    assert "waited for: " in log
    network.join()
    report, log = machine.run(*options, "--launcher=openmpi", "--ranks=3", "--nodes=3", "--", *machine.endless(HEAT, 24))
    assert_continued(machine, log, cells=24)


def test_silent_nodes_are_waited_for(machine: Machine, network: Network) -> None:
    run = part_after_a_checkpoint(machine, network, "--patience=60s")
    until(lambda: "waited for: " in machine.log(run))
    network.join()
    report, log = machine.finish(run)
    assert report["outcome"] == "finished" and nodes_of(report) == [machine.names[:3]] * 2, log
    assert_continued(machine, log, cells=24)
