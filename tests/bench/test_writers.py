"""`bench/writers` end to end on small images: every part measures something, and nothing is left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ["BUILD_FOLDER"])
pytestmark = pytest.mark.needs("MPI", "PYTHON")


@pytest.mark.parametrize(("part", "cases"), [("layouts", 8), ("source", 2), ("release", 1)])
def test_each_part_measures(part: str, cases: int, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KEDGE_")}
    command = [sys.executable, ROOT / "bench" / "writers", "--only", part, "--nodes", "2", "--ranks", "2", "--sizes", "4", "--rounds", "1"]
    done = subprocess.run([*command, "--repetitions", "1", "--folder", tmp_path], env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    results = json.loads((BUILD / "bench" / f"writers-{part}.json").read_text())
    assert len(results) == cases
    for result in results:
        assert all(value > 0 for name, value in result.items() if name.endswith("_seconds")), result
    assert not list(tmp_path.iterdir())
