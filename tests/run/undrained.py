"""An application that takes one checkpoint and ends, without waiting for the store."""

from __future__ import annotations

import sys

from machine import BUILD, Machine

PROGRAM = """
import os
import numpy, kedge

of_launcher = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS")
rank, ranks = next([int(os.environ[name]) for name in names] for names in of_launcher if names[0] in os.environ)
array = numpy.random.default_rng(rank).random(1 << 20)
context = kedge.Context(communicator=kedge.Rendezvous("launch", rank, ranks))
context.protect(0, array)
context.checkpoint("sim", 1)
context.wait("sim", 1, kedge.Level.LOCAL)
context.close(drain=False)
"""


def undrained(machine: Machine) -> list[str]:
    machine.settings["PYTHONPATH"] = str(BUILD / "python")
    program = machine.folder / "undrained.py"
    program.write_text(PROGRAM)
    return [sys.executable, str(program)]
