"""Each command line of ``kedge run`` in the documents runs a job to its end, on smaller numbers and with hosts of a test's own."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from cluster import Cluster
from documented import PAGES, commands
from heat import HEAT, HEAT_MPICH
from machine import BUILD, KEDGE, Machine
from sshd import SshHosts

pytestmark = pytest.mark.needs("MPI", "MPICH")
SHOWN = sorted({shown.removesuffix(" &") for page in PAGES for shown in commands(page) if shown.startswith("kedge run ")})
NUMBERS = {r"--nodes \d+": "--nodes 2", r"--ranks \d+": "--ranks 2"}


def with_program(machine: Machine, shown: str, heat: Path) -> str:
    """What is to be run instead, in the machine's folder; an option alone stands for any run that has it."""
    command = shown if " -- " in shown else f"{shown} --ranks 2 -- ./app"
    for printed, used in NUMBERS.items():
        command = re.sub(printed, used, command)
    (program,) = re.findall(r" -- \./(\w+)", command)
    path = machine.folder / program
    application = f"{BUILD / 'examples' / 'jacobi'} 16 100" if "--fmi" in shown else f"{heat} 16 100 50"
    path.write_text(f"#!/bin/sh\nexec {application}\n")
    path.chmod(0o755)
    return command


def finishes(machine: Machine, command: str, **variables: str) -> None:
    environment = machine.environment() | variables | {"PATH": f"{KEDGE.parent}:{os.environ['PATH']}"}
    done = subprocess.run(command, shell=True, cwd=machine.folder, env=environment, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0 and "finished: the application finished" in done.stderr, f"{command}\n{done.stdout}{done.stderr}"
    if "--fmi" in command:
        assert "steps 100, residual" in done.stdout + done.stderr and machine.versions()
    else:
        assert "step 100, checksum" in done.stdout + done.stderr and machine.versions()[0] == 100


@pytest.mark.parametrize("shown", [shown for shown in SHOWN if "--hosts" in shown and "--virtual" not in shown])
def test_on_hosts(machine: Machine, shown: str) -> None:
    command = with_program(machine, shown, HEAT)
    with SshHosts(machine):
        option, ssh = machine.where
        (machine.folder / "hosts.conf").write_text(Path(shlex.split(ssh)[2]).read_text())
        (machine.folder / "hosts.txt").write_text("".join(f"{name}\n" for name in machine.names))
        command = command.replace("n1,n2,n3", ",".join(machine.names[:3])).replace("/usr/local/sbin/node-is-healthy", "true")
        finishes(machine, command if option in command else command.replace(" -- ", f" {option} {shlex.quote(ssh)} -- "))


@pytest.mark.parametrize("shown", [shown for shown in SHOWN if "--virtual" in shown or "--nodes" not in shown])
def test_on_this_machine(machine: Machine, shown: str) -> None:
    command = with_program(machine, shown, HEAT).replace("a,b,c", ",".join(machine.names[:3]))
    finishes(machine, command, KEDGE_NODE=machine.names[0])


@pytest.mark.parametrize("shown", [shown for shown in SHOWN if "--nodes" in shown and "--hosts" not in shown])
def test_in_an_allocation(machine: Machine, shown: str) -> None:
    mpi = "" if "--fmi" in shown else " --launch-options=--mpi=pmi2"
    command = with_program(machine, shown, HEAT_MPICH).replace(" -- ", f" --virtual{mpi} -- ")
    folder = machine.folder / "slurm"
    folder.mkdir(mode=0o755)
    with Cluster(folder, machine.names):
        finishes(machine, f"salloc --quiet --nodes=3 --time=60 sh -c {shlex.quote(command)}", SLURM_CONF=f"{folder}/slurm.conf")


def test_each_is_run_somewhere() -> None:
    assert len(SHOWN) >= 7 and all(shown.count(" -- ") <= 1 for shown in SHOWN)
