"""Logs of failures: a CSV of times and nodes, SLURM's node events, and SLURM's job records.

A log becomes a FailureLog: ascending times, the nodes of each failure by name, and, where the log says so, the level
that it demanded. The simulator replays one, ``plan fit`` estimates rates from one. Formats, told apart by the header:

- CSV with ``time`` and ``nodes``, and perhaps ``level``. Times are seconds or ISO 8601; nodes are names, separated
  by ``;`` or blanks or written as SLURM writes them (``n[1-3,7]``); no nodes: only processes failed.
- ``sacctmgr -P show event`` (or ``format=NodeName,TimeStart,State,Reason``): every event that puts a node down
  (DOWN, FAIL, ERROR; not drained or planned ones) is a failure of that node.
- ``sacct -P -X -D --format=JobID,State,Start,End,NNodes,NodeList``: every job that ended in NODE_FAIL is a failure of
  some node (sacct does not say which), and the jobs' times are the exposure. Without ``-D`` (``--duplicates``) sacct
  hides the runs of jobs that were requeued, which are those that a node's loss ended. Jobs still running are left out.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kedge.plan.errors import PlanError
from kedge.plan.failures import TraceFailures

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

HOSTLIST_MAX = 1_000_000
DOWN_STATES = ("DOWN", "FAIL", "ERROR", "NOT_RESPONDING")
NOT_FAILURES = ("DRAIN", "MAINT", "PLANNED", "RESERVED", "POWER")
SIMULTANEOUS_SECONDS = 60.0


@dataclass(frozen=True)
class FailureLog:
    """Failures in the order of time.

    ``seconds``: shape (n,), seconds since the first moment observed. ``nodes``: n tuples of node names, empty where
    unknown or none. ``levels``: n level names, "" where the log does not say. ``span_seconds``: time observed, of
    the whole system, or of all jobs together; None: unknown beyond the last failure. ``node_seconds``: node time
    observed, where known. ``from_first``: the clock starts with the first failure, because nothing says when
    observing began.
    """

    seconds: FloatArray
    nodes: tuple[tuple[str, ...], ...]
    levels: tuple[str, ...]
    span_seconds: float | None = None
    node_seconds: float | None = None
    from_first: bool = False
    kind: str = "csv"

    def with_levels(self, levels: Sequence[str]) -> FailureLog:
        """The same failures, with these level names."""
        return replace(self, levels=tuple(levels))

    def merged(self, within_seconds: float) -> FailureLog:
        """Failures of one level not more than ``within_seconds`` after the one before are one, at the first's time."""
        kept: list[int] = []
        nodes: list[tuple[str, ...]] = []
        for index, group in enumerate(self.nodes):
            previous = index - 1
            if (
                kept
                and self.seconds[index] - self.seconds[previous] <= within_seconds
                and self.levels[index] == self.levels[previous]
            ):
                nodes[-1] = tuple(dict.fromkeys((*nodes[-1], *group)))
            else:
                kept.append(index)
                nodes.append(group)
        levels = tuple(self.levels[index] for index in kept)
        return replace(self, seconds=self.seconds[kept], nodes=tuple(nodes), levels=levels)

    def source(
        self, level_names: Sequence[str], nodes: int | None, span_seconds: float | None, random_phase: bool
    ) -> TraceFailures:
        """This log as failures to be replayed on a system.

        ``level_names``: the system's, the fastest first; a failure without a level is decided by its nodes when
        ``nodes`` (their number; names are numbered in natural order) is given, and needs the first level otherwise.
        """
        names = sorted({name for group in self.nodes for name in group}, key=natural_key)
        if nodes is not None and len(names) > nodes:
            raise PlanError("trace", f"{len(names)} different nodes", f"at most the system's nodes = {nodes}")
        index = _node_numbers(names, nodes)
        for name in self.levels:
            if name and name not in level_names:
                raise PlanError("trace", name, f"levels named {', '.join(level_names)}")
        end = float(self.seconds[-1]) if self.seconds.size else 0.0
        # Without a known end the trace is taken to end one mean gap after its last failure.
        span = span_seconds or self.span_seconds or end + max(end / max(self.seconds.size - 1, 1), 1.0)
        return TraceFailures(
            self.seconds,
            [np.array(sorted(index[name] for name in group), dtype=np.int64) for group in self.nodes],
            np.array([level_names.index(name) if name else 0 for name in self.levels], dtype=np.int64),
            span,
            random_phase,
        )


