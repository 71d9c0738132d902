"""shallow, the example in the shape of a real application: killed, halted, on another number of ranks, and its files."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("BUILD_FOLDER", ROOT / "build"))
sys.path.insert(0, str(ROOT / "examples" / "support"))

from node import Node  # noqa: E402

SIDE = 40
ENDLESS = 1_000_000_000
PROGRAMS = [
    pytest.param("shallow", "mpirun.openmpi"),
    pytest.param("shallow-cpp", "mpirun.openmpi"),
    pytest.param("shallow-fortran", "mpirun.openmpi", marks=pytest.mark.needs("FORTRAN")),
    pytest.param("shallow-mpich", "mpirun.mpich", marks=pytest.mark.needs("MPICH")),
]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Node(pool_bytes=64 << 20) as node:
        yield node


class Waters:
    """Launches of one job, which publishes its files in a folder of its own."""

    def __init__(self, node: Node, name: str, program: str, launcher: str, interval: str = "100ms") -> None:
        self._program, self._launcher = str(BUILD / "examples" / program), shutil.which(launcher) or "mpirun"
        self.folder = node.folder / name
        self.folder.mkdir()
        self.environment = node.mpi_environment(name) | {"KEDGE_SCHEDULE_INTERVAL": interval, "KEDGE_FILES_PUBLISH": "true"}

    def start(self, ranks: int, steps: int) -> subprocess.Popen[str]:
        command = [self._launcher, "-n", str(ranks), self._program, str(SIDE), str(steps), str(self.folder)]
        return subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, text=True, start_new_session=True)

    def run(self, ranks: int, steps: int) -> str:
        """To its end; what it printed."""
        return self.output(self.start(ranks, steps))

    def output(self, process: subprocess.Popen[str]) -> str:
        try:
            output, _ = process.communicate(timeout=120)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        assert process.returncode == 0, output
        return output

    def kill(self, process: subprocess.Popen[str]) -> None:
        """The launcher sees to it that no rank is left."""
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=60)

    def log(self) -> str:
        return (self.folder / "shallow.log").read_text()

    def published(self, ranks: int) -> list[int]:
        """Steps of which all files are there, of a launch with that many ranks."""
        names = {path.name for path in self.folder.iterdir()}
        steps = {int(name[6:12]) for name in names if re.fullmatch(r"water-\d+\.\d+", name)}
        return sorted(step for step in steps if all(f"water-{step:06}.{rank}" in names for rank in range(ranks)))

    def checksum_of_files(self, step: int, ranks: int) -> str:
        """The program's own, from what it wrote."""
        cells = np.concatenate([np.fromfile(self.folder / f"water-{step:06}.{rank}", np.uint64) for rank in range(ranks)])
        assert cells.size == SIDE * SIDE
        with np.errstate(over="ignore"):
            return f"{int(np.sum(cells * (2 * (np.arange(cells.size, dtype=np.uint64) + np.uint64(SIDE)) + np.uint64(1)))):016X}"


def until(condition: Callable[[], object], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert process.poll() is None and time.monotonic() < deadline, "it has ended, or it takes too long"
        time.sleep(0.05)


def checksum(output: str) -> str:
    found = re.findall("checksum ([0-9A-F]{16})", output)
    assert len(found) == 1, output
    return str(found[0])


@pytest.mark.needs("MPI")
@pytest.mark.parametrize(("program", "launcher"), PROGRAMS)
def test_it_is_killed_goes_on_with_more_ranks_is_halted_and_ends(node: Node, program: str, launcher: str) -> None:
    job = Waters(node, "waters", program, launcher)
    first = job.start(2, ENDLESS)
    until(lambda: job.published(2), first)
    job.kill(first)

    second = job.start(3, ENDLESS)
    until(lambda: job.published(3), second)
    halt = [BUILD / "bin" / "kedge", "halt", "waters", "--now"]
    subprocess.run(halt, env=job.environment, check=True, capture_output=True, timeout=60)
    output = job.output(second)
    (begin,) = map(int, re.findall(r"continuing from step (\d+)", output))
    (end,) = map(int, re.findall(r"halted at step (\d+)", output))
    assert 0 < begin <= end and end >= max(job.published(3))

    last = job.run(2, end + 50)
    (step,) = map(int, re.findall(r"continuing from step (\d+)", last))
    assert step == max(job.published(3)), "the last checkpoint is the one that the halt asked for"

    def undisturbed(steps: int) -> tuple[str, str]:
        other = Waters(node, f"undisturbed-{steps}", program, launcher, "1h")
        return checksum(other.run(1, steps)), other.log()

    assert (checksum(last), job.log()) == undisturbed(end + 50), "to the last bit"
    assert job.checksum_of_files(step, 3) == undisturbed(step)[0], "and so are the files"
    assert len(job.log().splitlines()) == (end + 50) // 10, "what was written behind a checkpoint was cut off"


@pytest.mark.needs("MPI", "FORTRAN")
def test_all_languages_compute_the_same(node: Node) -> None:
    launches = [("shallow", 1), ("shallow-cpp", 2), ("shallow-fortran", 1), ("shallow-fortran", 3)]
    jobs = [(Waters(node, f"{program}-{ranks}", program, "mpirun.openmpi", "1h"), ranks) for program, ranks in launches]
    assert len({(checksum(job.run(ranks, 300)), job.log()) for job, ranks in jobs}) == 1
