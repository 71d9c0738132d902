"""Checkpoints encoded in memory across nodes ([Sato] 5.5.2): time, space, and what unrecoverable failures allow.

The time does not depend on the number of nodes: every group of n encodes at once, each node copying, sending
and combining its own s bytes.
"""

from __future__ import annotations

import math

from kedge.plan.checks import check_number
from kedge.plan.errors import PlanError


def _check_group(group_nodes: int) -> None:
    if isinstance(group_nodes, bool) or not isinstance(group_nodes, int) or group_nodes < 2:
        raise PlanError("group_nodes", group_nodes, "a whole number of at least 2")


def xor_checkpoint_seconds(
    checkpoint_bytes: float, group_nodes: int, memory_bytes_per_second: float, network_bytes_per_second: float
) -> float:
    """s / mem (copy) + (s + s / (n - 1)) / net (the ring) + s / mem (the XOR, bound by memory)."""
    check_number(checkpoint_bytes, "checkpoint_bytes")
    check_number(memory_bytes_per_second, "memory_bytes_per_second", low_open=True)
    check_number(network_bytes_per_second, "network_bytes_per_second", low_open=True)
    _check_group(group_nodes)
    ring = checkpoint_bytes * (1.0 + 1.0 / (group_nodes - 1))
    return 2.0 * checkpoint_bytes / memory_bytes_per_second + ring / network_bytes_per_second


def xor_restart_seconds(
    checkpoint_bytes: float, group_nodes: int, memory_bytes_per_second: float, network_bytes_per_second: float
) -> float:
    """The checkpoint's time, and s / net for the new node that gathers the decoded chunks."""
    encode = xor_checkpoint_seconds(
        checkpoint_bytes, group_nodes, memory_bytes_per_second, network_bytes_per_second
    )
    return encode + checkpoint_bytes / network_bytes_per_second


def xor_extra_share(group_nodes: int) -> float:
    """Parity per byte of checkpoint, 1 / (n - 1)."""
    _check_group(group_nodes)
    return 1.0 / (group_nodes - 1)


def survival_probability(seconds: float, unrecoverable_rate_per_second: float) -> float:
    """exp(-lambda T): no unrecoverable failure for T seconds ([Sato] 5.6.3)."""
    check_number(seconds, "seconds")
    check_number(unrecoverable_rate_per_second, "unrecoverable_rate_per_second")
    return math.exp(-unrecoverable_rate_per_second * seconds)


def mtbf_seconds(failures: int, node_hours: float, nodes: int) -> float:
    """Mean time between failures of `nodes` nodes with the failure rate per node of a record ([Sato] 1.1)."""
    check_number(failures, "failures", low_open=True)
    check_number(node_hours, "node_hours", low_open=True)
    check_number(nodes, "nodes", low_open=True)
    return node_hours * 3600.0 / failures / nodes
