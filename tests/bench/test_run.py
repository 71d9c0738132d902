"""`bench/run` end to end: its runs follow each other, though each has a store of its own, and nothing is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.needs("MPI", "PYTHON")


def test_one_run_after_the_other_measures(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KEDGE_")}
    command = [sys.executable, ROOT / "bench" / "run", "--only", "large", "--ranks", "1,2", "--sizes", "8", "--repetitions", "1"]
    done = subprocess.run([*command, "--folder", tmp_path], env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert sum(line.startswith(("| 1 |", "| 2 |")) for line in done.stdout.splitlines()) == 3 * 2, done.stdout
    assert "warning" not in done.stderr
    assert not list(tmp_path.iterdir())
