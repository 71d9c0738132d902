"""Ranks of a node whose images share blocks restart from a burst buffer: its server is asked once for each block."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from buffers import MIB, Buffer
from threaded_communicator import ThreadedCommunicator, run_ranks
from waiting import until

from kedge import Context, Level

RANKS, COMMON, OWN = 3, 9 * MIB, 1 * MIB
SETTINGS = {"job.lease": "2s", "reduce.deduplicate": "node"}


def content(rank: int) -> bytes:
    return np.random.default_rng(9).bytes(COMMON) + np.random.default_rng(10 + rank).bytes(OWN)


def test_the_agent_reads_for_all(
    buffer: Buffer, run_folder: Path, end_own_agent: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def take(rank: int, communicator: ThreadedCommunicator) -> None:
        with Context("shared", settings=SETTINGS, communicator=communicator) as context:
            array = np.frombuffer(content(rank), dtype=np.uint8).copy()
            context.protect(0, array)
            context.checkpoint("c", 1)
            context.wait("c", 1, Level.STORE)

    def restart(rank: int, communicator: ThreadedCommunicator) -> None:
        with Context("shared", settings=SETTINGS, communicator=communicator) as context:
            array = np.zeros(COMMON + OWN, dtype=np.uint8)
            context.protect(0, array)
            assert context.restart("c") == 1
            assert array.tobytes() == content(rank)
            assert context.statistics.corrupt_copies == 0

    def said() -> re.Match[str] | None:
        log = (run_folder / "agent.log").read_text()
        return re.search(r" (\d+) bytes that several ranks needed were read once from the store, and shown as (\d+)", log)

    buffer.configure(monkeypatch, "bb://fast/ckpt")
    with buffer.server():
        run_ranks(RANKS, take)
        end_own_agent()
        shutil.rmtree(run_folder, ignore_errors=True)
        run_ranks(RANKS, restart)
        until(said)
    shared = said()
    assert shared is not None
    # A rank that a busy machine holds up has all of its blocks in its own object.
    assert int(shared[2]) - int(shared[1]) >= COMMON
