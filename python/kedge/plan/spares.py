"""Spare nodes: how long a relaunch waits for replacements.

A pool of S spares is kept as S times, per run, at which each of them is (or will be) usable. A failure that takes n
nodes at time t takes the n earliest of them; the broken nodes come back, repaired, at t + repair, and may be what
the run waits for when the pool is empty.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kedge.plan.errors import PlanError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class SparePool:
    """Spares of R independent runs. ``spares`` may be 0: every loss waits for its own repair."""

    def __init__(self, runs: int, spares: int, repair_seconds: float) -> None:
        if spares < 0:
            raise PlanError("spares", spares, "a whole number of at least 0")
        if not repair_seconds >= 0:
            raise PlanError("repair_seconds", repair_seconds, "a number of at least 0")
        self._repair_seconds = repair_seconds
        self._usable = np.zeros((runs, spares))

    def replace(self, runs: IntArray, seconds: FloatArray, nodes: IntArray) -> FloatArray:
        """Replace ``nodes[i]`` nodes of run ``runs[i]`` lost at ``seconds[i]``; each run at most once in a call.

        Returns the time at which all replacements are usable, shape of ``runs``, at least ``seconds``.
        """
        ready = seconds.copy()
        for count in np.unique(nodes):
            if count == 0:
                continue
            (rows,) = np.nonzero(nodes == count)
            repaired = np.repeat((seconds[rows] + self._repair_seconds)[:, None], count, axis=1)
            pool = np.sort(np.concatenate([self._usable[runs[rows]], repaired], axis=1), axis=1)
            ready[rows] = np.maximum(seconds[rows], pool[:, count - 1])
            self._usable[runs[rows]] = pool[:, count:]
        return ready
