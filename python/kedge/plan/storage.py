"""The recursive storage model: levels derived from sizes, bandwidths and encoding rates ([Sato] 4.5).

A tier i entity H_i holds one storage S_i shared by m_i entities of tier i-1; H_0 is a compute node. The
architecture H_N{m_1, ..., m_N} has M = m_1 ... m_N compute nodes, and tier i has prod(m_k, k > i) storage
locations. Throughput at a location is divided evenly among the nodes that use it at the same time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kedge.plan import checks
from kedge.plan.errors import PlanError
from kedge.plan.level import Level

STORAGE_KEYS = ("checkpoint_bytes_per_node", "cluster_nodes", "tier")
TIER_KEYS = (
    "name",
    "shared_by",
    "read_bytes_per_second",
    "write_bytes_per_second",
    "encode_bytes_per_second",
    "failure_rate_per_second",
    "asynchronous",
    "initialization_seconds",
    "files_per_node",
    "file_creates_per_second",
)


@dataclass(frozen=True)
class StorageTier:
    """One tier of the storage hierarchy; the level of the same index is stored there.

    ``shared_by`` is m_i. The bandwidths are those of one storage location as the compute nodes see it, bytes
    a second. ``encode_bytes_per_second`` (e_i) is a node's encoding throughput, None where nothing is encoded.
    ``initialization_seconds`` (I_i) is the blocked time of an asynchronous checkpoint; None stands for the overhead of
    the tier below, where the copy starts from ([Sato] 3.3.3), 0 for the lowest tier. Each location creates
    ``file_creates_per_second`` files (None: no limit) when every node writes ``files_per_node`` of them; one
    file per process makes that term grow with the nodes, aggregation divides it (beyond [Sato]).
    """

    name: str
    shared_by: int
    read_bytes_per_second: float
    write_bytes_per_second: float
    failure_rate_per_second: float
    asynchronous: bool = False
    encode_bytes_per_second: float | None = None
    initialization_seconds: float | None = None
    files_per_node: float = 0.0
    file_creates_per_second: float | None = None


@dataclass(frozen=True)
class Storage:
    """A storage hierarchy, fastest tier first, and what each node writes to it.

    ``checkpoint_bytes_per_node`` is D. ``cluster_nodes`` is K, the nodes that restart after a failure with
    uncoordinated checkpoints; None means coordinated: all M nodes restart.
    """

    checkpoint_bytes_per_node: float
    tiers: tuple[StorageTier, ...]
    cluster_nodes: int | None = None

    @property
    def nodes(self) -> int:
        """M, the number of compute nodes."""
        return math.prod(tier.shared_by for tier in self.tiers)

    def locations(self, index: int) -> int:
        """How many storage locations tier `index` (from 0) has: the product of the m_k above it."""
        return math.prod(tier.shared_by for tier in self.tiers[index + 1 :])

    def nodes_per_location(self, index: int, nodes: int) -> int:
        """The most nodes that share one location of tier `index` when `nodes` of them are spread evenly."""
        return -(-nodes // self.locations(index))

    def write_seconds(self, index: int) -> float:
        """C_i: writing all checkpoints to tier `index`, with the term for creating files."""
        tier = self.tiers[index]
        sharing = self.nodes_per_location(index, self.nodes)
        seconds = self.checkpoint_bytes_per_node * sharing / tier.write_bytes_per_second
        if tier.file_creates_per_second is not None:
            seconds += tier.files_per_node * sharing / tier.file_creates_per_second
        return seconds

    def encode_seconds(self, index: int) -> float:
        """E_i = D / e_i, or 0 where the tier does not encode."""
        rate = self.tiers[index].encode_bytes_per_second
        return self.checkpoint_bytes_per_node / rate if rate is not None else 0.0

    def restart_seconds(self, index: int) -> float:
        """R_i: reading the checkpoints of the K (or all M) restarting nodes from tier `index`."""
        restarting = self.nodes if self.cluster_nodes is None else self.cluster_nodes
        sharing = self.nodes_per_location(index, restarting)
        return self.checkpoint_bytes_per_node * sharing / self.tiers[index].read_bytes_per_second

    def overhead_seconds(self, index: int) -> float:
        """O_i: C_i + E_i where synchronous, else I_i (by default the overhead of the tier below)."""
        tier = self.tiers[index]
        latency = self.write_seconds(index) + self.encode_seconds(index)
        if not tier.asynchronous:
            return latency
        if tier.initialization_seconds is None:
            return min(latency, self.overhead_seconds(index - 1)) if index > 0 else 0.0
        if tier.initialization_seconds > latency:
            key = f"storage.tier[{index}].initialization_seconds"
            raise PlanError(key, tier.initialization_seconds, f"at most the latency, {latency:g}")
        return tier.initialization_seconds

    def levels(self) -> tuple[Level, ...]:
        """The levels: O_i, L_i = C_i + E_i, and R_i."""
        return tuple(
            Level(
                name=tier.name,
                overhead_seconds=self.overhead_seconds(index),
                latency_seconds=self.write_seconds(index) + self.encode_seconds(index),
                restart_seconds=self.restart_seconds(index),
                failure_rate_per_second=tier.failure_rate_per_second,
                asynchronous=tier.asynchronous,
            )
            for index, tier in enumerate(self.tiers)
        )


def _parse_tier(table: checks.Table, prefix: str) -> StorageTier:
    checks.refuse_unknown(table, TIER_KEYS, prefix)
    asynchronous = checks.flag(table, "asynchronous", prefix, default=False)
    if "initialization_seconds" in table and not asynchronous:
        key = checks.path_of(prefix, "initialization_seconds")
        raise PlanError(key, table["initialization_seconds"], "a key of asynchronous tiers (asynchronous = true)")
    encodes = "encode_bytes_per_second" in table
    creates = "file_creates_per_second" in table
    return StorageTier(
        name=checks.text(table, "name", prefix),
        shared_by=checks.whole(table, "shared_by", prefix),
        read_bytes_per_second=checks.number(table, "read_bytes_per_second", prefix, low_open=True),
        write_bytes_per_second=checks.number(table, "write_bytes_per_second", prefix, low_open=True),
        failure_rate_per_second=checks.number(table, "failure_rate_per_second", prefix),
        asynchronous=asynchronous,
        encode_bytes_per_second=checks.number(table, "encode_bytes_per_second", prefix, low_open=True)
        if encodes
        else None,
        initialization_seconds=checks.number(table, "initialization_seconds", prefix)
        if "initialization_seconds" in table
        else None,
        files_per_node=checks.number(table, "files_per_node", prefix, default=1.0 if creates else 0.0),
        file_creates_per_second=checks.number(table, "file_creates_per_second", prefix, low_open=True)
        if creates
        else None,
    )


def parse_storage(table: checks.Table, prefix: str = "storage") -> Storage:
    """The ``[storage]`` table with its ``[[storage.tier]]`` entries."""
    checks.refuse_unknown(table, STORAGE_KEYS, prefix)
    entries = checks.tables(table, "tier", prefix)
    if not entries:
        raise PlanError(f"{prefix}.tier", None, "at least one [[storage.tier]] table, the fastest tier first")
    tiers = tuple(_parse_tier(entry, f"{prefix}.tier[{index}]") for index, entry in enumerate(entries))
    storage = Storage(
        checkpoint_bytes_per_node=checks.number(table, "checkpoint_bytes_per_node", prefix, low_open=True),
        tiers=tiers,
        cluster_nodes=checks.whole(table, "cluster_nodes", prefix) if "cluster_nodes" in table else None,
    )
    if storage.cluster_nodes is not None and storage.cluster_nodes > storage.nodes:
        raise PlanError(f"{prefix}.cluster_nodes", storage.cluster_nodes, f"from 1 to all {storage.nodes} nodes")
    return storage
