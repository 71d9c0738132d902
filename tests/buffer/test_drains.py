"""Jobs whose store has a burst buffer before it: its server brings the versions there, and is killed at each step of that."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from buffers import Buffer
from tool import kedge, kedge_json
from waiting import until

# Takes versions, 3 MiB each; the buffer has them all when it ends.
PROGRAM = textwrap.dedent(
    """
    import sys
    import numpy as np
    from kedge import Context, Level
    array = np.zeros(3 << 17)
    with Context("points", settings={"job.mode": sys.argv[1], "job.lease": "1s", "keep.versions": 9}) as context:
        context.protect(0, array)
        for version in range(1, int(sys.argv[2]) + 1):
            array[:] = np.random.default_rng(version).random(array.size)
            context.checkpoint("k", version)
            context.wait("k", version, Level.BUFFER)
            print("safe", version, flush=True)
    """
)
POINTS = (
    "mirror-objects-written",
    "mirror-objects-published",
    "mirror-record",
    "mirror-version",
    "mirror-version-put",
    "buffer-store-remove",
    "buffer-store-removed",
)


@pytest.fixture
def target(buffer: Buffer, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The store behind the buffer. The configuration names both; no server runs."""
    store = tmp_path / "place" / "store"
    store.parent.mkdir()
    buffer.configure(monkeypatch, f"bb://fast/ckpt?drain={store}")
    return store


def allow(target: Path) -> tuple[str, str]:
    return "--drain", f"alice:{target.parent}"


def job(mode: str, last: int) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", PROGRAM, mode, str(last)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def in_store(target: Path) -> list[int]:
    """The versions of the store alone, each of which is whole."""
    versions = [version["version"] for version in kedge_json("ls", "k", "--store", str(target))["versions"]]
    if versions:
        kedge("verify", "--store", str(target))
    return versions


def half_written(target: Path) -> list[Path]:
    return [path for path in target.rglob("*.tmp") if "buffer-fast" in path.name]


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_versions_get_to_the_store_behind(buffer: Buffer, target: Path, end_own_agent: Callable[[], None], mode: str) -> None:
    with buffer.server(*allow(target)):
        taking = job(mode, 3)
        output, error = taking.communicate(timeout=100)
        assert taking.returncode == 0, output + error
        until(lambda: in_store(target) == [3, 2, 1])
        until(lambda: len([path for path in buffer.files() if path.endswith("/version")]) == 1)
        end_own_agent()
    # Without the buffer.
    kedge("verify", "--store", str(target))


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_the_server_is_killed_while_it_drains(buffer: Buffer, target: Path, end_own_agent: Callable[[], None], point: str) -> None:
    with buffer.server(*allow(target), kill_point=f"{point}:2") as server:
        taking = job("async", 3)
        assert server.wait(60) == -signal.SIGKILL
        in_store(target)
    with buffer.server(*allow(target)):
        output, error = taking.communicate(timeout=150)
        assert taking.returncode == 0, output + error
        until(lambda: in_store(target) == [3, 2, 1])
        until(lambda: half_written(target) == [])
        until(lambda: not [path for path in buffer.files() if path.endswith(".tmp")])
        end_own_agent()


def test_an_operator_who_has_not_allowed_it_is_named(buffer: Buffer, target: Path, end_own_agent: Callable[[], None]) -> None:
    with buffer.server():
        taking = job("sync", 1)
        output, error = taking.communicate(timeout=100)
        assert taking.returncode != 0
        assert "--drain alice:" in error, output + error
        end_own_agent()
