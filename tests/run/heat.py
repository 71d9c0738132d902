"""The application that the tests of ``kedge run`` disturb, and what its result must be."""

from __future__ import annotations

import subprocess
from pathlib import Path

from machine import BUILD, Machine, result

HEAT = BUILD / "examples" / "heat3d"
HEAT_MPICH = BUILD / "examples" / "heat3d-mpich"


def heat(steps: int, interval: int = 0) -> list[str]:
    return ["--ranks=2", "--nodes=2", "--", str(HEAT), "32", str(steps), str(interval)]


def endless_heat(machine: Machine, program: Path = HEAT) -> list[str]:
    """For a test that disturbs it in mid-run, however fast this machine is."""
    return ["--ranks=2", "--nodes=2", "--", *machine.endless(program, 32)]


def reference(machine: Machine, steps: int, cells: int = 32) -> tuple[int, str]:
    """The result of a run that nobody disturbed, without Kedge's help."""
    done = subprocess.run([HEAT, str(cells), str(steps), "1000000"], capture_output=True, text=True, timeout=300, check=True,
                          env=machine.environment() | {"KEDGE_JOB_NAME": "reference", "KEDGE_JOB_MODE": "sync", "KEDGE_PROTECT_SCHEME": "none"})
    return result(done.stdout)


def assert_continued(machine: Machine, log: str, cells: int = 32) -> None:
    """It went on from a checkpoint, and its result is that of a run which nobody disturbed."""
    assert "continuing from step" in log
    steps, checksum = result(log)
    assert reference(machine, steps, cells) == (steps, checksum)
