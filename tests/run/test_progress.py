"""When ``kedge run`` gives a job up: launches without progress, too many launches, and what is left of them."""

from __future__ import annotations

import sys

import pytest

from heat import HEAT, assert_continued, endless_heat, heat
from machine import BUILD, Machine
from processes import kill
from waiting import until

pytestmark = pytest.mark.needs("MPI")


def test_launches_without_progress_end_the_job_with_the_reason(machine: Machine) -> None:
    report, log = machine.run("--launcher=openmpi", "--no-progress=2", "--ranks=2", "--nodes=2", "--", "sh", "-c", "exit 7", expect=1)
    assert report["outcome"] == "gave up" and len(report["launches"]) == 2
    assert "2 launches in a row ended without a newer complete version" in report["reason"] and "exit code 7" in report["reason"]
    assert "the next launch begins in" in log


def test_restarts_are_limited_though_there_is_progress(machine: Machine) -> None:
    report, _ = machine.run(
        "--launcher=openmpi", "--restarts=1", "--nodes=1", "--", "sh", "-c",
        f"n=$(cat {machine.folder}/n 2>/dev/null || echo 0); echo $((n+100)) > {machine.folder}/n; {HEAT} 8 $((n+100)) 100; exit 9", expect=1,
    )
    assert report["outcome"] == "gave up" and "failed 2 times" in report["reason"]
    assert [launch["advanced"] for launch in report["launches"]] == [True, True]


def test_a_job_that_is_given_up_leaves_what_its_nodes_protected(machine: Machine) -> None:
    """Nothing was meant for the store, and one of the two nodes is gone: the other has the partner's copy."""
    machine.settings |= {"KEDGE_PROTECT_SCHEME": "partner", "KEDGE_SCHEDULE_STORE": "0"}
    run = machine.start("--launcher=openmpi", "--restarts=0", f"--probe={machine.probe()}", *heat(10_000_000))
    until(lambda: machine.protected(machine.names[0]))
    machine.lose(machine.names[1])
    report, _ = machine.finish(run, expect=1)
    assert report["outcome"] == "gave up" and report["versions"]["heat3d"] > 0
    assert list(report["not_drained"]) == [machine.names[1]], report["not_drained"]


def test_versions_that_survive_a_node_are_progress(machine: Machine) -> None:
    machine.settings |= {"KEDGE_PROTECT_SCHEME": "partner", "KEDGE_SCHEDULE_STORE": "0"}
    run = machine.start("--launcher=openmpi", "--no-progress=1", *endless_heat(machine))
    machine.end_after(until(lambda: machine.protected(machine.names[0])))
    kill(until(lambda: machine.ranks_on(machine.names[1], "heat3d"))[0])
    report, log = machine.finish(run)
    assert report["launches"][0]["advanced"] and len(report["launches"]) == 2
    assert_continued(machine, log)


GOES_BACK = """
import os, sys
import numpy, kedge

rank, ranks = (int(os.environ[f"OMPI_COMM_WORLD_{what}"]) for what in ("RANK", "SIZE"))
with open(f"launches-{rank}", "a") as launches:
    launches.write("x")
launch, level = os.path.getsize(f"launches-{rank}"), kedge.Level[sys.argv[1]]
array = numpy.zeros(4)
with kedge.Context(communicator=kedge.Rendezvous(f"launch-{launch}", rank, ranks)) as context:
    context.protect(0, array)
    if launch == 2:
        assert context.restart("sim", at_most=40) == 40
    for version in {1: (40, 50), 2: (42,)}.get(launch, ()):
        context.checkpoint("sim", version)
        context.wait("sim", version, level)
        if version == 40 and level == kedge.Level.STORE and rank == 0:
            context.pin("sim", 40)
sys.exit(1)
"""


@pytest.mark.needs("PYTHON")
@pytest.mark.parametrize(("level", "keep"), [("STORE", 2), ("STORE", 1), ("NODE", 2)])
def test_a_job_that_goes_back_makes_progress_from_there(machine: Machine, level: str, keep: int) -> None:
    """The second launch goes on from 40, though there is a 50, which goes where one version is kept. The third does nothing."""
    machine.settings |= {"KEDGE_KEEP_VERSIONS": str(keep), "KEDGE_KEEP_LOCAL": "2"}
    if level == "NODE":
        machine.settings |= {"KEDGE_PROTECT_SCHEME": "partner", "KEDGE_SCHEDULE_STORE": "0"}
    machine.settings["PYTHONPATH"] = str(BUILD / "python")
    program = machine.folder / "goes-back.py"
    program.write_text(GOES_BACK)
    application = ["--ranks=2", "--nodes=2", "--", sys.executable, str(program), level]
    report, log = machine.run("--launcher=openmpi", "--no-progress=1", *application, expect=1)
    assert [launch["advanced"] for launch in report["launches"]] == [True, True, False]
    assert "safe until then: sim 50" in log and "safe until then: sim 42" in log
    assert report["versions"] == {"sim": 42} and "newest in the store: sim 42" in log
