"""The runtime's ``[schedule]`` section for a schedule, and the one place that knows its keys.

The runtime schedules three levels: *local*, the copies on the node, which every checkpoint has, *node*, the nodes'
protection of each other, and *store*; every n-th checkpoint has one, every m-th the other. So ``interval`` is the
computation between two checkpoints (what ``kedge_checkpoint_due`` goes by), ``node`` and ``store`` are n and m, and
``mtbf_local``, ``mtbf_node`` and ``mtbf_store`` are where ``schedule.adapt`` starts from. A level is known by its name
(``local``; ``node`` or a scheme of it: ``partner``, ``xor``, ``rs``), any other last level is the store. Another level
between them is planned for, but this runtime has none such: the next level of the runtime answers its failures.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

from kedge.plan.errors import PlanError
from kedge.plan.schedule import Schedule
from kedge.plan.system import System

LOCAL, NODE, STORE = "local", "node", "store"
SCHEMES = ("partner", "xor", "rs")
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


def runtime_levels(system: System) -> list[str | None]:
    """What the runtime calls each level of the system; None for one that it does not schedule."""
    found: list[str | None] = []
    for index, level in enumerate(system.levels):
        role = LOCAL if level.name == LOCAL else NODE if level.name in (NODE, *SCHEMES) else None
        if role is None and index == len(system.levels) - 1:
            role = STORE
        found.append(role)
    # Of two schemes the runtime has the one that survives more.
    return [None if role is not None and role in found[index + 1 :] else role for index, role in enumerate(found)]


def warnings(system: System) -> list[str]:
    """What a reader of the section should know; empty when the section alone gives the runtime what is planned."""
    roles = runtime_levels(system)
    said = []
    left_out = [level.name for level, role in zip(system.levels, roles, strict=True) if role is None]
    if left_out:
        said.append(
            f"the runtime schedules the levels {LOCAL}, {NODE} and {STORE}, and not {', '.join(left_out)}: the next level "
            "answers those failures. Plan without that level to see what it costs"
        )
    if NODE in roles:
        name = system.levels[roles.index(NODE)].name
        scheme = f'scheme = "{name}"' if name in SCHEMES else f"a scheme ({', '.join(SCHEMES)})"
        said.append(f"the level {name} wants {scheme} under [protect] in the runtime's configuration")
    return said


def section_values(system: System, schedule: Schedule) -> dict[str, str]:
    """The keys of the section and their values as TOML."""
    every = schedule.lengths[-1]
    if every > STORE_EVERY_MOST:
        raise PlanError("counts", list(schedule.counts), f"at most {STORE_EVERY_MOST} checkpoints for one to the store")
    roles = runtime_levels(system)
    rates = dict.fromkeys((LOCAL, NODE, STORE), 0.0)
    for index, level in enumerate(system.levels):
        answered_by = next(role for role in roles[index:] if role is not None)
        rates[answered_by] += level.failure_rate_per_second
    values = {"interval": f'"{schedule.interval_seconds:.6g}s"'}
    if NODE in roles:
        values["node"] = str(_node_every(system, schedule, roles.index(NODE)))
    values["store"] = str(every) if STORE in roles else "0"
    values["mtbf_local"] = _mtbf(rates[LOCAL])
    if NODE in roles:
        values["mtbf_node"] = _mtbf(rates[NODE])
    values["mtbf_store"] = _mtbf(rates[STORE])
    return values


def _node_every(system: System, schedule: Schedule, index: int) -> int:
    """Every how many checkpoints have the level; 0: it is left out, and what lies above does not start from its copies."""
    last = index == len(system.levels) - 1
    used = last or schedule.counts[index] > 0 or system.levels[index + 1].asynchronous
    return schedule.lengths[index] if used else 0


def _mtbf(rate: float) -> str:
    seconds = MTBF_MOST_SECONDS if rate * MTBF_MOST_SECONDS < 1.0 else 1.0 / rate
    whole = round(max(seconds, 1.0))
    return f'"{whole // 86400}d"' if whole % 86400 == 0 else f'"{whole}s"'


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
