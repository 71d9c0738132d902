"""A virtual node of its own for one demonstration: folders, environment, agent; and nothing left of it afterwards.

Everything lies in two new folders of one name, one on disk (store, output) and one in memory (the agent's run folder). An agent is
found by the lock file of this run folder that it holds open, or by the folder in its environment, so that no other agent of the
machine can be hit.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path


MEMORY = Path("/dev/shm")


class Node:
    """A virtual node. Use as a context manager: leaving it ends the agent and removes the folders."""

    def __init__(self, pool_bytes: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="kedge-run-"))
        self.memory_folder = MEMORY / self.folder.name if os.access(MEMORY, os.W_OK) else self.folder / "memory"
        self.memory_folder.mkdir(mode=0o700)
        self.run_folder = self.memory_folder / "node"
        self.store = self.folder / "store"
        self._pool_bytes = pool_bytes

    def __enter__(self) -> Node:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends agents and removes folders until neither is left: a rank that lost its agent may just have started another."""
        end = time.monotonic() + 10
        while True:
            while (agent := self.agent()) is not None:
                _stop(agent, patience_seconds=5)
            for folder in (self.memory_folder, self.folder):
                shutil.rmtree(folder, ignore_errors=True)
            if not (self.folder.exists() or self.memory_folder.exists()) or time.monotonic() > end:
                return
            time.sleep(0.05)

    def environment(self, job: str) -> dict[str, str]:
        """The environment of a launch: this node's Kedge, whatever the caller's own KEDGE_ variables say."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KEDGE_")}
        environment.update(
            KEDGE_NODE=self.folder.name,
            KEDGE_NODE_RUN_FOLDER=str(self.run_folder),
            KEDGE_PLACEMENT_CALIBRATIONS=str(self.memory_folder / "calibrations"),
            KEDGE_POOL_SIZE=str(self._pool_bytes),
            KEDGE_STORE_PATH=str(self.store),
            KEDGE_JOB_NAME=job,
            TMPDIR=str(self.folder),
        )
        return environment

    def mpi_environment(self, job: str) -> dict[str, str]:
        """The same for a launch under mpirun: root is common in containers, and the ranks may outnumber the cores.

        What Open MPI's ranks share lies in this node's folders: on /dev/shm it would stay for ever once they are killed.
        """
        return self.environment(job) | {
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
            "OMPI_MCA_btl_vader_backing_directory": str(self.memory_folder),
            "OMPI_MCA_orte_tmpdir_base": str(self.folder), "OMPI_MCA_orte_abort_print_stack": "0",
        }

    def agent(self) -> int | None:
        """The process id of an agent of this node, or None when none runs; one that is just starting counts too."""
        locks = []
        for lock in self.run_folder.glob("agent*.lock"):
            with contextlib.suppress(OSError):
                locks.append(lock.stat())
        for entry in os.scandir("/proc"):
            if entry.name.isdigit() and _is_agent(int(entry.name)):
                process = int(entry.name)
                if self._is_told_of(process) or any(_has_open(process, lock) for lock in locks):
                    return process
        return None

    def _is_told_of(self, process: int) -> bool:
        """Whether a process was started with this node's run folder in its arguments or environment."""
        folder = str(self.run_folder).encode()
        for name in ("cmdline", "environ"):
            with contextlib.suppress(OSError):
                if folder in Path(f"/proc/{process}/{name}").read_bytes():
                    return True
        return False

    def kill_agent(self, handle: int | None = None) -> bool:
        """SIGKILL to the agent; False when none runs. With a handle of it at hand it dies some milliseconds sooner."""
        if handle is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                return True
        agent = self.agent()
        if agent is None:
            return False
        os.kill(agent, signal.SIGKILL)
        return True

    def lose_memory(self) -> None:
        """What a reboot does: agent and pool are gone, the store stays."""
        self.kill_agent()
        shutil.rmtree(self.run_folder, ignore_errors=True)


def _stop(process: int, patience_seconds: float) -> None:
    """SIGTERM, and SIGKILL to what does not end by it; waits for the end."""
    with contextlib.suppress(ProcessLookupError), process_handle(process) as handle:
        for number in (signal.SIGTERM, signal.SIGKILL):
            signal.pidfd_send_signal(handle, number)
            if wait_for_end(handle, patience_seconds):
                return


def _is_agent(process: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/comm").read_text().strip() == "kedge-agent"
    return False


def _has_open(process: int, wanted: os.stat_result) -> bool:
    try:
        descriptors = os.listdir(f"/proc/{process}/fd")
    except OSError:
        return False
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            found = os.stat(f"/proc/{process}/fd/{descriptor}")
            if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
                return True
    return False


@contextlib.contextmanager
def process_handle(process: int) -> Iterator[int]:
    """A descriptor of the process that no later process with the same number can be mistaken for."""
    handle = os.pidfd_open(process)
    try:
        yield handle
    finally:
        os.close(handle)


def wait_for_end(handle: int, seconds: float) -> bool:
    """Waits until the process behind a handle has ended, at most so long."""
    return bool(select.select([handle], [], [], max(seconds, 0))[0])


def wait_until(condition: Callable[[], bool], seconds: float, pause: float = 0.005) -> bool:
    """Waits until condition() holds, at most so long; tells whether it did."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= end:
            return False
        time.sleep(pause)
    return True
