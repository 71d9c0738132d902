"""What a running job reports: the one place that knows the names in the agent's metrics and status.

Two sources say the same (``src/agent/door/status_tuning.cc`` writes both): Prometheus text, from the agent's metrics socket,
its loopback port or a file, and the JSON of ``kedge status --json``. Sums and counts grow while a job runs, over the
ranks of one node; the planner uses their means.

| metric, labels | meaning |
|---|---|
| ``kedge_checkpoint_blocked_seconds_sum``, ``_count`` {job} | time the application was blocked, per checkpoint |
| ``kedge_level_seconds_sum``, ``_count`` {job, level} | from the call until the level was reached |
| ``kedge_restart_seconds_sum``, ``_count`` {job, level} | restarts from the level |
| ``kedge_failures_total`` {job, level} | failures that needed the level |
| ``kedge_job_seconds`` {job} | how long the job has been observed, attempts together |
| ``kedge_checkpoint_interval_seconds`` {job} | its present interval; 0: the application's own |
| ``kedge_schedule_node_every`` {job} | every so many checkpoints are protected across nodes; 0: none |
| ``kedge_schedule_store_every`` {job} | every so many checkpoints go to the store; 0: none |

In the JSON: ``{"jobs": [{"job": NAME, "store_id": ID, "observed_seconds": S, "blocked": {"sum": S, "count": N}, "levels":
{NAME: {"reached": {"sum": S, "count": N}, "restarts": {"sum": S, "count": N}, "failures": N}}, "schedule":
{"interval_seconds": S, "node_every": N, "store_every": N}}]}``. Jobs of one name in several stores are told apart as NAME@STORE_ID.
"""

from __future__ import annotations

import json
import math
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kedge.plan.errors import PlanError

BLOCKED = "kedge_checkpoint_blocked_seconds"
REACHED = "kedge_level_seconds"
RESTART = "kedge_restart_seconds"
FAILURES = "kedge_failures_total"
OBSERVED = "kedge_job_seconds"
INTERVAL = "kedge_checkpoint_interval_seconds"
NODE_EVERY = "kedge_schedule_node_every"
STORE_EVERY = "kedge_schedule_store_every"

MOST_BYTES = 16 * 1024 * 1024
SOCKET_TIMEOUT = 5.0
SAMPLE = re.compile(r"^([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?$")
LABEL = re.compile(r'\s*([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"\s*(?:,|$)')


@dataclass
class Mean:
    """A sum and a count of observations, seconds."""

    sum: float = 0.0
    count: float = 0.0

    @property
    def value(self) -> float | None:
        """The mean; None where nothing was observed."""
        return self.sum / self.count if self.count > 0.0 else None


@dataclass
class LevelMeasurement:
    """One level of a job: time to reach it, restarts from it, failures that needed it."""

    reached: Mean = field(default_factory=Mean)
    restarts: Mean = field(default_factory=Mean)
    failures: float = 0.0


@dataclass
class JobMeasurement:
    """What was measured of one job, and its present schedule (interval 0: the application's own; None: not said)."""

    job: str
    observed_seconds: float = 0.0
    blocked: Mean = field(default_factory=Mean)
    levels: dict[str, LevelMeasurement] = field(default_factory=dict)
    interval_seconds: float = 0.0
    node_every: int | None = None
    store_every: int | None = None

    def level(self, name: str) -> LevelMeasurement:
        """The measurement of a level, empty at first."""
        return self.levels.setdefault(name, LevelMeasurement())


def default_socket() -> Path:
    """The metrics socket of this user's agent on this node (docs/internals.md)."""
    folder = os.environ.get("KEDGE_NODE_RUN_FOLDER")
    if folder and folder != "auto":
        return Path(folder) / "metrics.sock"
    host = re.sub(r"[^A-Za-z0-9.-]", "_", socket.gethostname())
    return Path(f"/dev/shm/kedge-{os.geteuid()}") / (os.environ.get("KEDGE_NODE") or host) / "metrics.sock"


def read_socket(path: str | Path) -> str:
    """The text behind a unix socket, with or without HTTP around it; bounded in time and size."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(SOCKET_TIMEOUT)
            connection.connect(str(path))
            return _ask(connection, "--socket", str(path))
    except OSError as error:
        raise PlanError("--socket", str(path), f"the metrics socket of a running agent ({error})") from None


def read_port(port: int) -> str:
    """The text behind the agent's loopback port (its key ``agent.metrics_port``)."""
    if not 1 <= port <= 65535:
        raise PlanError("--port", port, "from 1 to 65535")
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=SOCKET_TIMEOUT) as connection:
            return _ask(connection, "--port", str(port))
    except OSError as error:
        raise PlanError("--port", port, f"the metrics port of a running agent ({error})") from None


def _ask(connection: socket.socket, key: str, value: str) -> str:
    connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
    chunks: list[bytes] = []
    size = 0
    while chunk := connection.recv(65536):
        chunks.append(chunk)
        size += len(chunk)
        if size > MOST_BYTES:
            raise PlanError(key, value, f"at most {MOST_BYTES} bytes of metrics")
    text = b"".join(chunks).decode("utf-8", "replace")
    if text.startswith("HTTP/"):
        text = text.replace("\r\n", "\n").partition("\n\n")[2]
    return text


