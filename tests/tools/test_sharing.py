"""Versions that share blocks in the store: every tool and every restart reads them whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kedge import Context, Level
from threaded_communicator import ThreadedCommunicator, run_ranks
from tool import kedge, kedge_json
from waiting import until

SETTINGS: dict[str, Any] = {"job.lease": "1s", "keep.versions": 3, "reduce.incremental": "on", "reduce.block": "4KiB"}
BLOCK = 4096
BLOCKS = 300

pytestmark = pytest.mark.usefixtures("run_folder")


def image(version: int) -> dict[str, Any]:
    inspected: dict[str, Any] = kedge_json("inspect", f"field@{version}")["images"][0]
    return inspected


def versions(checkpoint: str) -> list[int]:
    return [shown["version"] for shown in kedge_json("ls", checkpoint)["versions"]]


def inspected(*arguments: str) -> str:
    """What ``kedge inspect`` prints, without the ends of lines."""
    return " ".join(kedge("inspect", *arguments).stdout.split())


@pytest.fixture(params=["off", "on"])
def compress(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def contents(tmp_path: Path, compress: str) -> dict[int, np.ndarray[Any, Any]]:
    """Seven versions, of which the newest three are kept, each with some blocks changed and a tenth of zeros; what each holds."""
    generator = np.random.default_rng(1)
    field = generator.integers(0, 256, BLOCKS * BLOCK, dtype=np.uint8)
    field[3::4] = 7
    field[: BLOCKS // 10 * BLOCK] = 0
    taken = {}
    with Context("share", settings=SETTINGS | {"reduce.compress": compress}) as context:
        context.protect(0, field, "field")
        for version in range(1, 8):
            for block in generator.choice(np.arange(BLOCKS // 10, BLOCKS), 20, replace=False):
                field[block * BLOCK + int(generator.integers(BLOCK))] ^= 1
            context.checkpoint("field", version)
            context.wait("field", version, Level.STORE)
            taken[version] = field.copy()
    # The agent removes what has been displaced once the newest is in the store, and nobody waits for it.
    until(lambda: versions("share/field") == [7, 6, 5])
    return taken


def test_what_is_shared_is_shown_and_verified(contents: dict[int, np.ndarray[Any, Any]], tmp_path: Path, compress: str) -> None:
    for version in (5, 6, 7):
        shown = image(version)
        assert shown["own_bytes"] + shown["shared_bytes"] + shown["zero_bytes"] == shown["bytes"] == BLOCKS * BLOCK
        assert shown["zero_bytes"] == BLOCKS // 10 * BLOCK
        assert shown["own_bytes"] < BLOCKS * BLOCK / 2 and 1 <= len(shown["shared_objects"]) <= 8
        assert (shown["stored_bytes"] < 0.9 * shown["own_bytes"]) == (compress == "on")
    text = inspected("field@7")
    assert "in those of" in text and ("(compressed: " in text) == (compress == "on")
    assert "shares blocks with names/field/" in kedge("inspect", "field@7", "--chunks").stdout
    assert kedge_json("verify")["bad"] == 0
    saved = sum(path.stat().st_size for path in (tmp_path / "store").rglob("*") if path.is_file())
    assert saved < 3 * BLOCKS * BLOCK


def test_export_copy_and_gc(contents: dict[int, np.ndarray[Any, Any]], tmp_path: Path) -> None:
    kedge("gc", "--yes", "--incomplete-age", "0")
    archive = tmp_path / "archive"
    for version in (5, 7):
        kedge("export", f"field@{version}", "-o", str(tmp_path / f"out{version}"))
        assert np.array_equal(np.load(tmp_path / f"out{version}" / "field.npy"), contents[version])
        kedge("copy", f"field@{version}", str(archive))
    kedge("verify", "--store", str(archive))
    copied = kedge_json("inspect", "field@7", "--store", str(archive))["images"][0]
    assert not copied["shared_objects"] and copied["own_bytes"] == BLOCKS * BLOCK


def test_what_others_share_stays_when_it_is_removed(contents: dict[int, np.ndarray[Any, Any]], tmp_path: Path) -> None:
    assert any("/field/6-" in shared for shared in image(7)["shared_objects"])
    for version in (5, 6):
        kedge("rm", f"share/field@{version}", "--yes")
    assert versions("share/field") == [7]
    kedge("gc", "--yes", "--incomplete-age", "0")
    kedge("verify")
    kedge("export", "share/field@7", "-o", str(tmp_path / "out"))
    assert np.array_equal(np.load(tmp_path / "out" / "field.npy"), contents[7])
    kedge("rm", "share", "--yes")
    kedge("gc", "--yes", "--incomplete-age", "0")
    assert not list((tmp_path / "store").rglob("data"))


def test_a_restart_from_the_store_is_exact(contents: dict[int, np.ndarray[Any, Any]]) -> None:
    for version in (7, 5):
        field = np.zeros(BLOCKS * BLOCK, dtype=np.uint8)
        with Context("share", settings=SETTINGS | {"job.mode": "sync"}) as context:
            context.protect(0, field, "field")
            assert context.restart("field", at_most=version) == version
            assert np.array_equal(field, contents[version])


def test_a_bad_block_is_bad_in_all_that_share_it(contents: dict[int, np.ndarray[Any, Any]], tmp_path: Path) -> None:
    shared = tmp_path / "store" / "jobs" / "share" / image(7)["shared_objects"][0]
    data = bytearray(shared.read_bytes())
    for at in range(100, len(data), BLOCK):
        data[at] ^= 1
    shared.chmod(0o600)
    shared.write_bytes(data)
    report = kedge_json("verify", expect=1)
    bad = {version["version"] for version in report["versions"] if not version["good"]}
    assert 7 in bad and len(bad) > 1


@pytest.mark.parametrize("compress", ["off", "on"])
def test_blocks_that_an_image_has_several_times_are_stored_once(tmp_path: Path, compress: str) -> None:
    generator = np.random.default_rng(2)
    halves = generator.integers(0, 256, (5, BLOCK), dtype=np.uint8) // 16
    field = np.concatenate([halves[i % 5] for i in range(BLOCKS)])
    settings = {"job.lease": "1s", "reduce.deduplicate": "rank", "reduce.block": "4KiB", "reduce.compress": compress}
    with Context("share", settings=settings) as context:
        context.protect(0, field, "field")
        context.checkpoint("field", 1)
        context.wait("field", 1, Level.STORE)
    shown = image(1)
    assert shown["own_bytes"] == 5 * BLOCK and shown["copied_bytes"] == (BLOCKS - 5) * BLOCK
    assert "1.15 MiB copies" in inspected("field@1")
    assert kedge_json("verify")["bad"] == 0
    kedge("export", "field@1", "-o", str(tmp_path / "out"))
    assert np.array_equal(np.load(tmp_path / "out" / "field.npy"), field)
    back = np.zeros_like(field)
    with Context("share", settings=settings | {"job.mode": "sync"}) as context:
        context.protect(0, back, "field")
        assert context.restart("field") == 1
    assert np.array_equal(back, field)


RANKS = 3


COMMON, OWN = (BLOCKS - BLOCKS // 3) * BLOCK, BLOCKS // 3 * BLOCK


def images(job: str, version: int, *options: str) -> list[dict[str, Any]]:
    inspected: list[dict[str, Any]] = kedge_json("inspect", f"{job}/field@{version}", "--all-ranks", *options)["images"]
    return inspected


@pytest.fixture(params=["file", "node"])
def layout(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def of_ranks(tmp_path: Path, compress: str, layout: str) -> tuple[str, dict[tuple[int, int], np.ndarray[Any, Any]]]:
    """A job's two versions of three ranks that have two thirds of their blocks in common; what each version and rank holds."""
    settings = SETTINGS | {"reduce.deduplicate": "node", "reduce.verify": "on", "reduce.compress": compress, "store.layout": layout}
    taken: dict[tuple[int, int], np.ndarray[Any, Any]] = {}

    def run(rank: int, communicator: ThreadedCommunicator) -> None:
        field = np.random.default_rng(4).integers(0, 256, BLOCKS * BLOCK, dtype=np.uint8) // 16
        generator = np.random.default_rng(5 + rank)
        with Context(job, settings=settings, communicator=communicator) as context:
            context.protect(0, field, "field")
            for version in (1, 2):
                field[:OWN] = generator.integers(0, 16, OWN, dtype=np.uint8)
                communicator.barrier()
                context.checkpoint("field", version)
                context.wait("field", version, Level.STORE)
                taken[version, rank] = field.copy()

    # The images of the others are published without a rank that a busy machine holds up for 0.3 s.
    for job in (f"share{number}" for number in range(10)):
        run_ranks(RANKS, run)
        if sum(shown["borrowed_bytes"] for shown in images(job, 1)) == (RANKS - 1) * COMMON:
            return job, taken
    pytest.fail("the ranks' images were never written together")


