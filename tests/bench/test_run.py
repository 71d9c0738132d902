"""`bench/run` end to end: its runs follow each other, though each has a store of its own, and nothing is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ["BUILD_FOLDER"])
pytestmark = pytest.mark.needs("MPI", "PYTHON")


def bench_run(folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KEDGE_")}
    command = [sys.executable, ROOT / "bench" / "run", "--folder", folder, *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)


def test_one_run_after_the_other_measures(tmp_path: Path) -> None:
    done = bench_run(tmp_path, "--only", "large", "--ranks", "1,2", "--sizes", "8", "--repetitions", "1")
    assert done.returncode == 0, done.stderr
    assert sum(line.startswith(("| 1 |", "| 2 |")) for line in done.stdout.splitlines()) == 3 * 2, done.stdout
    assert "warning" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_two_builds_are_measured_in_pairs(tmp_path: Path) -> None:
    words = ("--pairs", "2", "--rows", "3", "--against")
    done = bench_run(tmp_path, *words, BUILD)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line.startswith(("| 1 |", "| 2 |"))]
    assert len(rows) == 1, done.stdout
    assert float(rows[0][3]) > 0 and float(rows[0][4]) > 0 and len(rows[0][6].split()) == 2, done.stdout
    assert not list(tmp_path.iterdir())
    refused = bench_run(tmp_path, *words, tmp_path)
    assert refused.returncode == 1
    assert "build that tree first" in refused.stderr
