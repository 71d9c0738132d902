"""bench/node_death: from a node's death to computing again, of each trial a line of JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "node_death"

pytestmark = [pytest.mark.slow, pytest.mark.needs("MPI")]


def test_each_trial_says_how_long_it_took() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "virtual"], env=os.environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    trials = [json.loads(line) for line in done.stdout.splitlines()]
    assert trials and all(0 < trial["seconds"] < 60 and trial["before"] for trial in trials)
