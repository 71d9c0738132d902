"""Two ranks on two virtual nodes that protect each other, as threads; the environment says the first node.

`python pair.py N` takes versions 1 to N, waits for the other node's copies and the store of each, and dies.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import numpy as np

from kedge import Context, Level
from schedule_support import job_status, until
from threaded_communicator import ThreadedCommunicator, run_ranks


def folder_of(rank: int) -> Path:
    """The run folder of a rank's node: the second one's lies beside the first one's."""
    first = Path(os.environ["KEDGE_NODE_RUN_FOLDER"])
    return first if rank == 0 else first.with_name("other")


def settings(rank: int) -> dict[str, object]:
    """What a rank's context is made with."""
    return {
        "node.name": f"n{rank}",
        "node.run_folder": folder_of(rank),
        "protect.scheme": "partner",
        "wait.timeout": "30s",
        "schedule.mtbf_local": "3h",
        "schedule.mtbf_node": "40h",
        "schedule.mtbf_store": "900h",
    }


def protected(rank: int) -> int:
    """How many versions survive the loss of a node, as the rank's node knows."""
    return int(job_status("pair", folder_of(rank))["levels"]["node"]["reached"]["count"])


def take(last: int) -> None:
    """Versions 1 to `last`, each at every level."""

    def run(rank: int, communicator: ThreadedCommunicator) -> None:
        data = np.zeros(200_000)
        context = Context("pair", communicator=communicator, settings=settings(rank))
        context.protect(0, data)
        for version in range(1, last + 1):
            data[:] = version
            context.checkpoint("sim", version)
            context.wait("sim", version, Level.STORE)
            until(lambda: protected(rank) == version)  # a version in the store counts as at level NODE, too
            communicator.barrier()
        communicator.barrier()
        os.kill(os.getpid(), signal.SIGKILL)

    run_ranks(2, run)


if __name__ == "__main__":
    take(int(sys.argv[1]))
