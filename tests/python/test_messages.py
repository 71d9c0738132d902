"""What a job with several ranks prints when something goes wrong for all of them."""

from __future__ import annotations

import contextlib
import itertools
import time
from pathlib import Path

import numpy as np
import pytest

from kedge import Context, Error, Level
from threaded_communicator import ThreadedCommunicator, run_ranks

pytestmark = pytest.mark.usefixtures("run_folder")


def put_a_file_in_place_of(folder: Path, away: Path) -> None:
    """Agents still write there what the last version has reached, and would make the folder anew."""
    for number in itertools.count():
        with contextlib.suppress(FileNotFoundError):
            folder.rename(away.with_name(f"{away.name}-{number}"))
        with contextlib.suppress(FileExistsError):
            return folder.touch(exist_ok=False)


def test_a_flush_that_fails_is_told_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "a-store"
    settings = {"store.path": str(store), "job.lease": "1s"}

    def body(rank: int, communicator: ThreadedCommunicator) -> None:
        with Context("told", communicator=communicator, settings=settings) as context:
            field = np.arange(1000.0) + rank
            context.protect(0, field, "field")
            context.checkpoint("heat", 1)
            context.wait("heat", 1, Level.STORE)
            communicator.barrier()
            if rank == 0:
                put_a_file_in_place_of(store / "jobs" / "told" / "names" / "heat", tmp_path / "away")
            communicator.barrier()
            for version in (2, 3):
                context.checkpoint("heat", version)
                with pytest.raises(Error, match=r"heat.*Not a directory"):
                    context.wait("heat", version, Level.STORE)

    begin = time.monotonic()
    with pytest.raises(Error, match=r"the flush of 'heat' version 2 failed: .*Not a directory"):
        run_ranks(3, body)
    lines = [line for line in capfd.readouterr().err.splitlines() if "the flush of 'heat'" in line]
    # Again after ten seconds, which a busy disk can take for two flushes.
    assert 1 <= len(lines) <= 1 + (time.monotonic() - begin) // 10, lines
    assert "version 2 failed on rank " in lines[0] and lines[0].endswith("Not a directory"), lines
    assert lines[0].count("heat") <= 3, "said once, not by each layer"
