"""Processes that a test has begun, wherever they are by now: known by their environment or their socket, ended by process id."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import struct
from pathlib import Path


def ranks_that_sleep() -> dict[str, str]:
    """Variables by which ranks of Open MPI sleep while they wait (support/waiting_ranks.c); none in a build with a sanitizer."""
    library = Path(os.environ["BUILD_FOLDER"]) / "test" / "waiting_ranks.so"
    return {"LD_PRELOAD": str(library), "OMPI_MCA_mpi_yield_when_idle": "1"} if library.exists() else {}


def processes_with(marks: list[bytes]) -> list[int]:
    """Processes in whose environment all of these stand; never this one."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            variables = Path(f"/proc/{entry}/environ").read_bytes().split(b"\0")
            if all(mark in variables for mark in marks):
                found.append(int(entry))
    return found


def agent_pid(run_folder: Path) -> int | None:
    """The process that listens on the agent's socket, as the kernel names it; None when nobody does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(10)
        try:
            connection.connect(str(run_folder / "agent.sock"))
        except OSError:
            return None
        pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return int(pid)


def kill(process: int) -> None:
    """SIGKILL, and waits for the end."""
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(process)
        try:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            select.select([handle], [], [], 10)
        finally:
            os.close(handle)


def kill_all(marks: list[bytes]) -> None:
    """All of processes_with(), until none is found twice: what forks twice while the others are read is missed once."""
    empty = 0
    for _ in range(20):
        left = processes_with(marks)
        for process in left:
            kill(process)
        empty = 0 if left else empty + 1
        if empty == 2:
            return