def parse_prometheus(text: str) -> dict[str, JobMeasurement]:
    """Jobs by name, from Prometheus text; lines about other things are passed over, broken ones refused."""
    jobs: dict[tuple[str, str], JobMeasurement] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        sample = SAMPLE.match(line.strip())
        if sample is None:
            raise PlanError(f"metrics line {number}", line[:120], "NAME{LABELS} VALUE")
        if sample[1].startswith("kedge_"):
            labels = {key: _unescaped(value) for key, value in LABEL.findall(sample[2] or "")}
            _take(jobs, sample[1], labels, _number(sample[3], number))
    return _by_name(jobs)


def _unescaped(value: str) -> str:
    return re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], value)


def _by_name(jobs: Mapping[tuple[str, str], JobMeasurement]) -> dict[str, JobMeasurement]:
    """Jobs by name, or NAME@STORE_ID where several stores hold one of that name."""
    named: dict[str, JobMeasurement] = {}
    names = [name for name, _ in jobs]
    for (name, store_id), job in jobs.items():
        job.job = name if names.count(name) == 1 else f"{name}@{store_id}"
        named[job.job] = job
    return named


def _number(text: str, line: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0.0:
        raise PlanError(f"metrics line {line}", text, "a finite number of at least 0")
    return value


def _take(jobs: dict[tuple[str, str], JobMeasurement], name: str, labels: Mapping[str, str], value: float) -> None:
    """Add one sample to its job; samples without a job, or of other metrics, are not ours."""
    name_of_job = labels.get("job")
    if name_of_job is None:
        return
    job = jobs.setdefault((name_of_job, labels.get("store_id", "")), JobMeasurement(name_of_job))
    if name == OBSERVED:
        job.observed_seconds = value
    elif name == INTERVAL:
        job.interval_seconds = value
    elif name == NODE_EVERY:
        job.node_every = int(value)
    elif name == STORE_EVERY:
        job.store_every = int(value)
    elif name in (f"{BLOCKED}_sum", f"{BLOCKED}_count"):
        _add(job.blocked, name, value)
    elif "level" in labels:
        level = job.level(labels["level"])
        if name in (f"{REACHED}_sum", f"{REACHED}_count"):
            _add(level.reached, name, value)
        elif name in (f"{RESTART}_sum", f"{RESTART}_count"):
            _add(level.restarts, name, value)
        elif name == FAILURES:
            level.failures += value


def _add(mean: Mean, name: str, value: float) -> None:
    if name.endswith("_sum"):
        mean.sum += value
    else:
        mean.count += value


def parse_status(text: str) -> dict[str, JobMeasurement]:
    """Jobs by name, from the JSON of ``kedge status --json``."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise PlanError("status", text[:80], f"JSON ({error})") from None
    entries = document.get("jobs") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise PlanError("status.jobs", entries, "a list of jobs")
    jobs: dict[tuple[str, str], JobMeasurement] = {}
    for index, entry in enumerate(entries):
        where = f"status.jobs[{index}]"
        if not isinstance(entry, dict) or not isinstance(entry.get("job"), str):
            raise PlanError(where, entry, "an object with the name under job")
        job = JobMeasurement(entry["job"], _value(entry, "observed_seconds", where), _mean(entry, "blocked", where))
        levels = entry.get("levels", {})
        if not isinstance(levels, dict):
            raise PlanError(f"{where}.levels", levels, "an object of levels by name")
        for name, measured in levels.items():
            place = f"{where}.levels.{name}"
            if not isinstance(measured, dict):
                raise PlanError(place, measured, "an object")
            job.levels[name] = LevelMeasurement(
                _mean(measured, "reached", place), _mean(measured, "restarts", place), _value(measured, "failures", place)
            )
        schedule = entry.get("schedule", {})
        if not isinstance(schedule, dict):
            raise PlanError(f"{where}.schedule", schedule, "an object")
        job.interval_seconds = _value(schedule, "interval_seconds", f"{where}.schedule")
        if "node_every" in schedule:
            job.node_every = int(_value(schedule, "node_every", f"{where}.schedule"))
        if "store_every" in schedule:
            job.store_every = int(_value(schedule, "store_every", f"{where}.schedule"))
        jobs[(job.job, str(entry.get("store_id", "")))] = job
    return _by_name(jobs)


def _value(table: Mapping[str, object], key: str, where: str) -> float:
    value = table.get(key, 0.0)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0.0:
        raise PlanError(f"{where}.{key}", value, "a finite number of at least 0")
    return float(value)


def _mean(table: Mapping[str, object], key: str, where: str) -> Mean:
    value = table.get(key, {})
    if not isinstance(value, dict):
        raise PlanError(f"{where}.{key}", value, "an object with sum and count")
    return Mean(_value(value, "sum", f"{where}.{key}"), _value(value, "count", f"{where}.{key}"))
