"""How many staging nodes a system should have ([Sato] 3.5.2, 3.5.4): pure arithmetic over `System`.

Staging nodes read checkpoints and write them to the store. More of them read more slowly each, which disturbs the
application less, and compute nothing themselves; fewer may not keep up with the store.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

from kedge.plan.errors import PlanError
from kedge.plan.model import Evaluation
from kedge.plan.optimum import optimum
from kedge.plan.system import Staging, System


@dataclass(frozen=True)
class Choice:
    """A number of staging nodes, and what follows from it.

    ``read_bytes_per_second``: of one staging node. ``efficiency``: of the compute nodes, with the best schedule.
    ``efficiency_of_all``: the same work over the time of all nodes, staging nodes among them.
    """

    nodes: int
    compute_nodes_each: float
    read_bytes_per_second: float
    alpha: float
    store_seconds: float
    best: Evaluation
    efficiency: float
    efficiency_of_all: float


def choices(system: System, counts: Sequence[int], node_bytes_per_second: float = math.inf) -> list[Choice]:
    """One for each of ``counts``; ``node_bytes_per_second``: what one staging node can read and write at most.

    Raises PlanError for a system without [staging] or nodes, or whose last level is not asynchronous.
    """
    staging, compute_nodes = system.staging, system.nodes
    if staging is None:
        raise PlanError("staging", None, "a [staging] table in the system")
    if compute_nodes is None:
        raise PlanError("nodes", None, "the system's compute nodes")
    last = system.levels[-1]
    if not last.asynchronous:
        raise PlanError("level", last.name, "asynchronous = true for the level that staging nodes write")
    checkpoint_bytes = (last.latency_seconds - last.overhead_seconds) * staging.store_write_bytes_per_second
    found = []
    near: Evaluation | None = None
    for nodes in counts:
        rate = min(staging.store_write_bytes_per_second, nodes * node_bytes_per_second)
        there = Staging(nodes, rate, staging.alpha_seconds_per_gigabyte)
        seconds = checkpoint_bytes / rate
        changed = dataclasses.replace(system, alpha=there.alpha, staging=there).replace_level(
            len(system.levels) - 1, latency_seconds=last.overhead_seconds + seconds
        )
        near = optimum(changed, near=near)
        share = compute_nodes / (compute_nodes + nodes)
        found.append(
            Choice(nodes, compute_nodes / nodes, there.read_bytes_per_second, there.alpha, seconds, near,
                   near.efficiency, near.efficiency * share)
        )  # fmt: skip
    return found


def usual_counts(compute_nodes: int) -> list[int]:
    """From one staging node for 1024 compute nodes to one for four, doubling."""
    least = max(1, compute_nodes // 1024)
    counts = [least]
    while counts[-1] * 2 <= max(1, compute_nodes // 4):
        counts.append(counts[-1] * 2)
    return counts


def recommended(found: Sequence[Choice], alpha_max: float = math.inf) -> Choice | None:
    """The one with which all nodes together are used best, among those that slow computing by no more; None: none."""
    allowed = [choice for choice in found if choice.alpha <= alpha_max]
    return max(allowed, key=lambda choice: choice.efficiency_of_all, default=None)
