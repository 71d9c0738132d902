"""``kedge plan watch``: propose, or set, the schedule of a running job from what it measures."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence

from kedge.plan import cli
from kedge.plan.catalog import find_system
from kedge.plan.errors import PlanError
from kedge.plan.online import LEAST_GAIN, PRIOR_FAILURES, Proposal, measured_levels, propose
from kedge.plan.runtime_metrics import (
    MOST_BYTES,
    JobMeasurement,
    default_socket,
    parse_prometheus,
    parse_status,
    read_port,
    read_socket,
)
from kedge.plan.schedule import Schedule
from kedge.plan.schedule_section import (
    LOCAL,
    NODE,
    STORE,
    level_periods,
    runtime_levels,
    section_toml,
    write_section,
)
from kedge.plan.system import System

DESCRIPTION = """\
Read what a job measures (blocked times, times to each level, restarts, failures), correct the system by it, and
propose the best schedule. The source is the agent's metrics socket (the default) or port, a file of metrics in
Prometheus text, or the JSON of `kedge status --json`. SYSTEM names its levels as the runtime does: local, node (or
partner, xor, rs) and store.
A change is proposed only when it gains enough over the present schedule, which the job reports where it goes by
schedule.interval; --interval and --counts say it otherwise. What --set writes holds from the next launch on; a job
that shall follow while it runs sets schedule.adapt instead.
"""
EPILOG = """\
example:
  kedge plan watch my-system.toml --job solver --every 600
  kedge status --json | kedge plan watch my-system.toml --status - --once
"""


def add(subparsers: cli.Subparsers) -> None:
    """Add the parser of this command."""
    parser = subparsers.add_parser(
        "watch",
        help="propose the schedule of a running job from what it measures",
        description=DESCRIPTION,
        epilog=EPILOG,
        usage="kedge plan watch [OPTIONS] SYSTEM",
        formatter_class=cli.Formatter,
    )
    cli.add_system_argument(parser)
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--socket", metavar="PATH", help=f"the agent's metrics socket (default {default_socket()})")
    source.add_argument("--port", type=int, help="the agent's metrics port on this machine (its key agent.metrics_port)")
    source.add_argument("--metrics", metavar="FILE", help="metrics in Prometheus text; - is standard input")
    source.add_argument("--status", metavar="FILE", help="the JSON of `kedge status --json`; - is standard input")
    parser.add_argument("--job", metavar="NAME", help="the job; may be left out when there is one")
    cli.add_schedule_arguments(parser)
    parser.add_argument("--every", type=float, default=60.0, metavar="SECONDS", help="read again after (default 60)")
    parser.add_argument("--once", action="store_true", help="read once and end")
    parser.add_argument("--set", metavar="FILE", help="write the [schedule] section into this configuration file whenever a change is proposed")
    parser.add_argument(
        "--least-gain", type=float, default=LEAST_GAIN, metavar="X", help="efficiency worth a change (default %(default)s)"
    )
    parser.add_argument(
        "--prior-failures",
        type=float,
        default=PRIOR_FAILURES,
        metavar="N",
        help="how many observed failures the given rates are worth (default %(default)s)",
    )
    cli.add_json_argument(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry the command out; returns the exit code."""
    system = find_system(arguments.system)
    interval = None if arguments.interval is None else cli.parse_interval(arguments.interval, system)
    counts = None if arguments.counts is None else cli.parse_counts(arguments.counts, len(system.levels))
    if not 0.1 <= arguments.every <= 86400.0:
        raise PlanError("--every", arguments.every, "from 0.1 to 86400 seconds")
    once = arguments.once or "-" in (arguments.metrics, arguments.status)
    while True:
        try:
            job = choose_job(read_jobs(arguments), arguments.job)
            proposal = propose(
                system,
                job,
                interval_seconds=present_interval(job) if interval is None else interval,
                counts=present_counts(job, system) if counts is None else counts,
                prior_failures=arguments.prior_failures,
                least_gain=arguments.least_gain,
            )
            if proposal.change and arguments.set:
                write_section(arguments.set, proposal.system, _schedule(proposal), "--set")
                interval, counts = proposal.best.interval_seconds, proposal.best.counts
            show(job, proposal, arguments.json)
        except PlanError as error:
            if once:
                raise
            print(f"kedge plan watch: {error}; reading again", file=sys.stderr)  # an agent comes back after a restart
        if once:
            return 0
        try:
            time.sleep(arguments.every)
        except KeyboardInterrupt:
            return 0


