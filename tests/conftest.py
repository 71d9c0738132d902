"""What the Python suites share: a node of its own for each test, and which parts of Kedge the build tree holds.

Each test gets a run folder and a store of its own; its agent is ended and its files are removed after it. A test marked
needs("MPICH") is left out where the build tree was configured with KEDGE_WITH_MPICH=OFF; everywhere else it must pass.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from processes import agent_pid


def is_configured(option: str) -> bool:
    """Whether the build tree was configured with KEDGE_WITH_`option`."""
    cache = (Path(os.environ["BUILD_FOLDER"]) / "CMakeCache.txt").read_text()
    found = re.search(rf"^KEDGE_WITH_{option}:BOOL=(\w+)$", cache, re.MULTILINE)
    assert found, f"KEDGE_WITH_{option} is no option of the build"
    return found[1] == "ON"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [
        item for item in items if not all(is_configured(option) for mark in item.iter_markers("needs") for option in mark.args)
    ]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def end_agent(run_folder: Path) -> None:
    """Ends the agent of a run folder and waits until it is gone."""
    pid = agent_pid(run_folder)
    if pid is None:
        return
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while _is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)


def _agents_in(folder: Path) -> list[int]:
    """The agents whose command line names a run folder in this one, as those that clients start do."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else [b""]
        except OSError:
            continue
        if words[0].endswith(b"/kedge-agent") and any(f"={folder}/".encode() in word for word in words):
            found.append(int(entry.name))
    return [pid for pid in found if _is_alive(pid)]


def end_agents_in(folder: Path) -> None:
    """Ends the agents of all run folders in `folder`, also one that has not begun to listen: it would make the folder anew."""
    deadline = time.monotonic() + 10
    while (pids := _agents_in(folder)) and time.monotonic() < deadline:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


@atexit.register
def _remove_what_ranks_made_again() -> None:
    """Threads of a test that has failed go on until they have done their steps, and are waited for before this."""
    for memory in Path("/dev/shm").glob(f"kedge-test-python-{os.getpid()}-*"):
        end_agents_in(memory)
        shutil.rmtree(memory, ignore_errors=True)


@pytest.fixture
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The environment of one virtual node with a small pool; yields the agent's run folder.

    What Open MPI's ranks share lies in the test's folders too: it is removed, though they may have been killed.
    """
    memory = Path("/dev/shm") / f"kedge-test-python-{os.getpid()}-{time.monotonic_ns()}"
    memory.mkdir(mode=0o700)
    folder = memory / "node"
    monkeypatch.setenv("KEDGE_NODE", memory.name)
    monkeypatch.setenv("KEDGE_NODE_RUN_FOLDER", str(folder))
    for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("OMPI_MCA_btl_vader_backing_directory", str(memory))
    monkeypatch.setenv("OMPI_MCA_orte_tmpdir_base", str(memory))
    monkeypatch.setenv("KEDGE_STORE_PATH", str(tmp_path / "store"))
    monkeypatch.setenv("KEDGE_POOL_SIZE", "64MiB")
    monkeypatch.setenv("KEDGE_PLACEMENT_CALIBRATIONS", str(tmp_path / "calibrations"))
    monkeypatch.chdir(tmp_path)
    yield folder
    end_agent(folder)
    # Ranks of a test that has failed may still be at it, and start an agent while its folder is removed.
    for _ in range(20):
        end_agents_in(memory)
        shutil.rmtree(memory, ignore_errors=True)
        if not memory.exists():
            break
        time.sleep(0.05)


@pytest.fixture
def agent_program(run_folder: Path) -> Callable[[], Path]:
    """A function: the program of the agent that serves the run folder now."""
    return lambda: Path(f"/proc/{agent_pid(run_folder)}/exe").resolve()


@pytest.fixture
def end_own_agent(run_folder: Path) -> Callable[[], None]:
    """A function: ends the agent that serves the run folder now."""
    return lambda: end_agent(run_folder)


@pytest.fixture
def own_agent_pid(run_folder: Path) -> Callable[[], int | None]:
    """A function: the process id of the agent that serves the run folder now; None when nobody does."""
    return lambda: agent_pid(run_folder)
