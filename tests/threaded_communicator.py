"""Ranks that are threads of one test: a communicator for what is collective, without MPI."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence


class ThreadedCommunicator:
    """A communicator of threads: enough to drive the collective calls without MPI."""

    def __init__(self, rank: int, barrier: threading.Barrier, board: list[bytes]) -> None:
        self._rank, self._barrier, self._board = rank, barrier, board

    def Get_rank(self) -> int:
        return self._rank

    def Get_size(self) -> int:
        return len(self._board)

    def allgather(self, data: bytes, /) -> Sequence[bytes]:
        self._board[self._rank] = data
        self._barrier.wait(60)
        gathered = list(self._board)
        self._barrier.wait(60)
        return gathered

    def bcast(self, data: bytes, root: int, /) -> bytes:
        return self.allgather(data)[root]

    def barrier(self) -> object:
        return self._barrier.wait(60)


def run_ranks(ranks: int, body: Callable[[int, ThreadedCommunicator], None]) -> None:
    """Runs `body(rank, communicator)` on a thread each; raises the first failure when all have ended."""
    barrier, board = threading.Barrier(ranks), [b""] * ranks
    failures: list[BaseException] = []

    def run(rank: int) -> None:
        try:
            body(rank, ThreadedCommunicator(rank, barrier, board))
        except BaseException as failure:  # noqa: BLE001
            failures.append(failure)
            barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
