"""Global arrays in the tools: put together from the images of all ranks, and told of where their parts do not make them up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kedge import Context, Level
from threaded_communicator import ThreadedCommunicator, run_ranks
from tool import kedge, kedge_json

RANKS, ROWS, COLUMNS = 4, 37, 50
WHOLE = np.arange(ROWS * COLUMNS, dtype=np.float64).reshape(ROWS, COLUMNS)

pytestmark = pytest.mark.usefixtures("run_folder")


def bounds(extent: int, number: int) -> tuple[int, int]:
    return number * extent // 2, (number + 1) * extent // 2


def save(job: str, *, order: str = "C", without: int = -1, wider: int = 0) -> None:
    """One of four blocks on each rank, with ghost cells; that of the rank `without` is not there, others have more rows."""

    def run(rank: int, communicator: ThreadedCommunicator) -> None:
        (top, bottom), (left, right) = bounds(ROWS, rank // 2), bounds(COLUMNS, rank % 2)
        block = WHOLE[top : min(bottom + wider, ROWS), left:right]
        field = np.full((block.shape[0] + 2, block.shape[1] + 4), -1.0, order=order)  # type: ignore[call-overload]
        field[1:-1, 2:-2] = block
        step = np.array([7])
        with Context(job, settings={"job.lease": "1s"}, communicator=communicator) as context:
            context.protect(0, step, "step", replicated=True)
            if rank != without:
                context.protect(rank + 1, field, f"density[{rank}]", global_shape=WHOLE.shape, global_offset=(top, left), halo=(1, 2))
            context.checkpoint("gas", 3)
            context.wait("gas", 3, Level.STORE)

    run_ranks(RANKS, run)


@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_is_exported_whole(tmp_path: Path, order: str) -> None:
    save("whole", order=order)
    shown = kedge("export", "gas", "--region", "density", "--region", "step", "-o", str(tmp_path))
    assert "37 x 50" in shown.stdout and "of 4 images" in shown.stdout and not shown.stderr
    density = np.load(tmp_path / "density.npy")
    assert (density == WHOLE).all() and density.flags.f_contiguous == (order == "F")
    assert np.load(tmp_path / "step.npy") == 7
    (file,) = kedge_json("export", "gas", "--region", "density", "--raw", "-o", str(tmp_path))["files"]
    assert file["array"] == "density" and file["shape"] == [ROWS, COLUMNS]
    assert Path(file["path"]).read_bytes() == WHOLE.tobytes(order)  # type: ignore[arg-type]


def test_a_block_is_exported_as_such(tmp_path: Path) -> None:
    save("blocks")
    shown = kedge("export", "gas", "--region", "density[0]", "-o", str(tmp_path))
    assert "rank 0's block of density, with halo 1 x 2" in shown.stdout and "`--region density` without a rank" in shown.stderr
    assert (np.load(tmp_path / "density_0_.npy")[1:-1, 2:-2] == WHOLE[:18, :25]).all()
    shown = kedge("export", "gas", "--region", "density", "--all-ranks", "-o", str(tmp_path))
    assert shown.stdout.count("'s block of density") == RANKS and not shown.stderr
    assert (np.load(tmp_path / "density_3_-r3.npy")[1:-1, 2:-2] == WHOLE[18:, 25:]).all()


def test_a_rank_that_was_not_asked_for_is_told_of(tmp_path: Path) -> None:
    """Of what is no global array, each rank has its own."""

    def run(rank: int, communicator: ThreadedCommunicator) -> None:
        with Context("own", communicator=communicator) as context:
            own, step = np.array([rank]), np.array([7])
            context.protect(0, own, "own")
            context.protect(1, step, "step", replicated=True)
            context.checkpoint("gas", 3)
            context.wait("gas", 3, Level.STORE)

    run_ranks(2, run)
    assert "note: of rank 0 of 2 alone: --all-ranks exports all" in kedge("export", "own/gas", "-o", str(tmp_path)).stderr
    for chosen in (["--rank", "1"], ["--all-ranks"], ["--region", "step"]):
        assert not kedge("export", "own/gas", "--force", *chosen, "-o", str(tmp_path)).stderr


def test_replicas_that_differ_are_told_of() -> None:
    def run(rank: int, communicator: ThreadedCommunicator) -> None:
        with Context("apart", communicator=communicator) as context:
            context.protect(0, np.array([7]), "step", replicated=True)
            context.protect(1, np.array([rank // 2]), "seed", replicated=True)
            context.protect(2, np.array([rank]), "rank", global_shape=[4], global_offset=[rank])
            context.checkpoint("gas", 3)
            context.wait("gas", 3, Level.STORE)

    run_ranks(4, run)
    (version,) = kedge_json("verify", "apart/gas")["versions"]
    assert version["good"], "every byte is as it was written"
    assert version["warnings"] == ["array 'seed' is replicated, but ranks 0 and 2 have other bytes of it: either comes back"]


def test_what_is_bad_in_one_image_leaves_no_file(tmp_path: Path) -> None:
    save("bad")
    for data in (tmp_path / "store" / "jobs" / "bad").glob("names/gas/3-*/data/*"):
        data.chmod(0o600)
        data.write_bytes(data.read_bytes().replace(np.float64(WHOLE[-1, -1]).tobytes(), np.float64(0).tobytes()))
    assert "checksum" in kedge("export", "gas", "--region", "density", "-o", str(tmp_path / "out"), expect=1).stderr
    assert list((tmp_path / "out").iterdir()) == []


def test_an_array_that_is_not_all_there_is_told_of(tmp_path: Path) -> None:
    save("hole", without=2)
    missing = "no image has its 19 x 25 elements at 18, 0"
    assert missing in kedge("export", "gas", "--region", "density", "-o", str(tmp_path / "out"), expect=1).stderr
    assert list((tmp_path / "out").iterdir()) == []
    (version,) = kedge_json("verify", "gas")["versions"]
    assert version["good"] and len(version["warnings"]) == 1 and missing in version["warnings"][0]
    assert f"{missing}" in kedge("verify", "gas").stderr


def test_parts_that_overlap_are_told_of(tmp_path: Path) -> None:
    save("wide", wider=1)
    assert "array 'density': its parts overlap" in kedge("verify", "gas").stderr
    kedge("export", "gas", "--region", "density", "-o", str(tmp_path))
    assert (np.load(tmp_path / "density.npy") == WHOLE).all()
    save("apart")
    assert kedge_json("verify", "apart/gas")["versions"][0]["warnings"] == []
