"""The program aggregation-bench: the command of docs/aggregation.md, the plan's cost, and what it refuses."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCH = Path(os.environ["BUILD_FOLDER"]) / "bin" / "aggregation-bench"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BENCH, *words], capture_output=True, text=True, timeout=300)


def test_the_command_of_the_page_compares_leaders_with_posix() -> None:
    command = re.search(r"^build/bin/aggregation-bench (.+)$", (ROOT / "docs" / "aggregation.md").read_text(), re.MULTILINE)
    assert command is not None
    done = run(*command[1].split())
    assert done.returncode == 0, done.stderr
    seconds = {(row["strategy"], row["nodes"]): row["flush_seconds"] for row in json.loads(done.stdout)}
    assert set(seconds) == {(strategy, nodes) for strategy in ("posix", "leaders") for nodes in (64, 1024)}
    for nodes in (64, 1024):
        assert seconds["posix", nodes] > 1.5 * seconds["leaders", nodes]


def test_the_cost_of_a_plan_is_told() -> None:
    done = run("--cost", "--nodes", "100", "--json")
    [row] = json.loads(done.stdout)
    assert row["steps"] == 12
    assert 0 < row["message_bytes_max"] <= row["message_bytes_bound"]
    assert row["agent_seconds"] > 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--strategy", "quick"), "file, posix, mpi-io, generic-io, leaders"),
        (("--nodes", "0"), "--nodes"),
        (("--nodes", "4", "--leaders", "5"), "5 leaders are asked for, of 4 nodes"),
        (("--nodes", "8", "--leaders", "4", "--objects", "3"), "neither divides the other"),
    ],
)
def test_what_cannot_be_is_refused(words: tuple[str, ...], says: str) -> None:
    done = run(*words)
    assert done.returncode == 2
    assert says in done.stderr + done.stdout
