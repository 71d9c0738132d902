"""Many independent calculations over several processes, with a progress bar.

The order of the answers is the order of the tasks, and an answer depends on its task alone, so that the number of
processes changes nothing but the time.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from typing import TextIO, TypeVar

Task = TypeVar("Task")
Answer = TypeVar("Answer")

REDRAW_SECONDS = 0.1
BAR_WIDTH = 30


class Progress:
    """A bar on ``stream`` (stderr unless said), drawn only where that is a terminal; ``label`` stands before it."""

    def __init__(self, label: str, stream: TextIO | None = None) -> None:
        self._label = label
        self._stream = stream if stream is not None else sys.stderr
        self._shown = self._stream.isatty()
        self._started = time.monotonic()
        self._drawn = 0.0

    def update(self, done: int, total: int) -> None:
        """``done`` of ``total`` tasks are done; the last update ends the line."""
        now = time.monotonic()
        if not self._shown or total == 0 or (done < total and now - self._drawn < REDRAW_SECONDS):
            return
        self._drawn = now
        filled = BAR_WIDTH * done // total
        left = (now - self._started) / done * (total - done) if done else 0.0
        bar = "#" * filled + "." * (BAR_WIDTH - filled)
        end = "\n" if done == total else ""
        self._stream.write(f"\r{self._label} [{bar}] {done}/{total}, {left:.0f} s left {end}")
        self._stream.flush()


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))


def map_parallel(
    function: Callable[[Task], Answer],
    tasks: Sequence[Task],
    *,
    processes: int = 1,
    progress: Progress | None = None,
) -> list[Answer]:
    """``function`` of every task, in their order. With several processes both must be picklable.

    The first exception ends it and is raised; tasks not yet begun are dropped.
    """
    workers = min(max(processes, 1), len(tasks))
    if workers <= 1:
        answers = []
        for task in tasks:
            answers.append(function(task))
            if progress is not None:
                progress.update(len(answers), len(tasks))
        return answers
    # Not forked: the parent may have threads (NumPy's).
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = [pool.submit(function, task) for task in tasks]
        done = 0
        waiting = set(futures)
        try:
            while waiting:
                finished, waiting = wait(waiting, timeout=REDRAW_SECONDS, return_when=FIRST_EXCEPTION)
                for future in finished:
                    future.result()
                done += len(finished)
                if progress is not None and finished:
                    progress.update(done, len(tasks))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
        return [future.result() for future in futures]
