"""One account of a job: its attempts, versions, ranks, nodes, and what was restored. Plain data, that any source may have filled.

Times are nanoseconds since 1970. What nobody has recorded is None or an empty list, never a guess: the page says so.
"""

from __future__ import annotations

import dataclasses
from typing import Any

LEVELS = ("local", "node", "buffer", "store")


@dataclasses.dataclass(frozen=True)
class Moment:
    """When something was so. `within_ns`: not before so long before `at_ns`, because somebody looked at that time only; 0: exact."""

    at_ns: int
    within_ns: int = 0

    @staticmethod
    def first(one: Moment | None, other: Moment | None) -> Moment | None:
        """The earlier one; None: nobody knows."""
        known = [moment for moment in (one, other) if moment]
        return min(known, key=lambda moment: moment.at_ns) if known else None


@dataclasses.dataclass
class Image:
    """One rank's part of a version."""

    rank: int
    node: str = ""  # empty: not known
    bytes: int = 0
    captured: Moment | None = None
    stored: Moment | None = None  # with its node's record; the version may lack others
    stored_bytes: int | None = None  # that its own object takes; None: not asked, or not there
    shared_bytes: int = 0  # that lie in the objects of earlier versions
    zero_bytes: int = 0  # that lie nowhere


@dataclasses.dataclass
class Version:
    """One taking of a version."""

    name: str
    version: int
    attempt: int
    take: int
    ranks: int = 0
    bytes: int = 0
    state: str = ""  # as `kedge ls --all` has it; empty: the store has nothing of it
    reason: str = ""
    pinned: bool = False
    skipped: bool = False
    abandoned: bool = False
    started: Moment | None = None
    captured: Moment | None = None  # by the last rank
    reached: dict[str, Moment] = dataclasses.field(default_factory=dict)  # by level
    reached_unseen: list[str] = dataclasses.field(default_factory=list)  # levels that it was at when somebody looked first
    failures: list[str] = dataclasses.field(default_factory=list)
    images: list[Image] = dataclasses.field(default_factory=list)
    common_bytes: int = 0  # of blocks in the store that one node has written for several

    @property
    def key(self) -> tuple[str, int, int, int]:
        return (self.name, self.version, self.attempt, self.take)

    @property
    def title(self) -> str:
        """As the tools take it."""
        return f"{self.name}@{self.version}.{self.attempt}"

    @property
    def level(self) -> str:
        """The highest that it is known to have reached."""
        reached = [level for level in LEVELS if level in self.reached or level in self.reached_unseen]
        return reached[-1] if reached else ""

    @property
    def moments(self) -> list[Moment]:
        """All that is known of it."""
        images = [moment for image in self.images for moment in (image.captured, image.stored)]
        return [moment for moment in (self.started, self.captured, *self.reached.values(), *images) if moment]

    @property
    def begin(self) -> Moment | None:
        """As early as anything is known of it: that it was begun, or an image captured."""
        return min(self.moments, key=lambda moment: moment.at_ns, default=None)

    @property
    def stored_bytes(self) -> int | None:
        """What its own objects take in the store; None where not every rank's is known."""
        sizes = [image.stored_bytes for image in self.images]
        known = [size for size in sizes if size is not None]
        return sum(known) + self.common_bytes if known and len(known) == len(sizes) == self.ranks else None


@dataclasses.dataclass
class Attempt:
    """One launch of the job."""

    number: int
    state: str  # ended, lives, died, silent
    why: str
    ranks: int
    host: str  # of rank 0
    began_ns: int
    last_sign_ns: int  # its end, or the last sign of life
    gone_ns: int = 0  # of one that died: when the next one had begun, or it was not found; 0: not known


@dataclasses.dataclass
class Restore:
    """An attempt has gone on from a version."""

    name: str
    attempt: int
    take: int
    at_ns: int
    origin_version: int
    origin_attempt: int
    origin_take: int

    @property
    def origin(self) -> str:
        return f"{self.name}@{self.origin_version}.{self.origin_attempt}"


@dataclasses.dataclass
class Sample:
    """What counts up on a node, and what waits there, at one look."""

    at_ns: int
    captured_bytes: int
    flushed_bytes: int
    pending_bytes: int
    used_bytes: int  # of slots
    blocked_seconds: float
    blocked_calls: int


@dataclasses.dataclass
class Tier:
    """Storage of a node."""

    name: str
    kind: str
    path: str
    lost: bool
    capacity_bytes: int
    used_bytes: int  # by what must stay
    cached_bytes: int  # by what may go
    observed_bytes_per_second: float | None  # by one writer
    predicted_bytes_per_second: float | None


@dataclasses.dataclass
class Spent:
    """Observed times of one kind."""

    seconds: float = 0.0
    count: int = 0

    @property
    def mean(self) -> float | None:
        return self.seconds / self.count if self.count else None

    def add(self, other: Spent) -> None:
        self.seconds += other.seconds
        self.count += other.count


@dataclasses.dataclass
class Node:
    """A node's agent, at the last look."""

    name: str
    first_ns: int
    last_ns: int
    looks: int
    up_seconds: float
    job_is_known: bool
    flush_bytes_per_second: float
    memory_bytes: int
    memory_spare_bytes: int
    memory_ceiling_bytes: int
    tiers: list[Tier]
    counters: dict[str, int]
    blocked: Spent
    reached: dict[str, Spent]  # from the call for a checkpoint to the level
    restarts: dict[str, Spent]  # by the lowest level that sufficed
    scheme: str = ""
    interval_seconds: float | None = None
    samples: list[Sample] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Trouble:
    """Something went wrong."""

    at_ns: int | None
    what: str
    where: str = ""


@dataclasses.dataclass
class Launch:
    """A launch as ``kedge run`` has seen it."""

    number: int
    nodes: list[str]
    exit_code: int
    was_ended: bool
    seconds: float
    advanced: bool
    dead: dict[str, str]
    before: dict[str, float]


@dataclasses.dataclass
class Job:
    """All of it."""

    job: str  # empty: no job is known, and the page is about the nodes
    made_ns: int
    store: str = ""
    store_id: str = ""
    store_is_read: bool = False
    store_room_bytes: int | None = None  # of its file system
    store_free_bytes: int | None = None
    attempts: list[Attempt] = dataclasses.field(default_factory=list)
    restores: list[Restore] = dataclasses.field(default_factory=list)
    versions: list[Version] = dataclasses.field(default_factory=list)  # newest first
    nodes: list[Node] = dataclasses.field(default_factory=list)
    troubles: list[Trouble] = dataclasses.field(default_factory=list)
    launches: list[Launch] = dataclasses.field(default_factory=list)
    outcome: str = ""  # of kedge run, with the reason
    missing: list[str] = dataclasses.field(default_factory=list)  # sentences: what the page cannot say, and why

    @property
    def newest_safe(self) -> dict[str, Version]:
        """By checkpoint name, of what a restart would take: the last one taken that all ranks could go on from."""
        newest: dict[str, Version] = {}
        for version in self.versions:
            if version.abandoned or version.state in ("abandoned", "superseded", "removed") or not version.level:
                continue
            known = newest.get(version.name)
            if known is None or (version.attempt, version.take) > (known.attempt, known.take):
                newest[version.name] = version
        return newest

    def spent(self, of: str, level: str = "") -> Spent:
        """Over all nodes: "blocked", or "reached" or "restarts" of a level."""
        total = Spent()
        for node in self.nodes:
            total.add(node.blocked if of == "blocked" else getattr(node, of).get(level, Spent()))
        return total

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)
