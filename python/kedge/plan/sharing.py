"""What a version takes in the store, and how long it takes there, by what is shared (reduce.deduplicate): pure arithmetic.

The cost of agreeing on common blocks is that of [Dedup]'s reduction: the most frequent blocks of all nodes go up a tree and down
again, so it grows with the logarithm of the nodes, and with the number of blocks that they agree on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from kedge.plan.errors import PlanError

SCOPES = ("off", "rank", "node", "job")
# Of a block on its way: fingerprint, count, two owners. And what a core takes to merge one (docs/performance.md).
ENTRY_BYTES = 24
MERGE_SECONDS = 100e-9
# Of other nodes' blocks, an image refers to those in at most so many objects.
OBJECTS_MAX = 64


@dataclass(frozen=True)
class Content:
    """What a rank's image consists of, as parts of its bytes; what is left is the rank's own.

    ``zeros``: blocks of zeros. ``copies``: of an earlier block of the image. ``of_node``: what all ranks of a node have, and no other
    node. ``of_job``: what all ranks have. ``unchanged``: of all but zeros, what the version before has (reduce.incremental; 0: that
    is off). Raises PlanError for parts out of range.
    """

    zeros: float = 0.0
    copies: float = 0.0
    of_node: float = 0.0
    of_job: float = 0.0
    unchanged: float = 0.0

    def __post_init__(self) -> None:
        for key in fields(self):
            value = getattr(self, key.name)
            if not 0 <= value <= 1:
                raise PlanError(key.name, value, "a part from 0 to 1")
        if self.own < -1e-9:
            raise PlanError("zeros, copies, of_node and of_job", 1 - self.own, "at most 1 together")

    @property
    def own(self) -> float:
        """What no other rank has."""
        return 1 - self.zeros - self.copies - self.of_node - self.of_job


@dataclass(frozen=True)
class Machine:
    """``node_bytes_per_second``: what a node writes to the store alone; ``store_bytes_per_second``: what the store takes of all nodes.

    ``look_bytes_per_second``: how fast a node reads its images and takes fingerprints. ``message_seconds`` and
    ``network_bytes_per_second``: of a message between nodes.
    """

    nodes: int
    ranks_per_node: int
    store_bytes_per_second: float
    node_bytes_per_second: float = math.inf
    look_bytes_per_second: float = 2.5e9
    message_seconds: float = 20e-6
    network_bytes_per_second: float = 1e9


@dataclass(frozen=True)
class Choice:
    """What follows from a scope: bytes of a version, and seconds from its capture until it is in the store."""

    scope: str
    stored_bytes: float
    most_loaded_node_bytes: float
    reduction_seconds: float  # until the nodes have agreed on common blocks
    seconds: float


def reduction_seconds(nodes: int, blocks: float, machine: Machine) -> float:
    """Up the tree of ``nodes`` with ``blocks`` each, and down again."""
    levels = math.floor(math.log2(nodes)) if nodes > 1 else 0
    message = machine.message_seconds + blocks * ENTRY_BYTES / machine.network_bytes_per_second
    return levels * (2 * message + 2 * blocks * MERGE_SECONDS)


def choices(content: Content, machine: Machine, image_bytes: float, block_bytes: float, common_most: float) -> list[Choice]:
    """One for each of SCOPES. ``image_bytes``: of a rank. ``common_most``: reduce.common."""
    ranks, changed = machine.ranks_per_node, 1 - content.unchanged
    own, of_node, of_job = (part * image_bytes * changed for part in (content.own, content.of_node, content.of_job))
    blocks = (ranks * own + of_node + of_job) / block_bytes
    # Of more blocks than go into a message the most frequent ones do: those that all ranks of the node have, then others.
    frequent = of_job + of_node if ranks > 1 else of_job + of_node + own
    found = min(1.0, common_most * block_bytes / frequent) if frequent > 0 else 0.0
    # A node's images refer to as many objects as they may, each with an equal part.
    found *= min(1.0, OBJECTS_MAX / machine.nodes)
    all_bytes = image_bytes * ((1 - content.zeros) * changed if content.unchanged > 0 else 1.0)
    by_node = {
        "off": ranks * all_bytes,
        "rank": ranks * (own + of_node + of_job),
        "node": ranks * own + of_node + of_job,
        "job": ranks * own + of_node + of_job * (1 - found + found / machine.nodes),
    }
    answer = []
    for scope in SCOPES:
        agreed = reduction_seconds(machine.nodes, min(blocks, common_most), machine) if scope == "job" else 0.0
        looks = scope != "off" or content.unchanged > 0
        looked = ranks * image_bytes / machine.look_bytes_per_second if looks else 0.0
        written = max(by_node[scope] / machine.node_bytes_per_second, machine.nodes * by_node[scope] / machine.store_bytes_per_second)
        # Looking goes on beside writing, but for what nodes agree on before.
        seconds = looked + agreed + max(looked, written) if scope == "job" else max(looked, written)
        answer.append(Choice(scope, machine.nodes * by_node[scope], by_node[scope], agreed, seconds))
    return answer


def content_of(version: Mapping[str, Any], ranks_per_node: int) -> Content:
    """Of a version that was taken with reduce.deduplicate = job, as ``kedge inspect --brief --json`` tells of it.

    Raises PlanError where it does not.
    """
    try:
        images = version["images"]
        total = {part: sum(image[f"{part}_bytes"] for image in images) for part in ("zero", "copied", "borrowed", "common", "shared")}
        whole = sum(image["bytes"] for image in images)
    except (KeyError, TypeError):
        raise PlanError("--version", "the file", "what kedge inspect --brief --json prints") from None
    if whole <= 0:
        raise PlanError("--version", whole, "a version with bytes")
    # Of what the ranks of a node have, one has written it as its own.
    of_node = total["borrowed"] * ranks_per_node / (ranks_per_node - 1) if ranks_per_node > 1 else 0.0
    left = whole - total["zero"] - total["copied"]
    unchanged = total["shared"] / left if left > 0 else 0.0
    grown = 1 / (1 - unchanged) if unchanged < 1 else 0.0  # parts are of the whole, as though nothing had been unchanged
    return Content(
        zeros=total["zero"] / whole,
        copies=total["copied"] / whole,
        of_node=min(1.0, grown * of_node / whole),
        of_job=min(1.0, grown * total["common"] / whole),
        unchanged=unchanged,
    )
