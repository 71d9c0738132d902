"""Each test gets a node, a run folder and a store of its own; its agent is ended and its files are removed after it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


def agent_pid(run_folder: Path) -> int | None:
    """The process that listens on the agent's socket, as the kernel names it; None when nobody does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(10)
        try:
            connection.connect(str(run_folder / "agent.sock"))
        except OSError:
            return None
        pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return int(pid)


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


@pytest.fixture
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The environment of one virtual node with a small pool; yields the agent's run folder."""
    folder = Path("/dev/shm") / f"kedge-test-python-{os.getpid()}-{time.monotonic_ns()}"
    monkeypatch.setenv("KEDGE_NODE", folder.name)
    monkeypatch.setenv("KEDGE_NODE_RUN_FOLDER", str(folder))
    monkeypatch.setenv("KEDGE_STORE_PATH", str(tmp_path / "store"))
    monkeypatch.setenv("KEDGE_POOL_SIZE", "64MiB")
    monkeypatch.chdir(tmp_path)
    yield folder
    end_agent(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def agent_program(run_folder: Path) -> Callable[[], Path]:
    """A function: the program of the agent that serves the run folder now."""
    return lambda: Path(f"/proc/{agent_pid(run_folder)}/exe").resolve()