def read_jobs(arguments: argparse.Namespace) -> dict[str, JobMeasurement]:
    """The jobs that the chosen source reports."""
    if arguments.status is not None:
        return parse_status(_read(arguments.status, "--status"))
    if arguments.metrics is not None:
        return parse_prometheus(_read(arguments.metrics, "--metrics"))
    if arguments.port is not None:
        return parse_prometheus(read_port(arguments.port))
    return parse_prometheus(read_socket(arguments.socket or default_socket()))


def _read(path: str, key: str) -> str:
    try:
        if path == "-":
            return sys.stdin.read(MOST_BYTES)
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read(MOST_BYTES)
    except OSError as error:
        raise PlanError(key, path, f"a file that can be read ({error.strerror})") from None


def choose_job(jobs: dict[str, JobMeasurement], name: str | None) -> JobMeasurement:
    """The job of that name, or the only one."""
    if name is not None and name in jobs:
        return jobs[name]
    if name is None and len(jobs) == 1:
        return next(iter(jobs.values()))
    raise PlanError("--job", name, f"one of the jobs that report: {', '.join(sorted(jobs)) or 'none does'}")


def present_interval(job: JobMeasurement) -> float | None:
    """The interval that the job goes by; None where it checkpoints when it likes."""
    return job.interval_seconds if job.interval_seconds > 0.0 else None


def present_counts(job: JobMeasurement, system: System) -> tuple[int, ...] | None:
    """The job's counts, where it says them and the system's levels are the runtime's.

    The job counts checkpoints for each level on its own; the nearest multiple of the level below is what the model has.
    """
    every = {LOCAL: 1, NODE: job.node_every, STORE: job.store_every}
    counts: list[int] = []
    below = 1
    for role in runtime_levels(system)[1:]:
        own = None if role is None else every[role]
        if own is None or own < below:
            return None
        counts.append(int(own / below + 0.5) - 1)
        below *= counts[-1] + 1
    return tuple(counts)


def _schedule(proposal: Proposal) -> Schedule:
    return Schedule(proposal.best.interval_seconds, proposal.best.counts)


def show(job: JobMeasurement, proposal: Proposal, as_json: bool) -> None:
    """Print one reading, as a line of text or of JSON."""
    schedule = _schedule(proposal)
    if as_json:
        answer = cli.finite(
            {
                "job": job.job,
                "observed_seconds": job.observed_seconds,
                "change": proposal.change,
                "reason": proposal.reason,
                "present_efficiency": proposal.present_efficiency,
                **proposal.best.as_dict(),
                "levels": [_level_answer(job, proposal, index) for index in range(len(proposal.system.levels))],
                "schedule_toml": section_toml(proposal.system, schedule),
            }
        )
        print(json.dumps(answer), flush=True)
    else:
        print(_text(job, proposal), flush=True)


def _level_answer(job: JobMeasurement, proposal: Proposal, index: int) -> dict[str, object]:
    level = proposal.system.levels[index]
    found = measured_levels(proposal.system, job)[index]
    return {
        "name": level.name,
        "overhead_seconds": level.overhead_seconds,
        "latency_seconds": level.latency_seconds,
        "restart_seconds": level.restart_seconds,
        "failure_rate_per_second": level.failure_rate_per_second,
        "failures": found.failures,
        "measured": found.reached.count > 0.0,
    }


def _text(job: JobMeasurement, proposal: Proposal) -> str:
    periods: Sequence[tuple[str, int]] = level_periods(proposal.system, _schedule(proposal))
    levels = ", ".join(f"{name}:{every}" for name, every in periods)
    present = "unknown" if proposal.present_efficiency is None else f"{proposal.present_efficiency:.4f}"
    verdict = "change to" if proposal.change else "keep; best would be"
    return (
        f"{job.job}: {verdict} interval {proposal.best.interval_seconds:.0f} s, levels {levels} "
        f"(efficiency {proposal.best.efficiency:.4f}, now {present}; {proposal.reason})"
    )
