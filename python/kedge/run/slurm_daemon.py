"""Whether SLURM's daemon is gone from a node. The controller learns of that late, and srun waits for as long."""

from __future__ import annotations

import re
import socket
import subprocess
import time

_CONTROLLER_SECONDS = 10.0
_CONNECT_SECONDS = 1.0
_AGAIN_SECONDS = 1.0  # a daemon that is being started anew refuses only for a moment
_PORT = 6818  # of Debian and of upstream, where scontrol shows none


def why_no_step_starts(node: str) -> str:
    """Why no step can be started on the node: nobody listens where its daemon did, twice within a second.

    Empty: the daemon is there, or it cannot be told. A host that is silent says nothing: its link may come back.
    """
    place = _where_it_listens(node)
    if place is None or not _refuses(place):
        return ""
    time.sleep(_AGAIN_SECONDS)
    return "its slurmd does not run" if _refuses(place) else ""


def _where_it_listens(node: str) -> tuple[str, int] | None:
    try:
        done = subprocess.run(["scontrol", "-o", "show", "node", node], capture_output=True, text=True, timeout=_CONTROLLER_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    address = re.search(r"\bNodeAddr=(\S+)", done.stdout)
    port = re.search(r"\bPort=(\d+)", done.stdout)
    return (address[1], int(port[1]) if port else _PORT) if address else None


def _refuses(place: tuple[str, int]) -> bool:
    try:
        with socket.create_connection(place, _CONNECT_SECONDS):
            return False
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
