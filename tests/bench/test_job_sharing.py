"""bench/job_sharing: what is in the store by what nodes share, from small runs of the storm."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "job_sharing"
WORDS = ("--nodes", "2", "--ranks", "4", "--side", "32", "--planes", "8", "--turns", "1", "--pool-mib", "64")


def run(*words: str) -> str:
    done = subprocess.run([sys.executable, SCRIPT, *WORDS, *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.needs("MPI")
def test_nodes_together_store_less() -> None:
    runs: dict[str, list[dict[str, Any]]] = json.loads(run("--json"))
    stored = {scope: sum(of_scope[0]["of_node"]) for scope, of_scope in runs.items()}
    assert stored["off"] > stored["rank"] > stored["node"]
    assert sum(runs["node"][0]["of_common"]) == 0
    # On a busy machine nodes may not agree in time.
    assert stored["job"] <= 1.1 * stored["node"]


@pytest.mark.needs("MPI")
def test_the_table_has_a_line_for_each() -> None:
    lines = run().splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:]] == ["off", "rank", "node", "job"]
