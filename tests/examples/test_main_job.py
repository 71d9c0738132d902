"""The main job in small: each application is killed with SIGKILL again and again, and must end with the same result.

examples/run decides from its seed where the kills fall; the tests read its JSON. `make test-long` runs more seeds.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import ranks_that_sleep

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("BUILD_FOLDER", ROOT / "build"))
RUN = [sys.executable, str(ROOT / "examples" / "run"), "--build", str(BUILD)]
SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 9))]
CASES = [
    pytest.param("heat3d", "openmpi", marks=pytest.mark.needs("MPI")),
    pytest.param("heat3d-fortran", "openmpi", marks=pytest.mark.needs("MPI", "FORTRAN")),
    pytest.param("lammps", "openmpi", marks=pytest.mark.needs("MPI", "LAMMPS")),
    pytest.param("heat3d", "mpich", marks=pytest.mark.needs("MPICH")),
    pytest.param("heat3d-fortran", "mpich", marks=pytest.mark.needs("MPICH", "FORTRAN")),
]


def processes_of(folder: Path) -> list[str]:
    """Every process whose environment names the folder: launchers, ranks and agents of a run that was given it."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if f"TMPDIR={folder}".encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def assert_nothing_is_left(folder: Path, nodes: list[str]) -> None:
    deadline = time.monotonic() + 10  # the launcher's children need a moment to be gone
    while processes_of(folder) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not processes_of(folder)
    assert list(folder.iterdir()) == []
    assert nodes and not any((Path("/dev/shm") / node).exists() for node in nodes)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("application", "mpi"), CASES)
def test_killed_and_continued_equals_uninterrupted(application: str, mpi: str, seed: int, tmp_path: Path) -> None:
    # MPICH's ranks spin while they wait, so that more of them than cores would take minutes.
    ranks = "2" if mpi == "mpich" else "4"
    done = subprocess.run(
        [*RUN, application, "--quick", "--json", "--mpi", mpi, "--ranks", ranks, "--seed", str(seed)],
        env=os.environ | ranks_that_sleep() | {"TMPDIR": str(tmp_path)}, capture_output=True, text=True, timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)["applications"][0]
    assert result["equal"], result["problems"]
    launches = result["launches"]
    killed = [launch for launch in launches if launch["killed"]]
    assert len(killed) >= 2, done.stderr
    assert any(launch["end"].startswith("in checkpoint") for launch in killed), done.stderr
    assert any(launch["agent_killed"] for launch in killed), done.stderr
    assert launches[-1]["end"] == "finished"
    assert launches[-1]["restored_version"] is not None, "the last launch began at step 0"
    assert sum(launches[-1]["restored_bytes"].values()) > 0
    # Counted by looking: one that retention removes between two looks is not seen, and the flush of one that a newer one follows
    # soon may be left out. The last launch waits for its last one. That none failed, the application's end says.
    assert all(launch["durable_versions"] <= launch["checkpoints"] for launch in launches)
    assert launches[-1]["checkpoints"] == 0 or launches[-1]["durable_versions"] > 0
    assert sum(launch["durable_versions"] for launch in launches) > 0
    assert_nothing_is_left(tmp_path, [json.loads(done.stdout)["node"]])


@pytest.mark.needs("MPI")
def test_an_interrupted_run_leaves_nothing_behind(tmp_path: Path) -> None:
    nodes: list[str] = []
    process = subprocess.Popen(
        [*RUN, "heat3d", "--seed", "1"], env=os.environ | ranks_that_sleep() | {"TMPDIR": str(tmp_path)}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("kedge-run-*/heat3d*/*/0.jsonl")) and time.monotonic() < deadline:
            time.sleep(0.02)
        nodes = [node.name for node in tmp_path.glob("kedge-run-*")]
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, output
    assert_nothing_is_left(tmp_path, nodes)


def test_an_unknown_application_is_refused() -> None:
    done = subprocess.run([*RUN, "heat4d"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "heat4d" in done.stderr and "heat3d-fortran" in done.stderr


@pytest.mark.needs("MPI")
def test_a_missing_build_is_named(tmp_path: Path) -> None:
    done = subprocess.run([*RUN[:2], "--build", str(tmp_path), "heat3d"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "make build" in done.stderr
