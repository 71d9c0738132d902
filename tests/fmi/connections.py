"""TCP connections of processes that a test has begun, which it ends under their hands."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
PIDFD_GETFD = 438


def end_connections(pid: int) -> int:
    """Ends those of a process; how many. None where it has gone."""
    found = 0
    try:
        process = os.pidfd_open(pid)
        entries = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return 0
    for entry in entries:
        with contextlib.suppress(OSError):
            if os.readlink(entry).startswith("socket:"):
                descriptor = LIBC.syscall(PIDFD_GETFD, process, int(entry.name), 0)
                if descriptor < 0:
                    continue
                with socket.socket(fileno=descriptor) as connection:
                    if connection.family == socket.AF_INET and not connection.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                        connection.shutdown(socket.SHUT_RDWR)
                        found += 1
    os.close(process)
    return found
