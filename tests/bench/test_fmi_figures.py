"""bench/fmi-figures: from small runs of bench/fmi to tables, figures, and a system that `kedge plan` takes."""

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
SCRIPT = ROOT / "bench" / "fmi-figures"
NAMES = ("messages", "groups", "checkpoints", "told", "starts", "kills")


def run(output: Path, *words: str) -> None:
    variables = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run([sys.executable, SCRIPT, "--output", output, *words], env=variables, capture_output=True, text=True, timeout=590)
    assert done.returncode == 0, done.stdout + done.stderr


def files(*names: str) -> set[str]:
    return {f"{name}.{kind}" for name in names for kind in ("json", "md", "png")}


@pytest.mark.slow
@pytest.mark.needs("MPICH")
def test_small_runs_make_tables_and_figures(tmp_path: Path) -> None:
    run(tmp_path, "--rounds", "1", "--mib", "4", "--warmups", "2", "messages", "told", "starts", "checkpoints")
    assert {path.name for path in tmp_path.iterdir()} == files("messages", "told", "starts", "checkpoints") | {"coastal.toml"}
    told = json.loads((tmp_path / "told.json").read_text())["told"]
    assert [record["ranks"] for record in told] == [4, 8, 16, 32, 64, 128, 256, 512, 1024]
    assert all(0 < record["half"] <= record["last"] < 10 for record in told)


def checkpoint(nodes: int, scheme: str = "xor", group: int = 0) -> dict[str, Any]:
    return {"nodes": nodes, "scheme": scheme, "group": group, "mib": 1024, "copied": 0.3, "blocked": 0.5, "safe": 2.0, "back": 1.0}


def kills(way: str, killed: str, seconds: float, over: float) -> dict[str, Any]:
    return {"way": way, "killed": killed, "deaths": 2, "seconds": seconds, "over": over, "processors": 1.0, "same": True}


def test_numbers_come_into_the_tables_and_the_system(tmp_path: Path) -> None:
    pair = [{"bytes": 1 << 23, "seconds": {"FMI": 0.001, "mpich": 0.002}, "ratio": 0.5}]
    documents: dict[str, dict[str, Any]] = {
        "messages": {"messages": pair, "nodes": pair, "sealed": pair},
        "groups": {"groups": [checkpoint(8, group=2), checkpoint(8, group=8)]},
        "checkpoints": {"checkpoints": [checkpoint(2, "partner"), checkpoint(2), checkpoint(4)]},
        "told": {"told": [{"ranks": 4, "last": 0.002, "half": 0.001}]},
        "starts": {"starts": [{"ranks": 2, "over": over, "init": 0.01, "job": 0.1} for over in ("mpich", "fmi")]},
        "kills": {"kills": [kills("mpirun", "nothing", 100, 0), kills("fmirun", "nothing", 110, 0), kills("fmirun", "a rank every 15 s", 121, 0.1)]},
    }
    for name, document in documents.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({"paper": "p"} | document))
    run(tmp_path, "--draw")
    assert {path.name for path in tmp_path.iterdir()} == files(*NAMES) | {"coastal.toml"}
    rows = {name: (tmp_path / f"{name}.md").read_text().splitlines()[6:] for name in NAMES}
    assert rows["messages"][0] == "| one node | 8,388,608 B | FMI: 1000.00 us 8.39 GB/s | mpich: 2000.00 us 4.19 GB/s | 0.50 |"
    assert rows["groups"][1] == "| 8 | xor | 0.500 | 2.000 | 1.000 | 0.300 | 1.80 | 0.45 |"
    assert rows["checkpoints"][0] == "| 2 | partner | 2.00 | 0.50 | 1.00 | 3.33 | 1.80 | 0.45 |"
    assert rows["told"] == ["| 4 | 1.0 | 2.0 |"]
    assert rows["starts"] == ["| 2 | 10.0 | 10.0 | 0.100 | 0.100 |"]
    assert rows["kills"][2] == "| FMI | a rank every 15 s | 2 | 121.0 | 1.210 | 1.100 | the same |"
    xor, store = tomllib.loads((tmp_path / "coastal.toml").read_text())["level"]
    gigabytes = 6e9 / 2**30
    assert (xor["overhead_seconds"], xor["latency_seconds"], xor["restart_seconds"]) == pytest.approx((gigabytes / 2, gigabytes * 2, gigabytes), abs=0.01)
    assert store["name"] == "store" and store["overhead_seconds"] == xor["overhead_seconds"]
    plan = [sys.executable, "-m", "kedge.plan", "advise", str(tmp_path / "coastal.toml")]
    planned = subprocess.run(plan, env=os.environ | {"PYTHONPATH": str(ROOT / "python")}, capture_output=True, text=True, timeout=120)
    assert planned.returncode == 0 and "at the costs of one machine" in planned.stdout, planned.stdout + planned.stderr
