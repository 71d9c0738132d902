"""How far the job is: the newest version of each checkpoint name that a next attempt can continue from."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Iterable
from typing import Any, NamedTuple

_LIST_SECONDS = 120.0

Versions = dict[str, int]


class Generation(NamedTuple):
    """One taking of a version. They compare by when they were taken: after a job has gone back, lower numbers are newer."""

    attempt: int
    take: int
    version: int


Newest = dict[str, Generation]


@dataclasses.dataclass
class Prospects:
    """What a launch would find, by checkpoint name."""

    versions: Versions
    lost: dict[str, str]  # of which there were versions and none is left, and what is known of them
    unknown: dict[str, str] = dataclasses.field(default_factory=dict)  # the same, but nodes that do not answer may have one
    silent: list[str] = dataclasses.field(default_factory=list)  # these nodes

    @staticmethod
    def of(answers: list[dict[str, Any]], without_answer: Iterable[str] = ()) -> Prospects:
        """From `kedge rebuild --look --json` on the nodes of the launch; those `without_answer` could not say it.

        Whoever knows the job has asked all its nodes; a spare knows the store. Of those who have reached the most nodes the one
        counts that has heard of the latest taking; lost is what none of them can give. But while nodes of the launch that know the
        job do not reach each other, or nodes are without an answer, they may have it. Any other node counts as gone: also one
        whose agent knows nothing of the job, because it has come back empty. The others do not reach that agent either.
        """

        def rank(answer: dict[str, Any]) -> tuple[bool, int]:
            return (not answer["knows_job"], len(answer["silent_nodes"]))

        def silent_to(answer: dict[str, Any]) -> set[str]:
            # Without an agent that has asked the job's nodes, or with some that it did not reach.
            has_asked_all = answer["knows_job"] and not answer["silent_nodes"]
            return set() if has_asked_all else {*without_answer, *reachable.intersection(answer["silent_nodes"])}

        reachable = {answer["node"] for answer in answers if answer["knows_job"]}
        best = [answer for answer in answers if rank(answer) == min(map(rank, answers))]
        newest = newest_among(entry for answer in best for entry in answer["names"] if entry["version"] >= 0)
        found = Prospects(numbers(newest), {})
        silent: set[str] = set()
        for answer in best:
            for entry in answer["names"]:
                missing = entry["lost"] or entry["silent_nodes_may_have"]
                if not missing or entry["name"] in newest:
                    continue
                (found.unknown if silent_to(answer) else found.lost)[entry["name"]] = missing
                silent |= silent_to(answer)
        found.lost = {name: why for name, why in found.lost.items() if name not in found.unknown}
        found.silent = sorted(silent)
        return found


def newest_among(entries: Iterable[dict[str, Any]]) -> Newest:
    """By checkpoint name, of versions as `kedge ls --json` and `kedge status --json` list them."""
    newest: Newest = {}
    for entry in entries:
        generation = Generation(entry["attempt"], entry["take"], entry["version"])
        newest[entry["name"]] = max(newest.get(entry["name"], generation), generation)
    return newest


def newest_versions(tool: str, job: str) -> Newest | None:
    """Complete in the store, not abandoned, by checkpoint name; empty before the first. None when the store cannot be read."""
    try:
        done = subprocess.run([tool, "ls", "--json", "--job", job], capture_output=True, text=True, timeout=_LIST_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode == 1:
        return {}  # there is no such store or job yet
    if done.returncode != 0:
        return None
    return newest_among(entry for entry in json.loads(done.stdout)["versions"] if entry["state"] == "complete")


def has_advanced(before: Newest | None, after: Newest | None) -> bool:
    """Whether some name has a newer version. A store that could not be read has shown nothing.

    A lower number is one, too, when it was taken later: the job has gone back. The same number is none: who takes that in each
    attempt, and never gets past it, runs in circles.
    """

    def is_newer(generation: Generation, old: Generation | None) -> bool:
        return old is None or (generation > old and generation.version != old.version)

    return any(is_newer(generation, (before or {}).get(name)) for name, generation in (after or {}).items())


def newest_of(stored: Newest | None, protected: Newest) -> Newest | None:
    """Of each name the newer of the two. None when nothing is known at all."""
    if stored is None:
        return protected or None
    return {name: max(known[name] for known in (stored, protected) if name in known) for name in {*stored, *protected}}


def before_attempt(newest: Newest | None, attempt: int) -> Newest:
    """What former attempts have taken."""
    return {name: generation for name, generation in (newest or {}).items() if generation.attempt < attempt}


def numbers(newest: Newest | None) -> Versions:
    """The same for people and reports."""
    return {name: generation.version for name, generation in (newest or {}).items()}
