"""bench/applications: the probe takes Kedge's place as it says, the single file holds every byte, and the table is that of the runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ["BUILD_FOLDER"])
PROBE = BUILD / "lib" / "libkedge-application-probe.so"
CELLS, STEPS, INTERVAL = 16, 6, 2
BLOCK = 4096
pytestmark = pytest.mark.needs("MPI")


def heat3d(folder: Path, writer: str, ranks: int, checkpoints: int = 64) -> tuple[str, list[dict]]:
    """What heat3d printed, and what the probe noted of each rank."""
    folder.mkdir()
    probe = {"LD_PRELOAD": PROBE, "PROBE_WRITER": writer, "PROBE_FILE": folder / "single", "PROBE_FOLDER": folder,
             "PROBE_CHECKPOINTS": checkpoints}
    words = [shutil.which("mpirun.openmpi") or "mpirun", "--oversubscribe", "-n", str(ranks)]
    for name, value in probe.items():
        words += ["-x", f"{name}={value}"]
    words += [str(BUILD / "examples" / "heat3d"), str(CELLS), str(STEPS), str(INTERVAL)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout, [json.loads((folder / f"{rank}.json").read_text()) for rank in range(ranks)]


@pytest.mark.usefixtures("run_folder")
def test_every_writer_leaves_the_result_as_it_is(tmp_path: Path) -> None:
    printed = {}
    for writer, taken in (("none", 0), ("single-file", 2), ("kedge", 2)):
        printed[writer], ranks = heat3d(tmp_path / writer, writer, 2, checkpoints=2)
        for rank in ranks:
            assert len(rank["blocked_seconds"]) == taken, writer
            spent = rank["init_seconds"] + rank["finalize_seconds"] + sum(rank["blocked_seconds"])
            assert 0 <= spent < rank["run_seconds"]
            assert 0 < rank["main_thread_cpu_seconds"] <= rank["cpu_seconds"] + 1e-3
        assert (tmp_path / "store").exists() == (writer == "kedge"), "Kedge is used by its own variant only"
    assert "checksum" in printed["kedge"]
    assert printed["none"] == printed["single-file"] == printed["kedge"]


@pytest.mark.usefixtures("run_folder")
def test_the_single_file_holds_the_newest_regions_of_all_ranks(tmp_path: Path) -> None:
    heat3d(tmp_path / "run", "single-file", 2, checkpoints=2)
    content = (tmp_path / "run" / "single").read_bytes()
    assert not (tmp_path / "run" / "single.tmp").exists()
    cells = (CELLS // 2 + 2) * (CELLS + 2) * (CELLS + 2)  # of a rank, with its halo
    rank_bytes = (4 + 8 * cells + BLOCK - 1) // BLOCK * BLOCK
    assert len(content) == 2 * rank_bytes
    fields = []
    for rank in range(2):
        part = content[rank * rank_bytes :]
        assert int.from_bytes(part[:4], sys.byteorder) == 2 * INTERVAL, "the step of the second checkpoint"
        fields.append(np.frombuffer(part[4 : 4 + 8 * cells]).reshape(CELLS // 2 + 2, CELLS + 2, CELLS + 2))
    assert (fields[0][0, 1:-1, 1:-1] == 1).all(), "the hot face"
    inner = np.concatenate([field[1:-1, 1:-1, 1:-1] for field in fields])
    assert inner.shape == (CELLS, CELLS, CELLS)
    assert (inner > 0).all()
    assert np.allclose(inner, inner.transpose(0, 2, 1)), "heat flows alike in x and y"
    assert inner[0].mean() > inner[-1].mean(), "from the hot face"


def run_of(seconds: float, blocked: float, finalize: float) -> dict:
    return {"run_seconds": seconds, "init_seconds": 0.1, "finalize_seconds": finalize, "blocked_seconds": [blocked / 2, blocked / 2],
            "agent_cpu_seconds": 0.05, "other_threads_cpu_seconds": 0.02, "ranks_cpu_seconds": 1.0, "placement": None}


def test_the_table_compares_runs_of_the_same_turn(tmp_path: Path) -> None:
    variants = ("single file", "ssd-only", "naive", "adaptive", "cache-only")
    # A machine that gets slower from turn to turn: the increases stay.
    slow = (0.0, 5.0, 20.0)
    runs = {"no checkpoints": [run_of(10 + more, 0, 0) for more in slow]}
    for index, variant in enumerate(variants):
        runs[variant] = [run_of(18 - 2 * index + more, 3 - index / 2, 0.5) for more in slow]
    document = {"title": "t", "paper": "p", "applications": {"heat3d": {"conditions": "c", "runs": runs}}}
    (tmp_path / "figure-8.json").write_text(json.dumps(document))
    subprocess.run([sys.executable, ROOT / "bench" / "applications", "--draw", "--output", tmp_path], check=True, capture_output=True)
    rows = [line for line in (tmp_path / "figure-8.md").read_text().splitlines() if line.startswith(("| heat3d,", "| heat3d |"))]
    assert [cell.split()[0] for cell in rows[0].split("|")[3:-1]] == ["8.00", "6.00", "4.00", "2.00", "0.00", "4.0x"]
    adaptive = next(row for row in rows if "| adaptive |" in row)
    assert [cell.strip() for cell in adaptive.split("|")[3:7]] == ["0.10", "1.50", "0.50", "-0.10"]
    assert (tmp_path / "figure-8.png").stat().st_size > 1000


def test_an_unknown_application_is_refused(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, ROOT / "bench" / "applications", "--applications", "hacc", "--output", tmp_path],
                          capture_output=True, text=True)
    assert done.returncode == 2
    assert "hacc" in done.stderr
    assert list(tmp_path.iterdir()) == []
