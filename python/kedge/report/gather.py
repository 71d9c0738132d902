"""Where a job's account comes from: the store, by the tools; agents, by looks at them; and the report of ``kedge run``."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import subprocess
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from kedge.report.looks import Looks, in_order
from kedge.report.model import Attempt, Image, Job, Launch, Moment, Restore, Trouble, Version

IMAGES_MAX = 20_000  # of which the records in the store are read, of the newest versions
ATTEMPTS_MAX = 64  # as many as `kedge ls --attempts` lists
_AGENT_SECONDS = 30.0


class GatherError(Exception):
    """A tool has failed; its exit code, and what it said."""

    def __init__(self, code: int, said: str) -> None:
        super().__init__(said)
        self.code = code


@dataclasses.dataclass
class Sources:
    """What to ask. `where`: --store, --config and --set, as the tools take them."""

    tool: str
    where: Sequence[str] = ()  # of the store
    agent: Sequence[str] = ()  # --config and --set
    nodes: Sequence[str] = ()  # names of nodes on this machine; none: the one of the configuration
    store_seconds: float = 600.0  # for the store to answer
    _lock: threading.Lock = dataclasses.field(default_factory=threading.Lock, init=False)
    _running: set[subprocess.Popen[str]] = dataclasses.field(default_factory=set, init=False)
    _is_over: bool = dataclasses.field(default=False, init=False)

    def ask(self, *words: str, seconds: float | None = None) -> Any:
        """The JSON that a tool prints. GatherError: it has failed, or does not answer in time."""
        command = [self.tool, words[0], "--json", *words[1:]]
        with self._lock:
            if self._is_over:
                raise GatherError(4, "nobody waits for the answer any more")
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
            self._running.add(process)
        with process:
            try:
                output, said = process.communicate(timeout=self.store_seconds if seconds is None else seconds)
            except subprocess.TimeoutExpired:
                raise GatherError(4, f"kedge {words[0]} does not answer") from None
            finally:
                process.kill()
                with self._lock:
                    self._running.discard(process)
        if process.returncode != 0:
            raise GatherError(process.returncode, said.strip().removeprefix("kedge: ") or f"kedge {words[0]} failed")
        return json.loads(output)

    def end(self) -> None:
        """Ends the tools that run, and starts no more. For another thread than that which asks."""
        with self._lock:
            self._is_over = True
            for process in self._running:
                process.kill()

    def look(self) -> tuple[list[dict[str, Any]], list[str]]:
        """At the agents, now; and who does not answer, and why."""
        looks, silent = [], []
        for node in [["--set", f"node.name={node}"] for node in self.nodes] or [[]]:
            try:
                looks.append(self.ask("status", *self.agent, *node, seconds=_AGENT_SECONDS))
            except GatherError as error:
                silent.append(str(error))
        return looks, silent


@dataclasses.dataclass
class StoreAccount:
    """What the store tells of one job."""

    job: str
    path: str
    store_id: str
    attempts: list[Attempt]
    restores: list[Restore]
    versions: list[Version]
    missing: list[str]


def read_store(sources: Sources, word: str, job: str = "") -> StoreAccount:
    """Of what the word means: JOB, JOB/NAME, ...; empty: the only job. GatherError: nothing, several, or it cannot be read."""
    words = [*sources.where, *(["--job", job] if job else []), "--all", "--attempts"]
    listing = sources.ask("ls", *words, *(["--", word] if word else []))
    # Of a job that was removed its attempts are left.
    there = [version for version in listing["versions"] if version["state"] != "removed"]
    there += [attempt for attempt in listing["attempts"] if attempt["state"] in ("lives", "silent")]
    jobs = sorted({entry["job"] for entry in there or [*listing["versions"], *listing["attempts"]]})
    if not jobs:
        raise GatherError(1, f"{listing['store']} has no job" + (f" that '{word or job}' means" if word or job else ""))
    if len(jobs) > 1:
        raise GatherError(2, f"name one of the jobs: {', '.join(jobs)}")
    account = StoreAccount(
        jobs[0], listing["store"], listing["store_id"], [_attempt_of(entry) for entry in listing["attempts"]],
        [_restore_of(entry) for entry in listing["restored"]], [_version_of(entry) for entry in listing["versions"]], [],
    )  # fmt: skip
    if len(account.attempts) >= ATTEMPTS_MAX:
        account.missing.append(f"Attempts before number {account.attempts[0].number}: the {ATTEMPTS_MAX} newest were read.")
    account.versions.sort(key=lambda version: (version.attempt, version.take, version.version), reverse=True)
    _read_images(sources, account)
    return account


def _attempt_of(entry: dict[str, Any]) -> Attempt:
    return Attempt(
        entry["attempt"], entry["state"], entry["why"], entry["ranks"], entry["host"], entry["began_wall_time_ns"], entry["last_sign_wall_time_ns"]
    )


def _restore_of(entry: dict[str, Any]) -> Restore:
    origin = entry["origin"]
    return Restore(
        entry["name"], entry["attempt"], entry["take"], entry["wall_time_ns"], origin["version"], origin["attempt"], origin["take"]
    )


def _version_of(entry: dict[str, Any]) -> Version:
    version = Version(
        entry["name"], entry["version"], entry["attempt"], entry["take"], entry["ranks"], entry["bytes"], entry["state"],
        entry.get("reason", ""), entry["pinned"], abandoned=entry["state"] == "abandoned",
    )  # fmt: skip
    if entry["wall_time_ns"]:
        version.reached["buffer" if entry["level"] == "buffer" else "store"] = Moment(entry["wall_time_ns"])
    return version


def _read_images(sources: Sources, account: StoreAccount) -> None:
    """Of the newest versions: when each rank had captured, and what it takes."""
    left = IMAGES_MAX
    for at, version in enumerate(account.versions):
        if version.state == "removed" or version.ranks == 0:
            continue
        if version.ranks > left:
            account.missing.append(f"What the ranks of {len(account.versions) - at} older versions took: only the newest {IMAGES_MAX:,} images were read.")
            return
        left -= version.ranks
        try:
            told = sources.ask("inspect", *sources.where, "--job", account.job, "--brief", "--", version.title)
        except GatherError as error:
            account.missing.append(f"The images of {version.title} in the store: {error}.")
            continue
        if (told["version"], told["attempt"], told["take"]) != (version.version, version.attempt, version.take):
            continue  # taken twice in that attempt, and the tools name the other one
        version.images = [
            Image(image["rank"], "", image["bytes"], Moment(image["wall_time_ns"]), None, image["stored_bytes"], image["shared_bytes"], image["zero_bytes"])
            for image in told["images"]
        ]
        version.common_bytes = told["common_object_bytes"]
        if version.images and len(version.images) == version.ranks:
            version.captured = max((image.captured for image in version.images if image.captured), key=lambda moment: moment.at_ns)


def account_of(job: str, store: StoreAccount | None, looks: Looks, run: dict[str, Any] | None = None) -> Job:
    """All of it as one."""
    made = Job(job, time.time_ns(), nodes=looks.nodes(), troubles=list(looks.troubles))
    if store:
        made.store, made.store_id, made.store_is_read = store.path, store.store_id, True
        made.attempts, made.restores, made.missing = store.attempts, sorted(store.restores, key=lambda restore: restore.at_ns), list(store.missing)
        made.store_room_bytes, made.store_free_bytes = _room_at(store.path)
    # A copy: looks go on, and the store's account is read anew.
    versions = {version.key: dataclasses.replace(version, reached=dict(version.reached), failures=[]) for version in (store.versions if store else [])}
    for seen in looks.versions():
        _add_seen(versions, seen)
    made.versions = sorted(versions.values(), key=lambda version: (version.attempt, version.take, version.version), reverse=True)
    for attempt, following in itertools.zip_longest(made.attempts, made.attempts[1:]):
        attempt.gone_ns = (following.began_ns if following else made.made_ns) if attempt.state == "died" else 0
        # Signs of life are a quarter of a lease apart; what it has taken tells more.
        of_it = [moment.at_ns for version in made.versions if version.attempt == attempt.number for moment in (version.captured, version.started) if moment]
        attempt.last_sign_ns = max([attempt.last_sign_ns, *of_it])
        if attempt.state == "died":
            made.troubles.append(Trouble(attempt.last_sign_ns, f"attempt {attempt.number} died: {attempt.why}", f"rank 0 on {attempt.host}"))
    for version in made.versions:
        if version.state in ("incomplete", "finishable") and store and _is_over(version, made):
            made.troubles.append(Trouble(version.begin.at_ns if version.begin else None, f"{version.title} is {version.state} in the store: {version.reason}"))
    if run:
        _add_run(made, run)
    made.troubles.sort(key=lambda trouble: trouble.at_ns or 0)
    made.missing += _what_is_missing(made)
    return made


def _is_over(version: Version, job: Job) -> bool:
    """Whether nobody works on its attempt any more."""
    return not any(attempt.number == version.attempt and attempt.state == "lives" for attempt in job.attempts)


def _add_seen(versions: dict[tuple[str, int, int, int], Version], seen: Version) -> None:
    """The store's records are exact where they tell the same."""
    known = versions.get(seen.key)
    if known is None:
        versions[seen.key] = seen
        return
    known.started = seen.started
    known.captured = known.captured or seen.captured
    known.reached = seen.reached | known.reached
    known.reached_unseen = [level for level in seen.reached_unseen if level not in known.reached]
    known.skipped, known.failures = seen.skipped, seen.failures
    on_nodes = {image.rank: image for image in seen.images}
    in_store = {image.rank for image in known.images}
    for image in known.images:
        if image.rank in on_nodes:
            image.node = on_nodes[image.rank].node
            image.stored = _not_after(on_nodes[image.rank].stored, known.reached.get("store"))
    known.images = sorted([*known.images, *(image for rank, image in on_nodes.items() if rank not in in_store)], key=lambda image: image.rank)
    known.ranks, known.bytes = known.ranks or seen.ranks, known.bytes or seen.bytes


