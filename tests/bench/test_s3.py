"""bench/s3 in small: a real server, kedge-bench with its store in a bucket, and those clients that the machine has."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ["BUILD_FOLDER"])
pytestmark = [pytest.mark.needs("MPI"), pytest.mark.slow]


@pytest.mark.skipif(shutil.which("curl") is None, reason="this machine has no curl")
def test_a_small_run_compares_what_is_there() -> None:
    before = set(BUILD.glob("kedge-s3-*"))
    words = [sys.executable, ROOT / "bench" / "s3", "--ranks", "2", "--mib", "32", "--pairs", "1"]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert set(BUILD.glob("kedge-s3-*")) <= before, "nothing is left on the disk"
    if "skipped:" in done.stdout:
        pytest.skip(done.stdout.strip())
    (pair,) = json.loads((BUILD / "bench" / "s3.json").read_text())["2"]
    assert all(pair["kedge"][what] > 0 for what in ("put", "get", "blocked"))
    assert pair["one PUT"]["put"] > 0
    assert 0 < pair["kedge"]["agent_bytes"] < 141 * 1024 * 1024, "16 parts of 8 MiB and a tenth"
    assert "| Kedge to the bucket |" in done.stdout and "The agent's own memory: " in done.stdout
