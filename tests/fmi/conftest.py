"""Jobs of FMI, as the tests start, kill and judge them."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from processes import kill, processes_with

BUILD = Path(os.environ["BUILD_FOLDER"])
FMIRUN = BUILD / "bin" / "fmirun"
# Where each fmirun has a folder for its successor.
STATES = Path(f"/dev/shm/kedge-fmirun-{os.getuid()}")
JACOBI = BUILD / "examples" / "jacobi"
CALLS = BUILD / "test" / "fmi_calls"
COMMUNICATORS = BUILD / "test" / "fmi_communicators"
GRID = BUILD / "test" / "fmi_grid"
OPERATIONS = BUILD / "test" / "fmi_operations"
REQUESTS = BUILD / "test" / "fmi_requests"
TYPES = BUILD / "test" / "fmi_types"


# For what takes a second, unless other work has the processors or the disk.
LIMIT_SECONDS = 120


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    def result(self) -> str:
        """What the program says of its cells, each time it says it."""
        found = set(re.findall(r"^steps .*$", self.out, re.MULTILINE))
        assert len(found) == 1, f"{self.code}\n{self.out}\n{self.err}"
        return str(found.pop())


def assert_survived(ended: Ended, expected: str) -> None:
    """Who is killed behind FMI_Finalize takes nothing from the result, but does not end with 0."""
    assert ended.code == (128 + signal.SIGKILL if "after FMI_Finalize" in ended.err else 0), ended.err
    assert ended.result() == expected, ended.err


def armed(program: list[str], kills: dict[tuple[int, int], str]) -> list[str]:
    """The program, in which rank r, started for the n-th time (from 0), is killed at the point kills[r, n] (os/process/kill_point.h)."""
    cases = "".join(f"{rank}.{respawns}) export KEDGE_TEST_KILL_POINT={point};;" for (rank, respawns), point in kills.items())
    return ["sh", "-c", f'case $FMI_RANK.$FMI_RESPAWNS in {cases} esac; exec {shlex.join(program)}']


def children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


@dataclass
class Job:
    """fmirun, and the ranks below it."""

    process: subprocess.Popen[str]
    mark: str
    ended: Ended | None = field(default=None)

    def rank_pids(self) -> dict[int, int]:
        """The processes of the ranks that run now."""
        found = {}
        for task in self.task_pids():
            for pid in children(task):
                with suppress(OSError):
                    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                    ranks = [int(one.split(b"=")[1]) for one in variables if one.startswith(b"FMI_RANK=")]
                    found.update(dict.fromkeys(ranks, pid))
        return found

    def task_pids(self) -> list[int]:
        """The tasks of the nodes that run now, in the order in which they were started. They may outlive fmirun."""
        found = []
        for pid in processes_with([self.mark.encode()]):
            with suppress(OSError):
                if Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0:2] == [str(FMIRUN).encode(), b"--task"]:
                    found.append(pid)
        return sorted(found)

    def end(self) -> None:
        """Whatever of it is left."""
        self.process.kill()
        for pid in self.task_pids():
            kill(pid)
        self.process.communicate()

    def kill(self, *ranks: int) -> None:
        """SIGKILL, of all at once as far as that goes; who has ended is left alone."""
        pids = self.rank_pids()
        for rank in ranks:
            if rank in pids:
                with suppress(ProcessLookupError):
                    os.kill(pids[rank], signal.SIGKILL)

    def wait(self, seconds: float = 120) -> Ended:
        out, err = self.process.communicate(timeout=seconds)
        self.ended = Ended(self.process.returncode, out, err)
        assert self.processes() == [], "processes are left over"
        return self.ended

    def processes(self) -> list[str]:
        """Those of the job that have not gone a moment after its end. The node's agent stays for a while."""
        deadline = time.monotonic() + 10
        while (found := self._processes()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return found

    def _processes(self) -> list[str]:
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and self.mark.encode() in (entry / "environ").read_bytes():
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    if "kedge-agent" not in command:
                        found.append(command)
        return found


def finish(*jobs: Job) -> Ended:
    """How the last one ends, and what all of them, and their ranks, have said. Nothing is left then."""
    code = jobs[-1].wait().code
    said = [job.process.communicate() for job in jobs[:-1]]
    last = jobs[-1].ended
    assert last is not None
    return Ended(code, "".join(out for out, _ in said) + last.out, "".join(err for _, err in said) + last.err)


def assert_completed(ended: Ended, expected: str) -> None:
    assert ended.code == 0, ended.err
    assert ended.result() == expected, ended.err


Launch = Callable[..., Job]


@pytest.fixture
def launch(run_folder: Path, tmp_path: Path) -> Iterator[Launch]:
    """A function: starts fmirun with these options and program, `under` another command, on a node of the test's own. After the test nothing of it is left:
    no process, and in /dev/shm nothing but the agent's folder."""
    jobs = []
    shared_before = set(Path("/dev/shm").iterdir())
    mark = f"FMI_TEST={tmp_path}"

    def start(*words: object, under: Sequence[object] = ()) -> Job:
        environment = os.environ | {"FMI_TEST": str(tmp_path)}
        command = [str(word) for word in (*under, FMIRUN, *words)]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        jobs.append(Job(process, mark))
        return jobs[-1]

    yield start
    for job in jobs:
        job.end()
        assert job.processes() == []
    left = {path for path in Path("/dev/shm").iterdir() if path not in shared_before and "fmi" in path.name}
    assert left - {STATES} == set()
    assert [path for path in STATES.glob(f"{run_folder.parent.name}.*")] == [], "an fmirun has left its folder"


@dataclass
class Nodes:
    """Virtual nodes of the test's own."""

    names: list[str]
    folder: Path

    def some(self, count: int) -> str:
        return ",".join(self.names[:count])

    def has_checkpoint(self, name: str) -> bool:
        """Whether its agent knows of one that is in the store, and outlives the node."""
        command = [str(BUILD / "bin" / "kedge"), "status", "--json", "--node", name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        versions = [version for job in json.loads(done.stdout)["jobs"] for version in job["versions"]] if done.returncode == 0 else []
        return any({"level": "store", "reached": True} in version["levels"] for version in versions)

    def lose(self, name: str) -> None:
        """All its processes and its memory are gone."""
        for process in processes_with([f"KEDGE_NODE={name}".encode()]):
            kill(process)
        shutil.rmtree(self.folder / name, ignore_errors=True)


@pytest.fixture
def nodes(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    """Their agents are ended, and their files removed, after the test."""
    monkeypatch.delenv("KEDGE_NODE_RUN_FOLDER")
    found = Nodes([f"{run_folder.parent.name}-{number}" for number in range(6)], Path("/dev/shm") / f"kedge-{os.getuid()}")
    yield found
    # This machine's own name is that of undisturbed runs.
    for name in [*found.names, run_folder.parent.name]:
        found.lose(name)


_UNDISTURBED: dict[tuple[int, int, int], str] = {}


@pytest.fixture
def undisturbed(launch: Launch) -> Callable[..., str]:
    """A function: what jacobi says with these arguments where nothing happens. It says the same each time, and is asked once."""

    def run(ranks: int, cells: int, steps: int) -> str:
        if (ranks, cells, steps) not in _UNDISTURBED:
            ended = launch("-n", ranks, "--interval", 1000, "env", "KEDGE_JOB_NAME=undisturbed", JACOBI, cells, steps).wait()
            assert ended.code == 0, ended.err
            _UNDISTURBED[ranks, cells, steps] = ended.result()
        return _UNDISTURBED[ranks, cells, steps]

    return run