def _not_after(seen: Moment | None, whole: Moment | None) -> Moment | None:
    """An image's moment, where the version's is exact: a look may have seen it later than that."""
    if not seen or not whole or whole.within_ns or seen.at_ns <= whole.at_ns:
        return seen
    return Moment(whole.at_ns, max(whole.at_ns - (seen.at_ns - seen.within_ns), 0))


def _add_run(made: Job, run: dict[str, Any]) -> None:
    try:
        made.launches = [
            Launch(of["number"], of["nodes"], of["exit_code"], of["ended"], of["seconds"], of["advanced"], of["dead"], of["before"])
            for of in run["launches"]
        ]
        made.outcome = f"{run['outcome']}: {run['reason']}"
        not_drained = run["not_drained"]
    except (KeyError, TypeError) as error:
        raise ValueError(f"not the report of `kedge run --json`: {error!r}") from None
    for launch in made.launches:
        made.troubles += [Trouble(None, f"launch {launch.number}: node left out: {why}", f"node {node}") for node, why in launch.dead.items()]
    made.troubles += [Trouble(None, f"not everything got to the store: {why}", f"node {node}") for node, why in not_drained.items()]


def _what_is_missing(made: Job) -> list[str]:
    """Sentences on what no source has told."""
    missing = []
    if not made.store_is_read:
        missing.append("Attempts, restarts and versions in the store: the store was not read.")
    if not made.nodes:
        missing.append(
            "Blocked times, tiers, protection across nodes, and versions that only nodes have: no agent was looked at. "
            "Agents that have left tell nothing; keep looks while the job runs (kedge top --json >> FILE), and give them with --looks FILE."
        )
    elif all(node.looks == 1 for node in made.nodes):
        missing.append(
            "When versions were begun, and when they reached the levels local and node: neither store nor agents record that. "
            "Looks that follow each other see it (kedge top --web, or kedge top --json >> FILE and --looks FILE)."
        )
    if made.restores:
        missing.append("Of a single restart, which level each rank read from: agents count that over all restarts of the nodes that were looked at.")
    if made.versions and made.store_is_read:
        missing.append("Versions that retention has removed from the store, unless a look has seen them.")
    return missing


def _room_at(path: str) -> tuple[int | None, int | None]:
    try:
        room = os.statvfs(path)
    except OSError:
        return None, None
    return room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize


def read_looks(paths: Iterable[str]) -> list[dict[str, Any]]:
    """Files with one look a line, as `kedge top --json` and `kedge status --json` print them. ValueError, OSError."""
    looks = []
    for path in paths:
        for number, line in enumerate(Path(path).read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
            if not line.strip():
                continue
            try:
                look = json.loads(line)
            except ValueError:
                raise ValueError(f"{path}, line {number}: no JSON") from None
            if not isinstance(look, dict):
                raise ValueError(f"{path}, line {number}: no status of an agent")
            looks.append(look)
    return in_order(looks)
