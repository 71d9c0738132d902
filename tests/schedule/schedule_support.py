"""What the scenarios of the schedule share: a job's status, waiting."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import waiting
from tool import KEDGE, kedge_json


def kedge_runs(*arguments: str) -> bool:
    """Whether the command succeeds."""
    return subprocess.run([KEDGE, *arguments], capture_output=True, timeout=120).returncode == 0


def job_status(name: str = "paced", run_folder: Path | None = None) -> Any:
    """The job's object in ``kedge status --json``, of the environment's node or the one with that run folder."""
    other = () if run_folder is None else ("--set", f"node.run_folder={run_folder}")
    jobs = kedge_json("status", *other)["jobs"]
    return next(job for job in jobs if job["job"] == name)


def until(condition: Callable[[], Any], seconds: float = 30.0) -> Any:
    """As waiting.until, for half its time."""
    return waiting.until(condition, seconds)
