"""``kedge run`` on plain hosts: real sshds start, probe and end the agents, and both MPIs start their ranks through them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from heat import HEAT, HEAT_MPICH, assert_continued
from machine import Machine, name_of
from sshd import SshHosts, processes_on
from waiting import until

pytestmark = pytest.mark.needs("MPI")


@pytest.fixture
def hosts(machine: Machine) -> Iterator[SshHosts]:
    with SshHosts(machine) as hosts:
        yield hosts


def agents(machine: Machine) -> list[str]:
    """The nodes on which sshd has started an agent that runs."""
    return [name for name in machine.names for process in processes_on(name) if name_of(process) == "kedge-agent"]


@pytest.mark.parametrize(
    ("launcher", "program"), [("openmpi", HEAT), pytest.param("mpich", HEAT_MPICH, marks=pytest.mark.needs("MPICH"))], ids=["openmpi", "mpich"]
)
def test_a_host_that_is_lost_is_left_out_and_a_spare_takes_its_place(machine: Machine, hosts: SshHosts, launcher: str, program: Path) -> None:
    """What it had is rebuilt from its group alone."""
    machine.settings |= {"KEDGE_PROTECT_SCHEME": "xor", "KEDGE_SCHEDULE_STORE": "0"}
    first, second, sick, spare = machine.names
    (machine.folder / f"dead.{sick}").touch()
    run = machine.start(
        f"--launcher={launcher}", "--patience=2s", f"--probe={machine.probe()}", "--ranks=2", "--nodes=2", "--", *machine.endless(program, 32)
    )
    machine.end_after(until(lambda: machine.protected(first)))
    assert agents(machine) == [first, second], "one on each host in use"
    hosts.lose(second)
    report, log = machine.finish(run)
    until(lambda: agents(machine) == [])  # they were told to end
    assert report["outcome"] == "finished" and [launch["nodes"] for launch in report["launches"]] == [[first, second], [first, spare]], log
    assert f"node {second} is left out: " in log and f"node {sick} is left out: its health probe failed: exit code 1" in log
    assert_continued(machine, log)
