"""``kedge run --fmi`` and fmirun on real machine lists: real sshds and a real SLURM start its tasks, of which ranks and nodes die."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cluster import Cluster
from hosts import Hosts, needs_networks
from machine import BUILD, Machine, name_of
from network import Network
from processes import kill, processes_with
from sshd import SshHosts, processes_on
from test_slurm import submit, text
from waiting import until

FMIRUN = BUILD / "bin" / "fmirun"
JACOBI = [str(BUILD / "examples" / "jacobi"), "40", "1500", "2"]
RANKS = ["-n", "4", "--interval", "20"]
OPTIONS = ["--fmi", "--ranks=4", "--launch-options=--interval 20"]


@pytest.fixture(autouse=True)
def _on_the_nodes_alone(machine: Machine) -> None:
    machine.settings |= {"KEDGE_PROTECT_SCHEME": "xor", "KEDGE_SCHEDULE_STORE": "0"}


@pytest.fixture
def hosts(machine: Machine) -> Iterator[SshHosts]:
    with SshHosts(machine) as hosts:
        yield hosts


@pytest.fixture
def cluster(machine: Machine) -> Iterator[Cluster]:
    folder = machine.folder / "slurm"
    folder.mkdir(mode=0o755)
    with Cluster(folder, machine.names) as cluster:
        yield cluster


def said(output: str) -> str:
    """What jacobi has found, each time that it says so."""
    found = set(re.findall(r"^steps .*$", output, re.MULTILINE))
    assert len(found) == 1, output
    return str(found.pop())


@pytest.fixture(scope="module")
def expected() -> str:
    """What it finds where nothing happens."""
    machine = Machine(1)
    try:
        done = subprocess.run([FMIRUN, *RANKS, *JACOBI], env=machine.environment() | {"KEDGE_NODE": machine.names[0]}, cwd=machine.folder,
                              capture_output=True, text=True, timeout=120, check=True)
        return said(done.stdout)
    finally:
        machine.clean()


def programs(machine: Machine, name: str) -> list[int]:
    return [process for process in processes_with([f"MACHINE_OF_TEST={machine.folder.name}".encode()]) if name_of(process) == name]


def rank(machine: Machine, number: int) -> int:
    """Its process."""
    (found,) = [process for process in programs(machine, "jacobi") if b"\0FMI_RANK=%d\0" % number in Path(f"/proc/{process}/environ").read_bytes()]
    return found


def secrets_shown(machine: Machine) -> list[str]:
    """Where one stands that others may read."""
    found = []
    for process in processes_with([f"MACHINE_OF_TEST={machine.folder.name}".encode()]):
        for file in ("cmdline", "environ"):
            with suppress(OSError):
                if re.search(rb"\b[0-9a-f]{64}\b", Path(f"/proc/{process}/{file}").read_bytes()):
                    found.append(f"{file} of {name_of(process)}")
    return found


def assert_nothing_is_left(machine: Machine) -> None:
    until(lambda: not [name for name in ("fmirun", "jacobi", "ssh", "kedge-agent") if programs(machine, name)])


def nodes_of(report: dict[str, Any]) -> list[list[str]]:
    return [launch["nodes"] for launch in report["launches"]]


def test_a_killed_rank_and_a_lost_host_are_replaced_within_the_launch(machine: Machine, hosts: SshHosts, expected: str) -> None:
    """The first spare does not answer any more, the second one takes the ranks."""
    first, second, sick, spare = machine.names
    run = machine.start(*OPTIONS, "--nodes=2", "--patience=2s", "--", *JACOBI)
    until(lambda: machine.protected(first))
    assert [len([process for process in processes_on(name) if name_of(process) == "jacobi"]) for name in machine.names] == [2, 2, 0, 0]
    assert secrets_shown(machine) == []
    kill(rank(machine, 3))
    until(lambda: "all ranks run again" in machine.log(run))
    hosts.lose(sick)
    until(lambda: f"node {sick} is gone" in machine.log(run))
    hosts.lose(second)
    report, log = machine.finish(run)
    assert report["outcome"] == "finished" and nodes_of(report) == [machine.names], log
    assert sorted(report["launches"][0]["dead"]) == sorted([second, sick]), log
    assert "rank 3 (process" in log and f"node {spare} takes rank 2, 3" in log
    assert said(log) == expected
    assert_nothing_is_left(machine)


def test_without_a_spare_the_next_launch_is_on_the_nodes_that_are_left(machine: Machine, hosts: SshHosts, expected: str) -> None:
    *left, lost = machine.names
    run = machine.start(*OPTIONS, "--nodes-min=3", "--patience=2s", "--", *JACOBI)
    until(lambda: machine.protected(left[0]))
    hosts.lose(lost)
    report, log = machine.finish(run)
    assert report["outcome"] == "finished" and nodes_of(report) == [machine.names, left], log
    assert f"fmirun: node {lost} is gone: " in log and "no spare node is left for rank 3" in log
    assert said(log) == expected
    assert_nothing_is_left(machine)


def test_a_task_or_a_rank_that_stands_still_for_a_while_costs_no_node(machine: Machine, hosts: SshHosts, expected: str) -> None:
    """All processors are busy meanwhile."""
    first, second, *_ = machine.names
    run = machine.start(*OPTIONS, "--nodes=2", "--", *JACOBI)
    until(lambda: machine.protected(first))
    (task,) = [process for process in processes_on(second) if name_of(process) == "fmirun"]
    stopped = [task, rank(machine, 0)]
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in os.sched_getaffinity(0)]
    try:
        for process in stopped:
            os.kill(process, signal.SIGSTOP)
        until(lambda: f"the task of node {second} stands still, but the node does not" in machine.log(run))
        for process in stopped:
            os.kill(process, signal.SIGCONT)
        report, log = machine.finish(run)
    finally:
        for load in busy:
            load.kill()
            load.wait()
    assert report["outcome"] == "finished" and len(report["launches"]) == 1, log
    assert "is gone" not in log and "all ranks run again" not in log
    assert said(log) == expected


@pytest.mark.slow
def test_a_host_that_hangs_is_replaced(machine: Machine, hosts: SshHosts, expected: str) -> None:
    first, second, spare, _ = machine.names
    run = machine.start(*OPTIONS, "--nodes=2", "--patience=2s", "--", *JACOBI)
    until(lambda: machine.protected(first))
    hosts.hang(second)
    report, log = machine.finish(run)
    assert report["outcome"] == "finished" and len(report["launches"]) == 1, log
    assert re.search(f"node {second} is gone: its task has been silent for .* s, and no command can be run there", log), log
    assert f"node {spare} takes rank 2, 3" in log
    assert said(log) == expected


def launcher(machine: Machine) -> int:
    """The process of fmirun."""
    (found,) = [process for process in programs(machine, "fmirun") if b"--hosts" in Path(f"/proc/{process}/cmdline").read_bytes()]
    return found


def test_a_killed_fmirun_is_followed(machine: Machine, hosts: SshHosts, expected: str) -> None:
    """The ranks on the hosts run on, and a rank that dies then is started again by the successor."""
    first, second, *_ = machine.names
    run = machine.start(*OPTIONS, "--nodes=2", "--", *JACOBI)
    until(lambda: machine.protected(first))
    before = programs(machine, "jacobi")
    kill(launcher(machine))
    until(lambda: "takes the job over, in which 4 of 4 ranks run" in machine.log(run))
    assert programs(machine, "jacobi") == before
    kill(rank(machine, 3))
    report, log = machine.finish(run)
    assert report["outcome"] == "finished" and len(report["launches"]) == 1, log
    assert "the launcher has ended with SIGKILL: another one takes over" in log
    assert said(log) == expected
    assert_nothing_is_left(machine)


def test_a_killed_fmirun_is_launched_again(machine: Machine, hosts: SshHosts, expected: str) -> None:
    """Where its tasks on the hosts are to end with it."""
    first, second, *_ = machine.names
    run = machine.start("--fmi", "--ranks=4", "--launch-options=--interval 20 --orphan-timeout 0", "--nodes=2", "--", *JACOBI)
    until(lambda: machine.protected(first))
    before = programs(machine, "jacobi")
    kill(launcher(machine))
    until(lambda: not set(before) & set(programs(machine, "jacobi")))
    report, log = machine.finish(run)
    assert report["outcome"] == "finished" and len(report["launches"]) == 2, log
    assert said(log) == expected
    assert_nothing_is_left(machine)


def fmirun(machine: Machine, *words: str) -> subprocess.CompletedProcess[str]:
    """By itself, on hosts that ssh reaches."""
    command = [str(FMIRUN), *RANKS, "--shell", machine.where[1], *words]
    return subprocess.run(command, env=machine.environment(), cwd=machine.folder, capture_output=True, text=True, timeout=120)


def test_fmirun_takes_a_spare_where_no_task_begins(machine: Machine, hosts: SshHosts, expected: str) -> None:
    first, second, third, _ = machine.names
    hosts.lose(second)
    done = fmirun(machine, "--hosts", f"{first},{second},{third}", "--spares", "1", *JACOBI)
    assert done.returncode == 0 and said(done.stdout) == expected, done.stderr
    assert f"node {second} is gone: its task does not begin (exit code 255); node {third} takes rank 2, 3" in done.stderr
    done = fmirun(machine, "--hosts", f"{first},{second}", *JACOBI)
    assert done.returncode == 1 and "its task does not begin (exit code 255), and no spare node is left for rank 2, 3" in done.stderr
    until(lambda: not programs(machine, "jacobi") and not programs(machine, "fmirun"))


def test_a_program_that_is_not_there_is_not_launched_again(machine: Machine, hosts: SshHosts) -> None:
    absent = str(machine.folder / "absent")
    report, log = machine.run(*OPTIONS, "--nodes=2", "--", "sh", "-c", f"exec {absent}", expect=1)
    assert report["outcome"] == "gave up" and len(report["launches"]) == 1, log
    done = fmirun(machine, "--hosts", machine.names[0], absent)
    assert done.returncode == 1 and f"start {absent}: No such file or directory" in done.stderr


@pytest.mark.parametrize("told", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["told", "untold"])
def test_in_slurm_a_node_that_dies_is_replaced_within_the_launch(cluster: Cluster, machine: Machine, expected: str, told: bool) -> None:
    first, second, _, spare = machine.names
    script = (
        f"kedge run --json --virtual --nodes=3 {shlex.join(OPTIONS)} -- {shlex.join(JACOBI)} > report.json\n"
        "echo kedge run is over: $?\n"
    )
    output = submit(cluster, machine, script, "--nodes=4", "--no-kill", f"--chdir={machine.folder}")
    until(lambda: machine.protected(first))
    assert secrets_shown(machine) == []
    kill(rank(machine, 0))
    until(lambda: "all ranks run again" in text(output))
    cluster.kill_node(second, told=told)
    until(lambda: "kedge run is over" in text(output), seconds=180)
    assert "kedge run is over: 0" in text(output), text(output) + cluster.logs()
    report = json.loads((machine.folder / "report.json").read_text())
    assert report["outcome"] == "finished" and nodes_of(report) == [machine.names], text(output)
    assert f"node {spare} takes rank" in text(output)
    assert said(text(output)) == expected
    until(lambda: not [name for name in ("fmirun", "jacobi", "srun") if programs(machine, name)])


def test_in_slurm_a_node_that_dies_without_a_spare_is_replaced_by_one_that_is_asked_for(
    cluster: Cluster, machine: Machine, expected: str
) -> None:
    """Within the launch. It is another job's, and goes back with this one."""
    first, second, *others = machine.names
    script = (
        f"kedge run --json --virtual --more=1 {shlex.join(OPTIONS)} -- {shlex.join(JACOBI)} > report.json\n"
        "echo kedge run is over: $?\n"
    )
    output = submit(cluster, machine, script, "--nodes=2", "--no-kill", f"--chdir={machine.folder}")
    until(lambda: machine.protected(first))
    cluster.kill_node(second)
    until(lambda: "kedge run is over" in text(output), seconds=180)
    log = text(output)
    assert "kedge run is over: 0" in log, log + cluster.logs()
    report = json.loads((machine.folder / "report.json").read_text())
    assert report["outcome"] == "finished" and report["not_drained"] == {}, log
    (launch,) = report["launches"]
    assert launch["nodes"][:2] == [first, second] and launch["nodes"][2] in others and list(launch["dead"]) == [second]
    assert f"SLURM has given node {launch['nodes'][2]}" in log
    assert f"fmirun: node {launch['nodes'][2]} has come, and takes rank 2, 3" in log
    assert said(log) == expected
    cluster.until(lambda: not cluster.run("squeue", "-h").strip(), "both jobs are gone", seconds=30)
    until(lambda: not [name for name in ("fmirun", "jacobi", "srun") if programs(machine, name)])


