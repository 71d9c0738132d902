"""Images of several ranks in one object of the store (store.layout = node): every tool and every restart reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kedge import Context, Level
from threaded_communicator import ThreadedCommunicator, run_ranks
from tool import kedge, kedge_json

SETTINGS: dict[str, Any] = {"job.lease": "1s", "store.layout": "node", "chunk.size": "1MiB", "pool.size": "256MiB"}
RANKS, ROWS, COLUMNS = 3, 12, 60_000
WHOLE = np.arange(ROWS * COLUMNS, dtype=np.float64).reshape(ROWS, COLUMNS)

pytestmark = pytest.mark.usefixtures("run_folder")


@pytest.fixture
def store(tmp_path: Path, run_folder: Path) -> Path:
    return tmp_path / "store"


def rows_of(rank: int, ranks: int) -> slice:
    return slice(rank * ROWS // ranks, (rank + 1) * ROWS // ranks)


def take(job: str, versions: tuple[int, ...]) -> None:
    def run(rank: int, communicator: ThreadedCommunicator) -> None:
        rows = rows_of(rank, RANKS)
        with Context(job, settings=SETTINGS, communicator=communicator) as context:
            field = WHOLE[rows].copy()
            context.protect(0, field, "field", global_shape=WHOLE.shape, global_offset=(rows.start, 0))
            for version in versions:
                context.checkpoint("field", version)
                context.wait("field", version, Level.STORE)
                field += 1

    run_ranks(RANKS, run)


def objects(store: Path, job: str, version: int) -> list[Path]:
    (folder,) = (store / "jobs" / job / "names" / "field").glob(f"{version}-*")
    return list((folder / "data").iterdir())


@pytest.fixture
def job(store: Path) -> str:
    """A job with the versions 1 and 2 of three ranks, each version in one object."""
    # On a busy machine a rank may come so late that the others' images are published without it.
    for name in (f"laid{number}" for number in range(10)):
        take(name, (1, 2))
        if all(len(objects(store, name, version)) == 1 for version in (1, 2)):
            return name
    pytest.fail("the ranks' images were never written together")


def test_it_is_shown_and_verified(job: str, store: Path) -> None:
    for version in (1, 2):
        (stored,) = objects(store, job, version)
        assert WHOLE.nbytes <= stored.stat().st_size < 1.1 * WHOLE.nbytes
        shown = kedge_json("inspect", f"{job}/field@{version}", "--all-ranks")["images"]
        assert {image["object"] for image in shown} == {str(stored.relative_to(store))}
        assert all(image["layout"] == "node" and image["own_bytes"] == image["bytes"] for image in shown)
    assert " (of its node)\n" in kedge("inspect", f"{job}/field@2").stdout
    assert kedge_json("verify")["bad"] == 0
    assert "store.layout" in kedge("config", "--docs").stdout


def test_damage_is_of_the_rank_whose_bytes_they_are(job: str, store: Path) -> None:
    (stored,) = objects(store, job, 2)
    content = bytearray(stored.read_bytes())
    value = (WHOLE[rows_of(1, RANKS)][0] + 1)[1000:1010].tobytes()
    at = content.find(value)
    assert at >= 0
    content[at] ^= 1
    stored.chmod(0o600)
    stored.write_bytes(content)
    (report,) = [version for version in kedge_json("verify", f"{job}/field@2", expect=1)["versions"] if not version["good"]]
    assert {problem["rank"] for problem in report["problems"]} == {1}


def test_it_is_exported_and_copied(job: str, store: Path, tmp_path: Path) -> None:
    for rank in range(RANKS):
        kedge("export", f"{job}/field@2", "--rank", str(rank), "-o", str(tmp_path / f"out{rank}"))
        assert np.array_equal(np.load(tmp_path / f"out{rank}" / "field.npy"), WHOLE[rows_of(rank, RANKS)] + 1)
    archive = tmp_path / "archive"
    kedge("copy", f"{job}/field@1", str(archive))
    kedge("verify", "--store", str(archive))
    assert sorted(path.name for path in objects(archive, job, 1)) == ["r0", "r1", "r2"]
    shown = kedge_json("inspect", f"{job}/field@1", "--all-ranks", "--store", str(archive))["images"]
    assert {image["layout"] for image in shown} == {"file"}


@pytest.mark.parametrize("ranks", [1, 2, RANKS, 4])
def test_any_number_of_ranks_restarts_from_it(job: str, ranks: int, tmp_path: Path) -> None:
    def restart(rank: int, communicator: ThreadedCommunicator) -> None:
        rows = rows_of(rank, ranks)
        settings = SETTINGS | {"job.mode": "sync"}  # without what the node has
        with Context(job, settings=settings, communicator=communicator) as context:
            field = np.zeros((rows.stop - rows.start, COLUMNS))
            context.protect(0, field, "field", global_shape=WHOLE.shape, global_offset=(rows.start, 0))
            assert context.restart("field") == 2
            assert np.array_equal(field, WHOLE[rows] + 1)

    run_ranks(ranks, restart)


def test_what_is_removed_goes_whole(job: str, store: Path) -> None:
    kedge("rm", f"{job}/field@1", "--yes")
    assert kedge_json("verify")["bad"] == 0
    kedge("rm", job, "--yes", "--live")
    kedge("gc", "--yes", "--incomplete-age", "0")
    assert not list((store / "jobs" / job).rglob("data"))


def test_without_an_agent_each_rank_has_its_own_object(store: Path) -> None:
    def run(rank: int, communicator: ThreadedCommunicator) -> None:
        with Context("alone", settings=SETTINGS | {"job.mode": "sync"}, communicator=communicator) as context:
            field = WHOLE[rows_of(rank, RANKS)].copy()
            context.protect(0, field, "field")
            context.checkpoint("field", 1)

    run_ranks(RANKS, run)
    assert sorted(path.name for path in objects(store, "alone", 1)) == ["r0", "r1", "r2"]
