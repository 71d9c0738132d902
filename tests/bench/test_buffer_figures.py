"""bench/buffer-figures: from a small run of bench/buffers to table, figure, and systems that `kedge plan` takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "bench" / "buffer-figures"
FILES = {"throughput.json", "throughput.md", "throughput.png", "flat.toml", "burst.toml"}
MEBIBYTE = 1 << 20


def run(output: Path, *words: str) -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--output", output, *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def first_tier(system: Path) -> Any:
    return tomllib.loads(system.read_text())["storage"]["tier"][0]


@pytest.mark.slow
def test_a_small_run_makes_all(tmp_path: Path) -> None:
    run(tmp_path, "--clients", "1,2", "--mib", "8", "--pairs", "1")
    assert {path.name for path in tmp_path.iterdir()} == FILES
    pairs = json.loads((tmp_path / "throughput.json").read_text())["pairs"]
    assert set(pairs) == {"1", "2"}
    assert all(pair[way][side] > 0 for of in pairs.values() for pair in of for way in ("disk", "buffer") for side in ("write", "read"))


def test_rates_come_into_the_table_and_the_systems(tmp_path: Path) -> None:
    def pair(disk: float, buffer: float) -> dict[str, dict[str, float]]:
        return {"disk": {"write": disk, "read": disk / 2}, "buffer": {"write": buffer, "read": buffer / 4}}

    # A machine that gets slower: ratios are those of a pair.
    pairs = {"1": [pair(1.0, 2.0), pair(2.0, 4.0), pair(4.0, 8.0)], "8": [pair(0.5, 0.5)] * 3}
    (tmp_path / "throughput.json").write_text(json.dumps({"paper": "p", "conditions": "c", "mib": 100, "pairs": pairs}))
    run(tmp_path, "--draw")
    assert {path.name for path in tmp_path.iterdir()} == FILES
    rate = 100 * MEBIBYTE / 1e6
    rows = [line for line in (tmp_path / "throughput.md").read_text().splitlines() if line.startswith(("| 1 ", "| 8 "))]
    assert rows[0] == f"| 1 | written, durable | {rate / 4:.0f} | {rate / 2:.0f} | 0.50 |"
    assert rows[1] == f"| 1 | read, cold | {rate:.0f} | {rate:.0f} | 1.00 |"
    assert rows[2] == f"| 8 | written, durable | {rate * 2:.0f} | {rate * 2:.0f} | 1.00 |"
    assert first_tier(tmp_path / "flat.toml")["write_bytes_per_second"] == pytest.approx(rate / 2 * 1e6, rel=1e-3)
    assert first_tier(tmp_path / "burst.toml")["write_bytes_per_second"] == pytest.approx(32 * rate * 2 * 1e6, rel=1e-3)
    assert first_tier(tmp_path / "burst.toml")["read_bytes_per_second"] == pytest.approx(32 * rate * 8 * 1e6, rel=1e-3)
    for name in ("flat", "burst"):
        plan = [sys.executable, "-m", "kedge.plan", "advise", str(tmp_path / f"{name}.toml")]
        planned = subprocess.run(plan, env=os.environ | {"PYTHONPATH": str(ROOT / "python")}, capture_output=True, text=True, timeout=120)
        assert planned.returncode == 0 and "at the rates of one machine" in planned.stdout, planned.stdout + planned.stderr
