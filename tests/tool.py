"""The kedge command, as the tests run it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

KEDGE = Path(os.environ["BUILD_FOLDER"]) / "bin" / "kedge"


def kedge(*arguments: str, expect: int = 0) -> subprocess.CompletedProcess[str]:
    """Runs the command; the exit code must be `expect`."""
    done = subprocess.run([KEDGE, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == expect, f"kedge {' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def kedge_text(*arguments: str, expect: int = 0) -> str:
    """What the command prints, warnings too."""
    done = kedge(*arguments, expect=expect)
    return done.stdout + done.stderr


def kedge_json(*arguments: str, expect: int = 0) -> Any:
    """What the command prints with ``--json``, besides warnings."""
    return json.loads(kedge(*arguments, "--json", expect=expect).stdout)
