"""What looks at agents tell, one after the other: ``kedge status --json`` once, or ``kedge top --json`` again and again.

An agent says what is, not when it became so. So whoever looks again and again knows when: between two looks. A version that was
at a level at the first look already was so before, nobody knows when.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import Any

from kedge.report.model import Image, Moment, Node, Sample, Spent, Tier, Trouble, Version

# Who looks for weeks keeps what the pictures show. Of each node:
SAMPLES_MAX = 2000  # then every second one goes
VERSIONS_MAX = 2000  # then the oldest go that the node has no more
IMAGES_OF_MAX = 64  # newest versions whose images are known one by one
TROUBLES_MAX = 2000  # of all nodes
_COUNTED_TROUBLES = {
    "flush_failures": "flush of an image given up",
    "flush_retries": "flush of an image failed and begun anew",
    "protect_failures": "protection of a version across nodes given up",
    "images_damaged": "image on the node with other bytes than were captured",
    "tiers_lost": "tier lost: its files were deleted",
    "sessions_broken": "session of a process ended for a broken mailbox",
    "retention_failures": "round of retention failed",
    "file_publish_failures": "routed file not put to its original path",
    "net_reads_failed": "read of another node's memory failed",
}

Key = tuple[str, int, int, int]


@dataclasses.dataclass
class _Watched:
    """A version as one node has shown it."""

    version: Version
    is_first: bool  # it was there at the first look
    captured: bool = False


@dataclasses.dataclass
class _NodeLooks:
    node: Node
    pid: int
    versions: dict[Key, _Watched] = dataclasses.field(default_factory=dict)


class Looks:
    """Takes looks at any nodes in order of time; gives what they tell of one job."""

    def __init__(self, job: str, store_id: str = "") -> None:
        """`store_id` empty: of a job of that name, whatever its store."""
        self._job, self._store_id = job, store_id
        self._nodes: dict[str, _NodeLooks] = {}
        self.troubles: list[Trouble] = []

    def take(self, status: dict[str, Any]) -> None:
        """ValueError: it is no status of an agent, or has no time."""
        try:
            self._take(status)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not what `kedge status --json` prints: {error!r} is missing or wrong") from None

    def _take(self, status: dict[str, Any]) -> None:
        at_ns = int(status["wall_time_ns"])
        name = str(status["node"])
        before = self._nodes.get(name)
        if before and at_ns <= before.node.last_ns:
            return  # the same look, from two files
        entry = next((job for job in status["jobs"] if self._is_meant(job)), None)
        node = _node_of(status, entry, at_ns)
        known = before or _NodeLooks(node, int(status["pid"]))
        previous_ns = before.node.last_ns if before else None
        if before:
            node.first_ns, node.looks, node.samples = before.node.first_ns, before.node.looks + 1, before.node.samples
        same_agent = before is not None and before.pid == int(status["pid"])
        self._note_troubles(node, before.node.counters if before and same_agent else {}, at_ns if same_agent else None)
        node.samples.append(_sample_of(status, entry, at_ns))
        if len(node.samples) > SAMPLES_MAX:
            node.samples = node.samples[::2]
        known.node, known.pid = node, int(status["pid"])
        self._nodes[name] = known
        versions = entry["versions"] if entry else []
        # The oldest first, so that those that were seen first stand first.
        for version in reversed(versions):
            self._take_version(known, version, at_ns, previous_ns)
        _forget(known, {_key_of(version) for version in versions})
        del self.troubles[:-TROUBLES_MAX]

    def _is_meant(self, entry: dict[str, Any]) -> bool:
        return entry["job"] == self._job and (not self._store_id or entry["store_id"] == self._store_id)

    def _note_troubles(self, node: Node, before: dict[str, int], at_ns: int | None) -> None:
        for counter, what in _COUNTED_TROUBLES.items():
            more = node.counters.get(counter, 0) - before.get(counter, 0)
            if more > 0:
                self.troubles.append(Trouble(at_ns, what if more == 1 else f"{what} ({more} times)", f"node {node.name}"))

    def _take_version(self, known: _NodeLooks, entry: dict[str, Any], at_ns: int, previous_ns: int | None) -> None:
        key = _key_of(entry)
        now = Moment(at_ns, at_ns - previous_ns) if previous_ns is not None else None
        watched = known.versions.get(key)
        if watched is None:
            watched = known.versions[key] = _Watched(Version(*key), now is None)
            watched.version.started = now
        version = watched.version
        version.skipped, version.abandoned = bool(entry["skipped"]), bool(entry["abandoned"])
        for level in entry["levels"]:
            name = str(level["level"])
            if not level["reached"] or name in version.reached or name in version.reached_unseen:
                continue
            if now:
                version.reached[name] = now
            else:
                version.reached_unseen.append(name)
        for field in ("failure", "node_failure"):
            if field in entry and entry[field] not in version.failures:
                version.failures.append(str(entry[field]))
                self.troubles.append(Trouble(at_ns, f"{version.title}: {entry[field]}", f"node {known.node.name}"))
        images = {image.rank: image for image in version.images}
        for of in entry["images"]:
            image = images.get(int(of["rank"]))
            if image is None:
                image = Image(int(of["rank"]), known.node.name)
                version.images.append(image)
            image.bytes = int(of["bytes"]) or image.bytes
            image.captured = image.captured or (now if of["captured"] else None)
            image.stored = image.stored or (now if of["flush"] == "stored" else None)
        if not watched.captured and entry["images"] and all(image["captured"] for image in entry["images"]):
            watched.captured = True
            version.captured = now

    def nodes(self) -> list[Node]:
        return [known.node for _, known in sorted(self._nodes.items())]

    def versions(self) -> list[Version]:
        """What the nodes show together."""
        together: dict[Key, Version] = {}
        for known in self._nodes.values():
            for key, watched in known.versions.items():
                whole = together.setdefault(key, Version(*key))
                _merge(whole, watched.version)
        return list(together.values())


def _key_of(entry: dict[str, Any]) -> Key:
    return (str(entry["name"]), int(entry["version"]), int(entry["attempt"]), int(entry["take"]))


def _forget(known: _NodeLooks, present: set[Key]) -> None:
    gone = [key for key in known.versions if key not in present]
    for key in gone[: max(len(known.versions) - VERSIONS_MAX, 0)]:
        del known.versions[key]
    for watched in list(known.versions.values())[:-IMAGES_OF_MAX]:
        if watched.version.images and watched.version.key not in present:
            watched.version.ranks, watched.version.bytes = _size_of(watched.version)
            watched.version.images = []


def _size_of(version: Version) -> tuple[int, int]:
    """Ranks and bytes on the node, whether the images are kept or not."""
    if not version.images:
        return version.ranks, version.bytes
    return len(version.images), sum(image.bytes for image in version.images)


def _merge(whole: Version, part: Version) -> None:
    """A level is reached by all nodes at once, and the first to say so knows it best; captured is what the last one has."""
    is_first = whole.ranks == 0
    ranks, size = _size_of(part)
    whole.ranks, whole.bytes = whole.ranks + ranks, whole.bytes + size
    whole.started = Moment.first(whole.started, part.started)
    if is_first:
        whole.captured = part.captured
    elif ranks > 0:
        both = [moment for moment in (whole.captured, part.captured) if moment]
        whole.captured = max(both, key=lambda moment: moment.at_ns) if len(both) == 2 else None
    whole.reached_unseen = sorted({*whole.reached_unseen, *part.reached_unseen})
    for level, moment in part.reached.items():
        first = Moment.first(whole.reached.get(level), moment)
        assert first
        whole.reached[level] = first
    for level in whole.reached_unseen:
        whole.reached.pop(level, None)
    whole.skipped, whole.abandoned = whole.skipped or part.skipped, whole.abandoned or part.abandoned
    whole.failures += [failure for failure in part.failures if failure not in whole.failures]
    whole.images = sorted([*whole.images, *(dataclasses.replace(image) for image in part.images)], key=lambda image: image.rank)


def _node_of(status: dict[str, Any], job: dict[str, Any] | None, at_ns: int) -> Node:
    schedule = job["schedule"] if job else {}
    levels = job["levels"] if job else {}
    memory = status["memory"]
    return Node(
        name=str(status["node"]), first_ns=at_ns, last_ns=at_ns, looks=1, up_seconds=float(status["up_seconds"]), job_is_known=job is not None,
        flush_bytes_per_second=float(status["flush"]["bytes_per_second"]), memory_bytes=int(memory["backed_bytes"]),
        memory_spare_bytes=int(memory["spare_bytes"]), memory_ceiling_bytes=int(memory["ceiling_bytes"]),
        tiers=[_tier_of(tier) for tier in status["tiers"]], counters={name: int(value) for name, value in status["counters"].items()},
        blocked=_spent_of(job["blocked"]) if job else Spent(),
        reached={level: _spent_of(of["reached"]) for level, of in levels.items()},
        restarts={level: _spent_of(of["restarts"]) for level, of in levels.items()},
        scheme=str(job["scheme"]) if job else "", interval_seconds=schedule.get("interval_seconds"),
    )  # fmt: skip


def _tier_of(tier: dict[str, Any]) -> Tier:
    slots, free, cached = int(tier["slots"]), int(tier["free_slots"]), int(tier["cached_slots"])
    of = int(tier["slot_bytes"])
    return Tier(
        str(tier["name"]), str(tier["kind"]), str(tier["path"]), bool(tier["lost"]), slots * of, max(slots - free - cached, 0) * of, cached * of,
        tier["observed_bytes_per_second"], tier["predicted_bytes_per_second"],
    )  # fmt: skip


def _spent_of(entry: dict[str, Any]) -> Spent:
    seconds = float(entry["sum"])
    return Spent(seconds if math.isfinite(seconds) else 0.0, int(entry["count"]))


def _sample_of(status: dict[str, Any], job: dict[str, Any] | None, at_ns: int) -> Sample:
    counters = status["counters"]
    blocked = _spent_of(job["blocked"]) if job else Spent()
    used = sum(tier.used_bytes for tier in map(_tier_of, status["tiers"]))
    return Sample(
        at_ns, int(counters["captured_bytes"]), int(counters["flushed_bytes"]), int(status["flush"]["bytes_pending"]), used, blocked.seconds,
        blocked.count,
    )  # fmt: skip


def in_order(looks: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of several files; ValueError: one has no time, because an older tool has printed it."""
    try:
        return sorted(looks, key=lambda status: int(status["wall_time_ns"]))
    except (KeyError, TypeError, ValueError):
        raise ValueError("a look without its time (wall_time_ns): an older kedge has printed it") from None