def _node_numbers(names: Sequence[str], nodes: int | None) -> dict[str, int]:
    """Names to node numbers: a name's own trailing number where those are distinct and in range, else its rank."""
    numbers = [re.search(r"(\d+)$", name) for name in names]
    own = [int(match.group(1)) for match in numbers if match is not None]
    if len(own) == len(names) and len(set(own)) == len(names) and (nodes is None or not own or max(own) < nodes):
        return dict(zip(names, own, strict=True))
    return {name: number for number, name in enumerate(names)}


def natural_key(name: str) -> tuple[tuple[int, int | str], ...]:
    """Sorts n2 before n10."""
    return tuple((0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", name) if part)


def expand_hostlist(text: str) -> tuple[str, ...]:
    """The names in a list as SLURM writes it: ``n[01-03,7],login1`` (also separated by ``;`` or blanks)."""
    names: list[str] = []
    for part in re.findall(r"(?:[^\s,;\[]+|\[[^\]]*\])+", text):
        names.extend(_expand(part, text))
    return tuple(dict.fromkeys(names))


def _expand(part: str, whole: str) -> list[str]:
    match = re.match(r"([^\[]*)\[([^\]]*)\](.*)$", part)
    if match is None:
        return [part]
    head, ranges, tail = match.groups()
    middles: list[str] = []
    for piece in ranges.split(","):
        bounds = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", piece)
        if bounds is None:
            raise PlanError("nodes", whole, "node names, or ranges such as n[1-3,7]")
        low, high = int(bounds.group(1)), int(bounds.group(2) or bounds.group(1))
        if high < low or high - low >= HOSTLIST_MAX:
            raise PlanError("nodes", whole, f"ascending ranges of at most {HOSTLIST_MAX} nodes")
        middles.extend(str(number).zfill(len(bounds.group(1))) for number in range(low, high + 1))
    return [head + middle + rest for middle in middles for rest in _expand(tail, whole)]


def parse_time(text: str, where: str) -> float:
    """Seconds: a plain number, or ISO 8601 (without a zone: UTC) as seconds since 1970."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise PlanError(where, text, "seconds, or a time such as 2026-11-21T05:57:00") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def load_trace(path: Path) -> FailureLog:
    """Read a log; the header tells its format. Raises PlanError naming file, line and what was expected."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise PlanError("trace", str(path), f"a file that can be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise PlanError("trace", str(path), "a text file in UTF-8") from None
    kept = [(number, line) for number, line in enumerate(lines, 1) if line.strip() and not line.startswith("#")]
    if not kept:
        raise PlanError("trace", str(path), "a header line and one line per failure; the file is empty")
    delimiter = "|" if "|" in kept[0][1] else ","
    rows = list(csv.reader([line for _, line in kept], delimiter=delimiter, skipinitialspace=True))
    header = [name.strip().lower() for name in rows[0]]
    records = []
    for (number, _), row in zip(kept[1:], rows[1:], strict=True):
        if len(row) < len([name for name in header if name]):
            raise PlanError(
                "trace", f"{path}:{number}: {delimiter.join(row)}", f"{len(header)} fields, as in the header"
            )
        records.append((f"{path}:{number}", dict(zip(header, (cell.strip() for cell in row), strict=False))))
    if "time" in header:
        return _from_csv(path, header, records)
    if "nodename" in header and ("timestart" in header or "start" in header):
        return _from_events(path, records)
    if "jobid" in header and {"state", "start", "end"} <= set(header):
        return _from_jobs(path, records)
    raise PlanError(
        "trace",
        f"{path}: columns {', '.join(rows[0])}",
        "columns time,nodes[,level]; or of sacctmgr -P show event; or of sacct -P -X -D with JobID|State|Start|End|NNodes",
    )


Records = Sequence[tuple[str, Mapping[str, str]]]


def _from_csv(path: Path, header: Sequence[str], records: Records) -> FailureLog:
    unknown = set(header) - {"time", "nodes", "level", ""}
    if "nodes" not in header or unknown:
        raise PlanError("trace", f"{path}: columns {', '.join(header)}", "columns time,nodes and perhaps level")
    entries = [
        (parse_time(record["time"], where), expand_hostlist(record["nodes"]), record.get("level", ""))
        for where, record in records
    ]
    absolute = any(not _is_number(record["time"]) for _, record in records)
    return _ordered(path, entries, from_first=absolute)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _from_events(path: Path, records: Records) -> FailureLog:
    """Node events: nodes that go down within a minute of each other for one stated reason failed together."""
    found: list[tuple[float, str, str]] = []
    for where, record in records:
        state = record.get("state", "").upper()
        if not record.get("nodename") or not any(word in state for word in DOWN_STATES):
            continue
        if any(word in state for word in NOT_FAILURES):
            continue
        start = record.get("timestart") or record.get("start") or ""
        found.append((parse_time(start, where), record.get("reason", ""), record["nodename"]))
    entries: list[tuple[float, tuple[str, ...], str]] = []
    reasons: list[str] = []
    for seconds, reason, name in sorted(found):
        joins = entries and reason and reasons[-1] == reason and seconds - entries[-1][0] <= SIMULTANEOUS_SECONDS
        if joins:
            first, names, _ = entries[-1]
            entries[-1] = (first, tuple(dict.fromkeys((*names, name))), "")
        else:
            entries.append((seconds, (name,), ""))
            reasons.append(reason)
    return _ordered(path, entries, from_first=True, kind="events")


def _from_jobs(path: Path, records: Records) -> FailureLog:
    """Jobs, in the order of their ends, on one clock that runs only while a job does."""
    jobs: list[tuple[float, float, float, bool]] = []
    for where, record in records:
        if "." in record["jobid"] or record["start"] in ("", "Unknown", "None") or record["end"] in ("", "Unknown"):
            continue
        start, end = parse_time(record["start"], where), parse_time(record["end"], where)
        if end < start:
            raise PlanError(where, f"{record['start']} to {record['end']}", "an end after the start")
        count = record.get("nnodes", "")
        nodes = float(count) if _is_number(count) else float(len(expand_hostlist(record.get("nodelist", ""))) or 1)
        jobs.append((end, end - start, nodes, record["state"].upper().startswith("NODE_FAIL")))
    if not jobs or sum(job[1] for job in jobs) <= 0.0:
        raise PlanError("trace", str(path), "at least one job that has run")
    jobs.sort()
    clock = np.cumsum([job[1] for job in jobs])
    failed = np.array([job[3] for job in jobs])
    count_failed = int(failed.sum())
    return FailureLog(
        clock[failed],
        ((),) * count_failed,
        ("",) * count_failed,
        span_seconds=float(clock[-1]),
        node_seconds=float(sum(job[1] * job[2] for job in jobs)),
        kind="jobs",
    )


def _ordered(
    path: Path, entries: list[tuple[float, tuple[str, ...], str]], *, from_first: bool, kind: str = "csv"
) -> FailureLog:
    if not entries:
        raise PlanError("trace", str(path), "at least one failure")
    entries.sort(key=lambda entry: entry[0])
    seconds = np.array([entry[0] for entry in entries])
    if from_first:
        seconds = seconds - seconds[0]
    if seconds[0] < 0:
        raise PlanError("trace", f"{path}: time {seconds[0]:g}", "times of at least 0 s")
    nodes, levels = tuple(entry[1] for entry in entries), tuple(entry[2] for entry in entries)
    return FailureLog(seconds, nodes, levels, from_first=from_first, kind=kind)
