"""Level BUFFER: versions are on the burst buffer first, and in the store when its server has brought them there."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import kedge as kedge_library
import numpy as np
import pytest
from buffers import MIB, Buffer
from tool import kedge, kedge_json, kedge_text
from waiting import until

from kedge import Context, Level

SETTINGS = {"job.lease": "2s", "keep.versions": 9}


@pytest.fixture
def target(buffer: Buffer, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The store, before which the buffer lies. No server runs."""
    target = tmp_path / "store"
    buffer.configure(monkeypatch, f"bb://fast/ckpt?drain={target}")
    return target


def drains_to(target: Path) -> tuple[str, str]:
    return "--drain", f"alice:{target}"


def versions(*words: object) -> list[int]:
    return [version["version"] for version in kedge_json("ls", *words)["versions"]]


def block_second(target: Path) -> Path:
    """No version can come to the store where a file has its folder's place."""
    blocked: Path = next((target / "jobs").glob("*/names/*")) / "2-1-2"
    blocked.write_text("in the way")
    return blocked


def take(context: Context, array: np.ndarray, version: int, level: Level) -> None:
    array[:] = version
    context.checkpoint("heat", version)
    context.wait("heat", version, level)


def test_a_version_is_on_the_buffer_and_then_in_the_store(
    buffer: Buffer, target: Path, run_folder: Path, end_own_agent: Callable[[], None]
) -> None:
    array = np.zeros(MIB)
    with buffer.server(*drains_to(target)):
        with Context("climate", settings=SETTINGS) as context:
            context.protect(0, array)
            take(context, array, 1, Level.BUFFER)
            assert context.level("heat", 1) in (Level.BUFFER, Level.STORE)
            take(context, array, 2, Level.STORE)
            assert context.level("heat", 2) == Level.STORE
        assert versions("--store", target) == [2, 1]
        kedge("verify", "--store", str(target))
        end_own_agent()
        # Nothing of the node is needed for either.
        shutil.rmtree(run_folder, ignore_errors=True)
        with Context("climate", settings=SETTINGS) as context:
            context.protect(0, array)
            context.restart("heat")
            assert (array == 2).all()
        assert versions() == [2, 1]


def test_the_store_waits_for_the_server_and_the_level_says_so(buffer: Buffer, target: Path) -> None:
    """What the store cannot take now stays at level BUFFER, and goes on when it can."""
    array = np.zeros(MIB)
    with buffer.server(*drains_to(target)):
        with Context("climate", settings=SETTINGS) as context:
            context.protect(0, array)
            take(context, array, 1, Level.STORE)
            blocked = block_second(target)
            take(context, array, 2, Level.BUFFER)
            with pytest.raises(kedge_library.TimeoutExpiredError, match="burst buffer"):
                context.wait("heat", 2, Level.STORE, timeout=1)
            assert context.level("heat", 2) == Level.BUFFER
            levels = {version["version"]: version["level"] for version in kedge_json("ls", "heat")["versions"]}
            assert levels == {1: "store", 2: "buffer"}
            blocked.unlink()
            context.wait("heat", 2, Level.STORE, timeout=60)
        assert versions("--store", target) == [2, 1]


def test_a_buffer_that_is_lost_takes_nothing_with_it_that_nodes_have(
    buffer: Buffer, target: Path, end_own_agent: Callable[[], None]
) -> None:
    """Versions that were not drained are sent again from the node; those in the store stay."""
    array = np.zeros(MIB)
    with Context("climate", settings=SETTINGS) as context:
        context.protect(0, array)
        with buffer.server(*drains_to(target)):
            take(context, array, 1, Level.STORE)
        # Its files are gone with it, and the next one begins with none.
        shutil.rmtree(buffer.root / "data")
        take(context, array, 2, Level.STORE)
        assert versions("--store", target) == [2, 1]
        with buffer.server(*drains_to(target)):
            time.sleep(0.1)
            take(context, array, 3, Level.STORE)
            assert versions("--store", target) == [3, 2, 1]
    end_own_agent()


def test_what_a_lost_buffer_alone_had_comes_from_the_node(
    buffer: Buffer, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node keeps its copy until the version is in the store itself, also where another one needs its room."""
    monkeypatch.setenv("KEDGE_POOL_SIZE", "96MiB")
    array = np.zeros(7 * MIB)
    with Context("climate", settings=SETTINGS) as context:
        context.protect(0, array)
        with buffer.server(*drains_to(target)):
            take(context, array, 1, Level.STORE)
            blocked = block_second(target)
            take(context, array, 2, Level.BUFFER)
            context.checkpoint("wave", 1)
            context.wait("wave", 1, Level.STORE)
        shutil.rmtree(buffer.root / "data")
        blocked.unlink()
        with buffer.server(*drains_to(target)):
            context.wait("heat", 2, Level.STORE, timeout=90)
        assert versions("heat", "--store", target) == [2, 1]
        kedge("verify", "--store", str(target))


def test_a_target_that_the_operator_does_not_allow_is_refused(buffer: Buffer, target: Path, tmp_path: Path) -> None:
    with buffer.server("--drain", f"alice:{tmp_path / 'elsewhere'}"):
        array = np.zeros(MIB)
        refused = pytest.raises(kedge_library.PermissionDeniedError, match="--drain alice:PLACE")
        with refused, Context("climate", settings=SETTINGS) as context:
            context.protect(0, array)
            take(context, array, 1, Level.BUFFER)
        assert versions() == []
