"""What would end in the same way again is launched once under ``kedge run``, and the reason told: a refusal of Kedge, most of all.

A rank leaves it on its node, for ``kedge run`` to read. Each case is one that the command cannot see before it launches.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from heat import HEAT, HEAT_MPICH, heat
from machine import BUILD, Machine
from kedge.run.notes import why_refused

pytestmark = pytest.mark.needs("MPI")


def notes() -> set[Path]:
    return set(Path(f"/dev/shm/kedge-{os.getuid()}").glob("refusal-*"))


def why(note: Path) -> str:
    """Empty, where it is read meanwhile."""
    with suppress(OSError, ValueError):
        return str(json.loads(note.read_text())["why"])
    return ""


def no_note_stays(before: set[Path], is_meant: Callable[[str], bool]) -> bool:
    """Of such reasons. Other tests of this machine leave notes beside it, whose launches may go on for long."""
    left = {note for note in notes() - before if is_meant(why(note))}
    end = time.monotonic() + 60
    while left and time.monotonic() < end:
        time.sleep(0.1)
        left &= notes()
    return not left


def refused(machine: Machine, *arguments: str) -> str:
    """The reason why the job ended, with its first launch."""
    before = notes()
    report, log = machine.run("--launcher=openmpi", *arguments, expect=1)
    assert report["outcome"] == "gave up" and len(report["launches"]) == 1, log
    assert report["launches"][0]["before"]["agents are started"] < 15, "those that cannot begin are waited for"
    assert no_note_stays(before, lambda why: why != "" and why in report["reason"])
    return str(report["reason"])


def with_variables(*settings: str) -> list[str]:
    """heat3d on two nodes, where the ranks alone have these settings."""
    return ["--ranks=2", "--nodes=2", "--", "env", *settings, str(HEAT), "32", "300", "100"]


def python(program: str) -> list[str]:
    return ["env", f"PYTHONPATH={BUILD / 'python'}", sys.executable, "-c", program]


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("KEDGE_PROTECT_SHEME=xor", "unknown environment variable KEDGE_PROTECT_SHEME"),
        ("KEDGE_POOL_SIZE=large", "'large' is not a byte count"),
        ("KEDGE_CONFIG=/missing/kedge.toml", "cannot open the configuration file /missing/kedge.toml"),
        ("KEDGE_STORE_PATH=ftp://somewhere/store", "ftp"),
        ("KEDGE_NODE_FAILURE_DOMAIN=slurm", "SLURM_TOPOLOGY_ADDR names no switch"),
        ("KEDGE_POOL_SIZE=48MiB", "pool.size = 48MiB is asked for, but the agent of node"),
    ],
)
def test_settings_that_the_ranks_alone_have_are_refused_once(machine: Machine, setting: str, why: str) -> None:
    reason = refused(machine, *with_variables(setting))
    assert "Kedge refuses, and would refuse again: " in reason and why in reason


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"KEDGE_PROTECT_SCHEME": "xor"}, "1 node"),
        ({"KEDGE_PROTECT_SCHEME": "rs", "KEDGE_PROTECT_LOSSES": "2", "KEDGE_PROTECT_GROUP": "2"}, "group"),
        ({"KEDGE_PROTECT_SCHEME": "xor", "KEDGE_NODE_FAILURE_DOMAIN": "rack7"}, "failure domain"),
    ],
)
def test_nodes_that_cannot_protect_each_other_are_launched_once(machine: Machine, settings: dict[str, str], why: str) -> None:
    machine.settings |= settings
    nodes = 1 if why == "1 node" else 2
    assert why in refused(machine, "--ranks=2", f"--nodes={nodes}", "--", *heat(300, 100)[-4:])


def test_a_setting_that_is_wrong_on_all_nodes_is_told_once(machine: Machine) -> None:
    machine.settings["KEDGE_NODE_FAILURE_DOMAIN"] = "slurm"
    report, log = machine.run("--launcher=openmpi", *heat(300, 100), expect=3)
    assert not report["launches"] and report["reason"].count("SLURM_TOPOLOGY_ADDR names no switch") == 1
    assert f"nodes {', '.join(machine.names)} are left out: it cannot be asked: node.failure_domain = " in log


def test_agents_that_cannot_begin_are_not_waited_for(machine: Machine) -> None:
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o777)
    machine.settings["KEDGE_NODE_RUN_FOLDER"] = f"{folder}/%n"
    try:
        assert f"{folder} may be written by others" in refused(machine, *heat(300, 100))
    finally:
        shutil.rmtree(folder)


def test_memory_that_no_version_fits_is_refused_once(machine: Machine) -> None:
    machine.run("--launcher=openmpi", *heat(200, 100))
    machine.settings["KEDGE_JOB_NAME"] = "heat3d"
    reason = refused(machine, "--ranks=2", "--nodes=2", "--", str(HEAT), "48", "300", "100")
    assert "Kedge refuses, and would refuse again: " in reason and "temperature" in reason


def test_other_nodes_are_asked_of_slurm_alone(machine: Machine) -> None:
    for words in (["--fmi", "--more=1"], ["--more=1"]):
        _, log = machine.end_of(machine.start(*words, "--", "true"), 2)
        assert "--more is for a program of FMI (--fmi) in a SLURM allocation" in log


@pytest.mark.needs("MPICH")
def test_a_program_of_another_mpi_than_the_launcher_is_recognised(machine: Machine) -> None:
    reason = refused(machine, "--ranks=2", "--nodes=2", "--", str(HEAT_MPICH), "32", "300", "100")
    assert "MPI_COMM_WORLD has 1 rank, and kedge run has launched 2: the program uses another MPI (MPICH Version" in reason


@pytest.mark.needs("PYTHON")
def test_ranks_that_each_begin_a_job_of_their_own_are_recognised(machine: Machine) -> None:
    program = "import kedge, time\nwith kedge.Context('alone'): time.sleep(10)"
    reason = refused(machine, "--ranks=2", "--nodes=1", "--", *python(program))
    assert "this process is a job of its own, and kedge run has launched 2 of them" in reason


def test_a_missing_library_is_not_tried_again(machine: Machine) -> None:
    assert "shared library that it needs" in refused(machine, "--nodes=1", "--", "sh", "-c", "exit 127")


@pytest.mark.needs("PYTHON")
def test_an_application_may_live_with_a_refusal(machine: Machine) -> None:
    program = "import kedge\ntry: kedge.Context('alone')\nexcept kedge.Error: print('goes on')"
    before = notes()
    report, log = machine.run("--launcher=openmpi", "--nodes=1", "--", "env", "KEDGE_POOL_SIZE=large", *python(program))
    assert report["outcome"] == "finished" and "goes on" in log
    assert no_note_stays(before, lambda why: "large" in why)


@pytest.mark.needs("PYTHON")
def test_who_begins_after_all_is_launched_again(machine: Machine) -> None:
    program = (
        "import kedge, os, sys\ntry: kedge.Context('alone')\nexcept kedge.Error: del os.environ['KEDGE_POOL_SIZE']\n"
        "with kedge.Context('alone'): pass\nsys.exit(7)"
    )
    arguments = ["--launcher=openmpi", "--nodes=1", "--no-progress=2", "--", "env", "KEDGE_POOL_SIZE=large", *python(program)]
    report, _ = machine.run(*arguments, expect=1)
    assert [launch["exit_code"] for launch in report["launches"]] == [7, 7] and "ended without a newer" in report["reason"]


def test_a_refusal_that_the_application_has_outlived_ends_nothing() -> None:
    def line(seconds: int) -> str:
        return f'{{"refused_seconds_ago": {seconds}, "note": {{"code": "mismatch", "why": "wrong"}}}}\nno agent'

    assert why_refused(["no agent", line(12)], 4.0) == "wrong"
    assert why_refused([line(15)], 4.0) == "", "it has gone on without Kedge, and failed in another way"