def test_in_slurm_a_node_that_cannot_be_had_ends_the_launch(cluster: Cluster, machine: Machine) -> None:
    """The next one is on the nodes that are left."""
    *nodes, last = machine.names
    script = f"kedge run --json --virtual --nodes-min=2 --more=1 {shlex.join(OPTIONS)} -- {shlex.join(JACOBI)} > report.json\n"
    submit(cluster, machine, "sleep 1000\n", f"--nodelist={last}")
    output = submit(cluster, machine, script + "echo kedge run is over: $?\n", "--nodes=3", "--no-kill", f"--chdir={machine.folder}")
    until(lambda: machine.protected(nodes[0]))
    cluster.kill_node(nodes[1])
    until(lambda: "is asked of SLURM (job" in text(output))
    (job,) = re.findall(r"asked of SLURM \(job (\d+)\)", text(output))
    cluster.run("scancel", job)
    until(lambda: "kedge run is over" in text(output), seconds=180)
    log = text(output)
    assert "kedge run is over: 0" in log, log + cluster.logs()
    assert "no other node: job" in log and "no other node is to be had for rank " in log
    report = json.loads((machine.folder / "report.json").read_text())
    assert nodes_of(report) == [nodes, [nodes[0], nodes[2]]]


@needs_networks
def test_nodes_that_do_not_reach_fmirun_or_each_other_are_named(machine: Machine) -> None:
    here, by_address, mute, astray = machine.names
    reach = machine.folder / "reach"
    cases = {here: "127.0.0.1", by_address: "10.77.0.1", mute: "", astray: "10.77.0.2"}
    reach.write_text("#!/bin/sh\nnode=$1\nshift\ncase $node in\n"
                     + "".join(f'{node}) SSH_CONNECTION="{address} 4711 10.77.0.1 22" ;;\n' for node, address in cases.items())
                     + 'esac\nexport SSH_CONNECTION\nexec "$@"\n')
    reach.chmod(0o755)
    hosts = Hosts(machine.folder / "net", [f"{here}-front", f"{here}-other"], {})

    def run(*words: str) -> tuple[int, str]:
        command = [*hosts.entered(), str(FMIRUN), "-n", "2", "--shell", str(reach), *words, JACOBI[0], "16", "50"]
        done = subprocess.run(command, env=machine.environment(), cwd=machine.folder, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stderr

    try:
        code, log = run("--virtual", f"{here},{by_address}")
        assert code == 1 and f"node {here} is this machine, and no other node reaches it at a loopback address" in log
        code, log = run("--virtual", f"{here},{by_address}", "--interface", "10.77.0.1")
        assert code == 0, log
        code, log = run("--virtual", f"{by_address},{mute}")
        assert code == 1 and "nothing says at which address this node reaches fmirun: --interface does" in log
        code, log = run("--virtual", f"{by_address},{astray}")
        assert code == 1 and "fmirun is not reached at 10.77.0.2:" in log
    finally:
        hosts.end()


@pytest.mark.slow
@needs_networks
def test_a_host_whose_link_is_cut_is_replaced(machine: Machine, expected: str) -> None:
    """Each host has an address of its own. What runs behind the cut ends by itself, when no other fmirun has come for it."""
    options = ["--fmi", "--ranks=4", "--launch-options=--interval 20 --orphan-timeout 5s"]
    with Network(machine) as network:
        first, second, spare, _ = machine.names
        run = machine.start(*options, "--nodes=2", "--patience=2s", "--", *JACOBI)
        until(lambda: machine.protected(first))
        network.cut(second)
        report, log = machine.finish(run)
        until(lambda: not [process for process in processes_on(second) if name_of(process) in ("fmirun", "jacobi")])
    assert report["outcome"] == "finished" and nodes_of(report) == [machine.names], log
    assert f"node {spare} takes rank 2, 3" in log
    assert said(log) == expected
