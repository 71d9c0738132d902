"""Groups of nodes that protect each other (level 2): which losses they survive, and how long until one that they do not.

A group of g nodes survives some sets of lost members and not others; how many sets of each size it survives is all that
the probabilities need. XOR and Reed-Solomon survive any k losses; partner copies survive every set without k + 1
members that follow each other in the ring (a node and all holders of its copies). Failures of nodes are taken as
independent: what fails together is one failure domain, of which a group never holds two nodes, so the loss of a whole
domain costs each group one member at most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kedge.plan.checks import check_number
from kedge.plan.errors import PlanError

SCHEMES = ("none", "partner", "xor", "rs")


@dataclass(frozen=True)
class Protection:
    """A scheme and its strength: `losses` a group that any choice of nodes may have (partner: the copies)."""

    scheme: str
    losses: int = 1

    def __post_init__(self) -> None:
        if self.scheme not in SCHEMES:
            raise PlanError("scheme", self.scheme, f"one of {', '.join(SCHEMES)}")
        if self.scheme == "none" and self.losses != 0:
            raise PlanError("losses", self.losses, "0 with the scheme none")
        if self.scheme != "none" and (isinstance(self.losses, bool) or self.losses < 1):
            raise PlanError("losses", self.losses, "a whole number of at least 1")
        if self.scheme == "xor" and self.losses != 1:
            raise PlanError("losses", self.losses, "1 with the scheme xor")


def group_sizes(nodes: int, group_nodes: int, losses: int) -> list[int]:
    """The sizes that the runtime makes of `nodes` nodes, each a failure domain of its own: as many groups as come
    nearest to `group_nodes`, none of them too small for `losses`, sizes that differ by one at most."""
    if nodes < losses + 1:
        raise PlanError("nodes", nodes, f"at least {losses + 1} for {losses} losses a group")
    if group_nodes < losses + 1:
        raise PlanError("group_nodes", group_nodes, f"at least {losses + 1} for {losses} losses a group")
    count = min(max((nodes + group_nodes // 2) // group_nodes, 1), nodes // (losses + 1))
    return [nodes // count + (index < nodes % count) for index in range(count)]


def extra_share(protection: Protection, group_nodes: int) -> float:
    """Extra bytes for each byte of the largest image: k, 1 / (g - 1), k / (g - k)."""
    if protection.scheme in ("none", "partner"):
        return float(protection.losses)
    return protection.losses / (group_nodes - protection.losses)


def survived_sets(protection: Protection, group_nodes: int) -> list[int]:
    """Entry j: how many of the sets of j lost members of one group are survived, for j = 0 to group_nodes."""
    if protection.scheme == "partner":
        return [_without_run(group_nodes, lost, protection.losses + 1) for lost in range(group_nodes + 1)]
    return [
        math.comb(group_nodes, lost) if lost <= protection.losses else 0 for lost in range(group_nodes + 1)
    ]


def survival_of_simultaneous_losses(protection: Protection, sizes: Sequence[int], lost: int) -> float:
    """The probability that `lost` nodes of all, chosen at random and lost at once, are survived by all groups."""
    ways = [1]
    for size in sizes:
        survived = survived_sets(protection, size)
        product = [0] * min(len(ways) + size, lost + 1)
        for i, a in enumerate(ways):
            for j, b in enumerate(survived[: len(product) - i]):
                product[i + j] += a * b
        ways = product
    return ways[lost] / math.comb(sum(sizes), lost) if lost < len(ways) else 0.0


def loss_rate_per_second(
    protection: Protection, sizes: Sequence[int], node_mtbf_seconds: float, window_seconds: float
) -> float:
    """How often a failure begins that level 2 does not survive.

    After a node is lost its group is weaker for `window_seconds`: until the job has restarted and is protected anew.
    A loss is a set of failures of one group, within the window that its first one opens, that the scheme does not
    survive: sum over groups of g / MTBF times (1 - P(the others' failures, with the first, are survived)).
    """
    check_number(node_mtbf_seconds, "node_mtbf_seconds", low_open=True)
    check_number(window_seconds, "window_seconds")
    within = -math.expm1(-window_seconds / node_mtbf_seconds)
    rate = 0.0
    for size in sizes:
        survived = survived_sets(protection, size)
        # Of the sets of j members, j / size hold a given one. Summed over what is not survived: the sum of what is
        # would be so near to one that its difference to one is lost.
        unsurvived = math.fsum(
            (math.comb(size, j) - survived[j]) * j / size * within ** (j - 1) * (1.0 - within) ** (size - j)
            for j in range(1, size + 1)
        )
        rate += size / node_mtbf_seconds * unsurvived
    return rate


def _without_run(length: int, ones: int, run: int) -> int:
    """Rings of `length` places (of which one is marked) with `ones` ones and nowhere `run` ones in a row."""
    if ones == 0:
        return 1
    if ones == length or run <= 1:
        return 0
    # Cut the ring at its zeros: `zeros` gaps of fewer than `run` ones each, which add up to `ones`. Each of the
    # length rotations of each of them has a zero in `zeros` of its places.
    zeros = length - ones
    gaps = _compositions(ones, zeros, run - 1)
    return gaps * length // zeros


def _compositions(total: int, parts: int, part_max: int) -> int:
    """Ways to write `total` as an ordered sum of `parts` numbers of 0 to `part_max`."""
    return sum(
        (-1) ** i * math.comb(parts, i) * math.comb(total - i * (part_max + 1) + parts - 1, parts - 1)
        for i in range(min(parts, total // (part_max + 1)) + 1)
    )
