"""How much time is left: the allocation's end, as SLURM or the user says it, and signals that announce it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable
from types import FrameType

_ASK_AGAIN_SECONDS = 60.0


class Allocation:
    """The end of the time that this job has. A signal (TERM, USR1, INT) says that it is near, a second one that it is here."""

    def __init__(self, until_seconds: float | None, slurm_job: str | None) -> None:
        """`until_seconds`: from now, when the user says so; else SLURM is asked, now and then, because limits change."""
        self.signals = 0
        self._end = None if until_seconds is None else time.monotonic() + until_seconds
        self._slurm_job = slurm_job if until_seconds is None else None
        self._asked = float("-inf")

    def watch_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.signals += 1

    def seconds_left(self) -> float | None:
        """None: there is no end."""
        now = time.monotonic()
        if self._slurm_job is not None and now - self._asked >= _ASK_AGAIN_SECONDS:
            self._asked = now
            left = slurm_seconds_left(self._slurm_job)
            if left is not None:
                self._end = now + left
        return None if self._end is None else self._end - now

    def is_ending(self, reserve_seconds: float) -> bool:
        left = self.seconds_left()
        return self.signals > 0 or (left is not None and left <= reserve_seconds)


def slurm_job() -> str | None:
    """The number of the SLURM job that this is part of."""
    return os.environ.get("SLURM_JOB_ID")


def slurm_nodes() -> list[str]:
    """The allocation's nodes, in order."""
    done = subprocess.run(["scontrol", "show", "hostnames", os.environ["SLURM_JOB_NODELIST"]], capture_output=True, text=True,
                          timeout=60, check=True)
    return done.stdout.split()


def give_back(nodes: Iterable[str]) -> str:
    """These nodes of the allocation go back to SLURM now, though the job goes on; why they do not.

    The node where the job script runs stays with the job to its end.
    """
    freed = set(nodes) - {os.environ.get("SLURMD_NODENAME", "")}
    allocated = slurm_nodes()
    kept = [node for node in allocated if node not in freed]
    if len(kept) == len(allocated):
        return ""
    command = ["scontrol", "update", f"JobId={slurm_job()}", f"NodeList={','.join(kept)}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return (done.stderr.strip() or f"scontrol ended with {done.returncode}") if done.returncode else ""


def slurm_seconds_left(job: str) -> float | None:
    """Until the allocation ends; None: there is no end, or nobody says."""
    try:
        done = subprocess.run(["squeue", "-h", "-j", job, "-o", "%L"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_slurm_time(done.stdout.strip())


def parse_slurm_time(text: str) -> float | None:
    """squeue's [days-][[hours:]minutes:]seconds; None for what is no time (UNLIMITED, NOT_SET)."""
    days, _, rest = text.rpartition("-")
    try:
        parts = [int(part) for part in rest.split(":")]
        seconds = float(int(days) * 86400) if days else 0.0
    except ValueError:
        return None
    for part, unit in zip(reversed(parts), (1, 60, 3600), strict=False):
        seconds += part * unit
    return seconds