def test_what_ranks_have_in_common_is_stored_once(
    of_ranks: tuple[str, dict[tuple[int, int], np.ndarray[Any, Any]]], tmp_path: Path, compress: str
) -> None:
    job, _ = of_ranks
    first, second = images(job, 1), images(job, 2)
    for shown in first + second:
        parts = ("own_bytes", "shared_bytes", "borrowed_bytes", "copied_bytes", "zero_bytes")
        assert sum(shown[part] for part in parts) == shown["bytes"] == BLOCKS * BLOCK
    assert sum(shown["own_bytes"] for shown in first) == COMMON + RANKS * OWN
    assert sum(shown["own_bytes"] for shown in second) == RANKS * OWN, "the version before has the others"
    borrowers = [shown["rank"] for shown in first if shown["borrowed_bytes"] > 0]
    text = inspected(f"{job}/field@1", "--rank", str(borrowers[0]))
    assert "in those of 0 other images, " in text and " other rank" in text
    assert kedge_json("verify")["bad"] == 0


def test_what_ranks_share_is_exported_copied_and_restored(
    of_ranks: tuple[str, dict[tuple[int, int], np.ndarray[Any, Any]]], tmp_path: Path, compress: str
) -> None:
    job, taken = of_ranks
    archive = tmp_path / "archive"
    kedge("copy", f"{job}/field@1", str(archive))
    kedge("verify", "--store", str(archive))
    assert all(shown["own_bytes"] == BLOCKS * BLOCK for shown in images(job, 1, "--store", str(archive)))
    # What the second version needs of the first one stays when that goes.
    kedge("rm", f"{job}/field@1", "--yes")
    kedge("gc", "--yes", "--incomplete-age", "0")
    assert kedge_json("verify")["bad"] == 0
    for rank in range(RANKS):
        kedge("export", f"{job}/field@2", "--rank", str(rank), "-o", str(tmp_path / f"out{rank}"))
        assert np.array_equal(np.load(tmp_path / f"out{rank}" / "field.npy"), taken[2, rank])

    def restart(rank: int, communicator: ThreadedCommunicator) -> None:
        field = np.zeros(BLOCKS * BLOCK, dtype=np.uint8)
        with Context(job, settings=SETTINGS | {"job.mode": "sync"}, communicator=communicator) as context:
            context.protect(0, field, "field")
            assert context.restart("field") == 2
            assert np.array_equal(field, taken[2, rank])

    run_ranks(RANKS, restart)
    kedge("rm", job, "--yes", "--live")
    kedge("gc", "--yes", "--incomplete-age", "0")
    assert not list((tmp_path / "store" / "jobs" / job).rglob("data"))


def test_a_large_compressed_image_comes_back_from_the_store(tmp_path: Path) -> None:
    """Parts of it are decompressed at once, and none of them begins where a region does."""
    generator = np.random.default_rng(3)
    few, field = np.arange(3, dtype=np.uint8), np.cumsum(generator.normal(size=2_000_000))
    settings = {"job.lease": "1s", "reduce.compress": "on", "reduce.block": "4KiB"}
    with Context("share", settings=settings) as context:
        context.protect(0, few, "few")
        context.protect(1, field, "field")
        context.checkpoint("field", 1)
        context.wait("field", 1, Level.STORE)
    assert image(1)["stored_bytes"] < 0.95 * field.nbytes
    back, few_back = np.zeros_like(field), np.zeros_like(few)
    with Context("share", settings=settings | {"job.mode": "sync"}) as context:
        context.protect(0, few_back, "few")
        context.protect(1, back, "field")
        assert context.restart("field") == 1
    assert np.array_equal(back, field) and np.array_equal(few_back, few)
