"""bench/sharing-figures: from small runs of the storm on two nodes to tables and figures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "sharing-figures"
WORDS = ("--nodes", "2", "--ranks", "4", "--side", "32", "--planes", "8", "--turns", "1", "--pool-mib", "64", "--members", "4")


@pytest.mark.needs("MPI")
def test_small_runs_make_all_figures(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, SCRIPT, *WORDS, "--output", tmp_path], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.{suffix}" for name in ("job", "redundancy", "reduction") for suffix in ("json", "md", "png")}
    runs = json.loads((tmp_path / "job.json").read_text())["runs"]
    stored = {scope: sum(of_scope[0]["of_node"]) for scope, of_scope in runs.items()}
    assert list(stored) == ["off", "rank", "node", "job"]
    assert stored["off"] > stored["rank"] > stored["node"]
    assert sum(runs["node"][0]["of_common"]) == 0
    # On a busy machine nodes may not agree in time.
    assert stored["job"] <= 1.1 * stored["node"]
    protected = json.loads((tmp_path / "redundancy.json").read_text())["runs"]
    assert list(protected) == ["xor", "partner"]
    for runs in protected.values():
        off, of_job = runs["off"][0], runs["job"][0]
        assert off["natural_bytes"] == 0 < of_job["natural_bytes"] < of_job["captured_bytes"]
        assert 0 < of_job["redundancy_bytes"] < off["redundancy_bytes"]
    agreed = json.loads((tmp_path / "reduction.json").read_text())["members"]
    assert [row["members"] for row in agreed] == [2, 4] and all(row["seconds"] > 0 for row in agreed)
    (tmp_path / "job.md").unlink()
    drawn = subprocess.run([sys.executable, SCRIPT, "--draw", "--output", tmp_path], capture_output=True, text=True, timeout=60)
    assert drawn.returncode == 0 and (tmp_path / "job.md").exists(), drawn.stderr
