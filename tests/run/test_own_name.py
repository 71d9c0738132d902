"""A program that names its own job (``kedge.Context("flock")``, ``kedge_options.job``) is followed under that name."""

from __future__ import annotations

import contextlib
import signal
import sys

import pytest

from heat import HEAT
from machine import BUILD, Machine
from kedge.run.notes import Opened, jobs_opened
from waiting import until

pytestmark = pytest.mark.needs("MPI")
# Dies in each of its first four launches, every time 20 steps further.
STEPS = """
import sys, numpy, kedge
field = numpy.zeros(1000)
with kedge.Context("flock") as context:
    context.protect(0, field, "field")
    begin = context.restart("state") if context.newest("state") is not None else 0
    for step in range(begin + 1, 101):
        field += step
        if step % 20 == 0:
            context.checkpoint("state", step)
            context.wait("state", step, kedge.Level.STORE)
            if step < 100:
                sys.exit(9)
"""
# The context of the program, and one of a library.
BOTH = """
import numpy, kedge
field = numpy.zeros(1000)
for version, job in enumerate(["flock", "second"], 1):
    with kedge.Context(job) as context:
        context.protect(0, field, "field")
        context.checkpoint("state", version)
"""


def python(machine: Machine, program: str) -> list[str]:
    (machine.folder / "program.py").write_text(program)
    return ["env", f"PYTHONPATH={BUILD / 'python'}", sys.executable, str(machine.folder / "program.py")]


def notes(machine: Machine) -> str:
    """What ranks have noted on this machine; notes of other tests come and go meanwhile."""
    texts = []
    for note in machine.run_folders.glob("jobs-*"):
        with contextlib.suppress(FileNotFoundError):
            texts.append(note.read_text())
    return "".join(texts)


def test_the_progress_of_a_job_that_names_itself_is_seen(machine: Machine) -> None:
    report, log = machine.run("--launcher=openmpi", "--no-progress=2", "--nodes=1", "--", *python(machine, STEPS))
    assert report["outcome"] == "finished" and report["job"] == "flock" and report["versions"] == {"state": 100}, log
    assert [launch["advanced"] for launch in report["launches"]] == [True] * 5, "also the last, which has finished the job"
    assert log.count("the program opens job 'flock', not 'env': from here on 'flock' is followed") == 1


def test_what_an_earlier_run_has_taken_is_no_progress(machine: Machine) -> None:
    machine.run("--launcher=openmpi", "--ranks=2", "--nodes=2", "--", "env", "KEDGE_JOB_NAME=flock", str(HEAT), "32", "100", "100")
    died = ["--ranks=2", "--nodes=2", "--", "sh", "-c", f"KEDGE_JOB_NAME=flock {HEAT} 32 100 100; exit 9"]
    report, log = machine.run("--launcher=openmpi", "--no-progress=1", *died, expect=1)
    assert report["outcome"] == "gave up" and not report["launches"][0]["advanced"], log
    assert report["job"] == "flock" and report["versions"] == {"heat3d": 100}


def test_it_is_asked_for_its_last_checkpoint(machine: Machine) -> None:
    machine.settings |= {"KEDGE_SCHEDULE_STORE": "0", "KEDGE_PROTECT_SCHEME": "partner"}
    own = f"flock-{machine.folder.name}"
    program = ["env", f"KEDGE_JOB_NAME={own}", str(HEAT), "32", "10000000", "0"]
    run = machine.start("--launcher=openmpi", "--job=given", "--ranks=2", "--nodes=2", "--", *program)
    until(lambda: machine.sessions(machine.names[0]))
    run.send_signal(signal.SIGUSR1)
    report, log = machine.finish(run, expect=75)
    assert report["outcome"] == "out of time" and "heat3d: halted at step" in log
    assert machine.versions() == [report["versions"]["heat3d"]], "it was drained, though it was meant for the nodes alone"
    assert f"the program opens job '{own}', not 'given': from here on '{own}' is followed" in log
    assert own not in notes(machine), "it was read, and is gone"


@pytest.mark.parametrize(("options", "followed", "version"), [([], "flock", 1), (["--job=second"], "second", 2)])
def test_of_several_jobs_the_one_that_was_given_counts(machine: Machine, options: list[str], followed: str, version: int) -> None:
    report, log = machine.run("--launcher=openmpi", *options, "--nodes=1", "--", *python(machine, BOTH))
    assert report["job"] == followed and report["versions"] == {"state": version}, log
    assert ("the program opens jobs 'flock', 'second', not 'env': from here on 'flock' is followed" in log) == (not options)


def test_notes_are_read_in_their_order_and_once() -> None:
    lines = ['{"opened":"a","attempt":3}', '{"opened":"b","attempt":1}', '{"opened":"a","attempt":3}', '{"state":"serving"}']
    assert jobs_opened(["\n".join(lines), lines[1]]) == [Opened("a", 3), Opened("b", 1)]
