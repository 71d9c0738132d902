"""How far the job is: the newest version of each checkpoint name that a next attempt can continue from."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from typing import Any

_LIST_SECONDS = 120.0

Versions = dict[str, int]


@dataclasses.dataclass
class Prospects:
    """What a launch would find, by checkpoint name."""

    versions: Versions
    lost: dict[str, str]  # of which there were versions and none is left, and what is known of them

    @staticmethod
    def of(names: list[dict[str, Any]]) -> Prospects:
        """From `kedge rebuild --look --json` on several nodes: lost is what none of them can give."""
        versions: Versions = {}
        for entry in names:
            if entry["version"] >= 0:
                versions[entry["name"]] = max(versions.get(entry["name"], -1), entry["version"])
        return Prospects(versions, {entry["name"]: entry["lost"] for entry in names if entry["lost"] and entry["name"] not in versions})


def newest_versions(tool: str, job: str) -> Versions | None:
    """Complete in the store, by checkpoint name; empty before the first. None when the store cannot be read."""
    try:
        done = subprocess.run([tool, "ls", "--json", "--job", job], capture_output=True, text=True, timeout=_LIST_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode == 1:
        return {}  # there is no such store or job yet
    if done.returncode != 0:
        return None
    newest: Versions = {}
    for entry in json.loads(done.stdout)["versions"]:
        if entry["complete"]:
            newest[entry["name"]] = max(newest.get(entry["name"], -1), entry["version"])
    return newest


def has_advanced(before: Versions | None, after: Versions | None) -> bool:
    """Whether some name has a newer version. A store that could not be read has shown nothing."""
    if after is None:
        return False
    return any(version > (before or {}).get(name, -1) for name, version in after.items())


def newest_of(stored: Versions | None, protected: Versions) -> Versions | None:
    """Of each name the newer of the two. None when nothing is known at all."""
    if stored is None:
        return protected or None
    return {name: max(stored.get(name, -1), protected.get(name, -1)) for name in {*stored, *protected}}
