"""Streams of failures for many independent runs at once: random ones, and a replayed trace.

A *source* describes failures; it opens a *stream* over R runs (replicas). The stream shows the time of every run's
next failure as one array, and hands out a *strike* when some of them happen: the level that the failure demands,
and the nodes that it takes. Times are seconds since the start of the run, failures happen in wall-clock time
whether the application computes, checkpoints or recovers, and the processes start in their steady state.
[Sato 2.2, tables 2.3 and 2.4; correlated failures: 3.4.1]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kedge.plan.distributions import GapDistribution
from kedge.plan.errors import PlanError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Strike:
    """Failures of some runs at their next failure times.

    ``levels``: shape (n,), index of the lowest level that a failure leaves usable by decree (0: any).
    ``rows``, ``nodes``: shape (m,): node ``nodes[j]`` of the run at position ``rows[j]`` (into the n) is lost.
    ``node_counts``: shape (n,), number of nodes that each failure takes, known or not by name.
    """

    levels: IntArray
    rows: IntArray
    nodes: IntArray
    node_counts: IntArray


class FailureStream(Protocol):
    """Failures of R runs. ``next_seconds`` (shape (R,)) is for reading only and changes with ``take``."""

    next_seconds: FloatArray

    def take(self, runs: IntArray) -> Strike:
        """The next failure of each of ``runs`` (indices, each once) happens; their next times move on."""
        ...


class FailureSource(Protocol):
    """A description of failures from which a stream over many runs can be opened."""

    def open(self, rng: np.random.Generator, runs: int) -> FailureStream:
        """A stream over ``runs`` runs in the steady state; it draws from ``rng`` alone."""
        ...


@dataclass(frozen=True)
class FailureKind:
    """One renewal process of failures of the whole system.

    ``gap``: the time between two failures of this kind anywhere in the system.
    ``level``: index of the lowest level that survives it by decree; 0: the nodes it takes decide.
    ``domain_nodes``: consecutive nodes taken at once (1 node, 4 on a power supply, 30 in a rack); 0: no node lost,
    only processes.
    """

    name: str
    gap: GapDistribution
    level: int = 0
    domain_nodes: int = 0

    def __post_init__(self) -> None:
        if self.level < 0:
            raise PlanError(f"failure {self.name}: level", self.level, "a whole number of at least 0")
        if self.domain_nodes < 0:
            raise PlanError(f"failure {self.name}: domain_nodes", self.domain_nodes, "a whole number of at least 0")


@dataclass(frozen=True)
class RandomFailures:
    """Independent renewal processes, one per kind, on a system of ``nodes`` nodes (0: nodes do not matter)."""

    kinds: tuple[FailureKind, ...]
    nodes: int = 0

    def __post_init__(self) -> None:
        for kind in self.kinds:
            if self.nodes and kind.domain_nodes > self.nodes:
                raise PlanError(
                    f"failure {kind.name}: domain_nodes", kind.domain_nodes, f"at most nodes = {self.nodes}"
                )

    def open(self, rng: np.random.Generator, runs: int) -> FailureStream:
        return _RandomStream(self, rng, runs)


class _RandomStream:
    """Keeps the next failure of every (run, kind) pair; a run's next failure is the least of its row."""

    def __init__(self, source: RandomFailures, rng: np.random.Generator, runs: int) -> None:
        self._kinds = source.kinds
        self._nodes = source.nodes
        self._rng = rng
        self._levels = np.array([kind.level for kind in source.kinds], dtype=np.int64)
        self._pending = np.full((runs, max(len(source.kinds), 1)), np.inf)
        for column, kind in enumerate(source.kinds):
            self._pending[:, column] = kind.gap.sample_residual(rng, runs)
        self.next_seconds: FloatArray = self._pending.min(axis=1)

    def take(self, runs: IntArray) -> Strike:
        pending = self._pending[runs]
        kinds = pending.argmin(axis=1)
        rows: list[IntArray] = []
        nodes: list[IntArray] = []
        node_counts = np.zeros(runs.shape, dtype=np.int64)
        for column, kind in enumerate(self._kinds):
            (hit,) = np.nonzero(kinds == column)
            if hit.size == 0:
                continue
            pending[hit, column] += kind.gap.sample(self._rng, hit.size)
            if kind.domain_nodes and self._nodes:
                hit_rows, hit_nodes = self._domain(kind.domain_nodes, hit)
                rows.append(hit_rows)
                nodes.append(hit_nodes)
                node_counts += np.bincount(hit_rows, minlength=runs.size)
            else:
                node_counts[hit] = kind.domain_nodes
        self._pending[runs] = pending
        self.next_seconds[runs] = pending.min(axis=1)
        none = np.empty(0, dtype=np.int64)
        return Strike(
            self._levels[kinds],
            np.concatenate(rows) if rows else none,
            np.concatenate(nodes) if nodes else none,
            node_counts,
        )

    def _domain(self, size: int, hit: IntArray) -> tuple[IntArray, IntArray]:
        """A domain of ``size`` nodes drawn for each position of ``hit``; the last domain may be smaller."""
        domains = -(-self._nodes // size)
        first = self._rng.integers(0, domains, hit.size) * size
        nodes = (first[:, None] + np.arange(size)).ravel()
        rows = np.repeat(hit, size)
        inside = nodes < self._nodes
        return rows[inside], nodes[inside]


@dataclass(frozen=True)
class TraceFailures:
    """Recorded failures, replayed.

    ``seconds``: ascending times, shape (n,), each in [0, span_seconds]; ``nodes``: the nodes of each failure (n
    arrays, possibly empty); ``levels``: shape (n,), as in Strike.levels. Every run starts at a random moment of the
    trace, which repeats when it ends; with ``random_phase`` off, all start at its beginning.
    """

    seconds: FloatArray
    nodes: Sequence[IntArray]
    levels: IntArray
    span_seconds: float
    random_phase: bool = True

    def __post_init__(self) -> None:
        count = self.seconds.size
        if count == 0:
            raise PlanError("trace", (), "at least one failure")
        if len(self.nodes) != count or self.levels.size != count:
            raise PlanError(
                "trace", (count, len(self.nodes), self.levels.size), "as many times as node lists and levels"
            )
        if np.any(np.diff(self.seconds) < 0) or self.seconds[0] < 0:
            raise PlanError("trace.seconds", float(self.seconds[0]), "ascending times from 0 on")
        if not self.span_seconds >= self.seconds[-1]:
            raise PlanError(
                "span_seconds", self.span_seconds, f"at least the time of the last failure, {self.seconds[-1]:g} s"
            )

    def open(self, rng: np.random.Generator, runs: int) -> FailureStream:
        return _TraceStream(self, rng, runs)


class _TraceStream:
    """Keeps a position in the trace per run, and how many times the run has gone round."""

    def __init__(self, source: TraceFailures, rng: np.random.Generator, runs: int) -> None:
        self._source = source
        phase = rng.random(runs) * source.span_seconds if source.random_phase else np.zeros(runs)
        first = np.searchsorted(source.seconds, phase, side="left")
        self._offset = np.where(first == source.seconds.size, source.span_seconds, 0.0) - phase
        self._index = first % source.seconds.size
        self._starts = np.concatenate([[0], np.cumsum([nodes.size for nodes in source.nodes])])
        self._flat = np.concatenate([*source.nodes, np.empty(0, dtype=np.int64)]).astype(np.int64)
        self.next_seconds: FloatArray = source.seconds[self._index] + self._offset

    def take(self, runs: IntArray) -> Strike:
        source = self._source
        index = self._index[runs]
        counts = self._starts[index + 1] - self._starts[index]
        rows = np.repeat(np.arange(runs.size, dtype=np.int64), counts)
        within = np.arange(rows.size) - np.repeat(np.cumsum(counts) - counts, counts)
        nodes = self._flat[self._starts[index][rows] + within]
        following = index + 1
        around = following == source.seconds.size
        self._offset[runs] += np.where(around, source.span_seconds, 0.0)
        self._index[runs] = np.where(around, 0, following)
        self.next_seconds[runs] = source.seconds[self._index[runs]] + self._offset[runs]
        return Strike(source.levels[index], rows, nodes, counts.astype(np.int64))
