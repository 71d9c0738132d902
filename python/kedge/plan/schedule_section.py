"""The runtime's ``[schedule]`` section for a schedule, and the one place that knows its keys.

The runtime schedules two levels: *local*, the copies on the node, which every checkpoint has, and *store*, which every
n-th has. So ``interval`` is the computation between two checkpoints (what ``kedge_checkpoint_due`` goes by), and
``store`` the n of the system's last level. ``mtbf_local`` and ``mtbf_store`` are where ``schedule.adapt`` starts from.
A level of the system between the two is planned for, but this runtime has none such: its failures need the store.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

from kedge.plan.errors import PlanError
from kedge.plan.schedule import Schedule
from kedge.plan.system import System

LOCAL = "local"
MTBF_MOST_SECONDS = 36500 * 86400.0  # the runtime's longest duration
STORE_EVERY_MOST = 1_000_000_000

HEADER = re.compile(r"^\s*\[{1,2}\s*([^\]]+?)\s*\]{1,2}\s*(#.*)?$")
KEY = re.compile(r"^\s*([A-Za-z0-9_-]+)\s*=")


def level_periods(system: System, schedule: Schedule) -> list[tuple[str, int]]:
    """(name, every how many checkpoints) of the levels that are used, the fastest first.

    A level whose count is 0 is never taken on its own, so it is left out; the highest always stays.
    """
    used = []
    for number, level in enumerate(system.levels, start=1):
        if number == len(system.levels) or schedule.counts[number - 1] > 0:
            used.append((level.name, schedule.lengths[number - 1]))
    return used


def left_out(system: System) -> list[str]:
    """The names of the levels that the runtime does not schedule."""
    return [level.name for level in system.levels[:-1] if level.name != LOCAL]


def warnings(system: System) -> list[str]:
    """What a reader of the section should know; empty when the runtime has every level of the system."""
    if not left_out(system):
        return []
    return [
        f"the runtime schedules the levels {LOCAL} and store: it does not protect by {', '.join(left_out(system))} yet, "
        "and until it does, those failures need the store. Plan without that level to see what it costs"
    ]


def section_values(system: System, schedule: Schedule) -> dict[str, str]:
    """The keys of the section and their values as TOML."""
    every = schedule.lengths[-1]
    if every > STORE_EVERY_MOST:
        raise PlanError("counts", list(schedule.counts), f"at most {STORE_EVERY_MOST} checkpoints for one to the store")
    local = sum(level.failure_rate_per_second for level in system.levels[:-1] if level.name == LOCAL)
    total = sum(level.failure_rate_per_second for level in system.levels)
    return {
        "interval": f'"{schedule.interval_seconds:.6g}s"',
        "store": str(every),
        "mtbf_local": _mtbf(local),
        "mtbf_store": _mtbf(total - local),
    }


def _mtbf(rate: float) -> str:
    seconds = MTBF_MOST_SECONDS if rate * MTBF_MOST_SECONDS < 1.0 else 1.0 / rate
    return f'"{max(seconds, 1.0):.0f}s"'


def section_toml(system: System, schedule: Schedule) -> str:
    """The section as TOML text."""
    return "[schedule]\n" + "".join(f"{key} = {value}\n" for key, value in section_values(system, schedule).items())


def write_section(path: str | Path, system: System, schedule: Schedule, option: str) -> None:
    """Write the section into a configuration file, which need not exist, at once or not at all.

    What else the file holds stays as it is, and so do the section's other keys (``adapt``, ``store_interval``).
    PlanError names ``option`` where the file cannot be read or written, or is no TOML.
    """
    target = Path(path)
    try:
        before = target.read_text(encoding="utf-8") if target.exists() else ""
        known = tomllib.loads(before)
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(option, str(path), f"a file that can be read ({error})") from None
    except tomllib.TOMLDecodeError as error:
        raise PlanError(option, str(path), f"a configuration file of the runtime ({error})") from None
    after = _with_section(before, section_values(system, schedule))
    try:
        merged = tomllib.loads(after)
    except tomllib.TOMLDecodeError:
        merged = {}
    rest = {key: value for key, value in known.items() if key != "schedule"}
    if {key: value for key, value in merged.items() if key != "schedule"} != rest or "schedule" not in merged:
        raise PlanError(option, str(path), "a file whose schedule, if any, stands under a line [schedule] of its own")
    replace_file(target, after, option)


def _with_section(text: str, values: dict[str, str]) -> str:
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if (head := HEADER.match(line)) and head[1] == "schedule"), None)
    ours = [f"{key} = {value}" for key, value in values.items()]
    if start is None:
        gap = [""] if lines and lines[-1].strip() else []
        return "\n".join([*lines, *gap, "[schedule]", *ours]) + "\n"
    end = next((i for i in range(start + 1, len(lines)) if HEADER.match(lines[i])), len(lines))
    kept = [line for line in lines[start + 1 : end] if not ((key := KEY.match(line)) and key[1] in values)]
    return "\n".join([*lines[: start + 1], *ours, *kept, *lines[end:]]) + "\n"


def replace_file(path: Path, text: str, option: str) -> None:
    """Write beside `path` and rename, so that a reader never sees half of it; permissions stay."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8") as stream:
            if path.exists():
                os.fchmod(stream.fileno(), path.stat().st_mode & 0o7777)
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise PlanError(option, str(path), f"a path that can be written ({error.strerror})") from None
