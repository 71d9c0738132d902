"""What the scenarios of the schedule share: the kedge command, a job's status, waiting."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import waiting

KEDGE = Path(os.environ["BUILD_FOLDER"]) / "bin" / "kedge"


def _run(arguments: tuple[str, ...], expect: int) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([KEDGE, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == expect, f"kedge {' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def kedge(*arguments: str, expect: int = 0) -> str:
    """What the command prints, warnings too; the exit code must be `expect`."""
    done = _run(arguments, expect)
    return done.stdout + done.stderr


def kedge_json(*arguments: str) -> Any:
    """What the command prints with ``--json``, besides warnings."""
    return json.loads(_run((*arguments, "--json"), 0).stdout)


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
