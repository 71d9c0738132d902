"""The kedge command, as the tests call it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

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
