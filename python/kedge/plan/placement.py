"""Which losses of nodes a level survives: nodes placed into redundancy groups.

A level's protection is a map from nodes to groups and a tolerance: the level's checkpoints survive as long as no
group has lost more than ``tolerance`` members. Losses add up from a failure until the recovery after it has ended,
which is when the lost parts have been built anew: two losses in one XOR group within that window are fatal for the
level, two in different groups are not.
[Sato 2.2, 2.3.1, 3.4.2]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kedge.plan.errors import PlanError

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

GROUP_LAYOUTS = ("adjacent", "spread")


@dataclass(frozen=True)
class Protection:
    """How one level's checkpoints lie on the nodes.

    ``group_nodes``: members of a group; 0: one group of all nodes (a node-local level with tolerance 0).
    ``tolerance``: losses in one group that the level survives; None: survives any loss (external storage).
    ``layout``: "adjacent" puts neighbouring nodes into one group, "spread" puts them into different ones, so that
    what fails together (a power supply, a rack) hits as few members of each group as can be.
    """

    group_nodes: int = 0
    tolerance: int | None = None
    layout: str = "spread"

    def __post_init__(self) -> None:
        if self.group_nodes < 0:
            raise PlanError("group_nodes", self.group_nodes, "a whole number of at least 0 (0: one group of all nodes)")
        if self.tolerance is not None and self.tolerance < 0:
            raise PlanError(
                "tolerance",
                self.tolerance,
                "a whole number of at least 0, the losses in a group that the level survives",
            )
        if self.layout not in GROUP_LAYOUTS:
            raise PlanError("layout", self.layout, f"one of {', '.join(GROUP_LAYOUTS)}")

    def group_of_node(self, nodes: int) -> IntArray:
        """Group index of each node; shape (nodes,)."""
        index = np.arange(nodes, dtype=np.int64)
        if self.group_nodes == 0:
            return np.zeros(nodes, dtype=np.int64)
        if self.layout == "adjacent":
            return index // self.group_nodes
        groups = -(-nodes // self.group_nodes)
        return index % groups


@dataclass(frozen=True)
class Placement:
    """The job's nodes, and the protection of each level from the fastest up; the last must survive everything."""

    nodes: int
    protections: tuple[Protection, ...]

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise PlanError("nodes", self.nodes, "a whole number of at least 1")
        if not self.protections:
            raise PlanError("protection", (), "one protection per level")
        if self.protections[-1].tolerance is not None:
            raise PlanError(
                "tolerance",
                self.protections[-1].tolerance,
                "left out on the highest level: it survives every loss of nodes",
            )
        for protection in self.protections:
            if protection.group_nodes > self.nodes:
                raise PlanError("group_nodes", protection.group_nodes, f"at most nodes = {self.nodes}")


class Damage:
    """The nodes lost and not yet rebuilt, in each of ``replicas`` independent runs, and what they cost.

    Owns two arrays per level with a tolerance: (replicas, groups) losses, and once (replicas, nodes) lost or not.
    """

    def __init__(self, placement: Placement, replicas: int) -> None:
        self._levels = len(placement.protections)
        self._tolerances = [protection.tolerance for protection in placement.protections]
        self._groups = [protection.group_of_node(placement.nodes) for protection in placement.protections]
        self._losses = [
            np.zeros((replicas, int(groups.max()) + 1), dtype=np.int32) if tolerance is not None else None
            for groups, tolerance in zip(self._groups, self._tolerances, strict=True)
        ]
        self._lost = np.zeros((replicas, placement.nodes), dtype=np.bool_)

    def strike(self, replicas: IntArray, nodes: IntArray) -> None:
        """Node ``nodes[i]`` of run ``replicas[i]`` is lost, for every i; a node lost already changes nothing."""
        if replicas.size == 0:
            return
        pairs = np.unique(replicas * self._lost.shape[1] + nodes)
        rows, columns = np.divmod(pairs, self._lost.shape[1])
        fresh = ~self._lost[rows, columns]
        rows, columns = rows[fresh], columns[fresh]
        self._lost[rows, columns] = True
        for groups, losses in zip(self._groups, self._losses, strict=True):
            if losses is not None:
                np.add.at(losses, (rows, groups[columns]), 1)

    def lowest_surviving_level(self, replicas: IntArray) -> IntArray:
        """Index (0 is the fastest) of the lowest level that survives the losses of each run; shape of ``replicas``.

        Level k serves only if its own groups hold: a level above may hold although one below it does not, never the
        other way round, because the answer is the lowest k such that k itself survives.
        """
        lowest = np.full(replicas.shape, self._levels - 1, dtype=np.int64)
        for level in range(self._levels - 2, -1, -1):
            tolerance, losses = self._tolerances[level], self._losses[level]
            if tolerance is None or losses is None:
                lowest[:] = level
                continue
            survives = losses[replicas].max(axis=1) <= tolerance
            lowest[survives] = level
        return lowest

    def rebuilt(self, replicas: IntArray) -> None:
        """The recoveries of these runs ended: nothing is missing any more."""
        self._lost[replicas] = False
        for losses in self._losses:
            if losses is not None:
                losses[replicas] = 0
