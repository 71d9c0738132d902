"""bench/capture-figures: from small runs of the storm to tables and figures, and what the model of orders says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ["BUILD_FOLDER"])
SCRIPT = ROOT / "bench" / "capture-figures"


def rows(table: Path) -> dict[str, list[str]]:
    """The cells of all rows, by the first one."""
    lines = [line for line in table.read_text().splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {first: rest for first, *rest in cells}


@pytest.mark.needs("MPI")
def test_small_runs_make_all_figures(tmp_path: Path) -> None:
    words = ["--side", "32", "--planes", "20", "--steps", "8", "--turns", "1", "--ranks", "1,2", "--pool-mib", "64"]
    done = subprocess.run([sys.executable, SCRIPT, *words, "--output", tmp_path], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{name}.{suffix}" for name in ("overhead", "waits", "sharing") for suffix in ("json", "md", "png")
    }
    runs = json.loads((tmp_path / "overhead.json").read_text())["runs"]
    assert set(runs) == {"1", "2"}
    for of_ranks in runs.values():
        (without,), (plain,) = of_ranks["no checkpoints"], of_ranks["copy"]
        assert without["stored_bytes"] == without["blocked_seconds"] == 0
        assert 0 < plain["blocked_seconds"] < plain["seconds"]
    image = 7 * 22 * 32**2 * 8  # the storm's arrays are this size, but for its table, which is a little larger
    ways = {way: run[0]["stored_bytes"] for way, run in json.loads((tmp_path / "sharing.json").read_text())["runs"].items()}
    assert ways["full"] > 3 * 2 * image
    assert ways["rank"] < ways["full"] / 2 and ways["node"] < ways["rank"], "planes are equal on a rank, and among ranks"
    assert ways["node, incremental"] < ways["incremental"] < ways["full"]
    assert ways["node, incremental"] < 1.05 * ways["node"], "it adds little, and costs a few bytes"
    drawn = (tmp_path / "sharing.md").read_text()
    subprocess.run([sys.executable, SCRIPT, "--draw", "--output", tmp_path], check=True, capture_output=True, timeout=100)
    assert (tmp_path / "sharing.md").read_text() == drawn


def run_of(seconds: float, **more: float) -> dict[str, float]:
    return {"seconds": seconds, "blocked_seconds": 0.1, "drain_seconds": 0.2, "agent_cpu_seconds": 0.3, "writes_held": 0,
            "stored_bytes": 8_000_000, "most_loaded_bytes": 2_000_000} | more


def test_the_tables_compare_runs_of_the_same_turn(tmp_path: Path) -> None:
    # A machine that gets slower from turn to turn: the increases stay.
    slow = (0.0, 5.0, 20.0)
    captures = {"no checkpoints": 1.0, "synchronous": 1.9, "copy": 1.3, "cow, by address": 1.2, "cow, by writes": 1.1}
    shares = {"no checkpoints": 1.0, "full": 1.5, "incremental": 1.4, "rank": 1.3, "node": 1.2, "node, incremental": 1.1}
    runs = {way: [run_of(seconds + more) for more in slow] for way, seconds in captures.items()}
    shared = {way: [run_of(seconds + more) for more in slow] for way, seconds in shares.items()}
    shared["node"] = [run | {"stored_bytes": 2_000_000, "most_loaded_bytes": 500_000} for run in shared["node"]]
    model = [{"order": order, "buffer_percent": 4, "written": 9, "red": 3, "yellow": 2, "waited": 5} for order in ("addresses", "colours", "writes")]
    measured = {"1": {"cow, by address": 7, "cow, by writes": 1}}
    for name, more in (("overhead", {"runs": {"1": runs}}), ("sharing", {"runs": shared}), ("waits", {"measured": measured, "modelled": model})):
        (tmp_path / f"{name}.json").write_text(json.dumps({"paper": "p", "conditions": "c"} | more))
    subprocess.run([sys.executable, SCRIPT, "--draw", "--output", tmp_path], check=True, capture_output=True, timeout=100)
    assert rows(tmp_path / "overhead.md")["1"] == ["6.00", "900 (100)", "300 (100)", "200 (100)", "100 (100)"]
    assert rows(tmp_path / "waits.md")["4"] == ["3 (5)"] * 3
    assert rows(tmp_path / "sharing.md")["node"] == ["2.0", "0.250", "0.50", "0.25", "200", "0.20", "0.30"]


def orders(*words: str) -> dict[tuple[str, float], dict[str, float]]:
    done = subprocess.run([BUILD / "bin" / "cow-orders", *words], check=True, capture_output=True, text=True, timeout=60)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {(line["order"], line["buffer_percent"]): line for line in lines}


def test_on_paper_the_pattern_saves_waits_where_the_buffer_is_small() -> None:
    at = orders()
    for order in ("addresses", "colours", "writes"):
        red = [at[order, buffer]["red"] for buffer in (0, 0.5, 1, 2, 4, 8, 16, 25)]
        assert red == sorted(red, reverse=True), "a larger buffer has fewer writers wait"
        assert at[order, 25]["red"] == 0, "where all that is written has room, the pattern makes no difference"
    for order in ("colours", "writes"):
        for buffer in (0, 0.5, 1, 2, 4):
            assert at[order, buffer]["red"] < at["addresses", buffer]["red"] / 2
            assert at[order, buffer]["waited"] < at["addresses", buffer]["waited"] / 2


def test_on_paper_who_writes_at_once_waits_in_any_order() -> None:
    at = orders("--reading", "0", "--step", "0.01")
    written = at["writes", 0]["written"]
    assert at["addresses", 0]["red"] == written
    assert all(one["red"] + one["yellow"] <= written for one in at.values())
    assert at["writes", 0]["red"] > written / 2, "the flush of one page takes longer than the writes to all"


def test_the_first_checkpoint_knows_no_pattern() -> None:
    at = orders("--checkpoints", "1")
    for buffer in (0, 4):
        assert at["addresses", buffer] | {"order": ""} == at["writes", buffer] | {"order": ""} == at["colours", buffer] | {"order": ""}


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    assert subprocess.run([BUILD / "bin" / "cow-orders", "--reading", "2"], capture_output=True).returncode == 2
    done = subprocess.run([sys.executable, SCRIPT, "--steps", "3", "--output", tmp_path / "none"], capture_output=True, text=True)
    assert done.returncode == 2 and "--steps" in done.stderr
    assert not (tmp_path / "none").exists()
