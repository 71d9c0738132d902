"""One application's campaign: an uninterrupted run, then the same run killed again and again, then the comparison.

Where and when the kills fall is drawn from a seeded generator, around what the uninterrupted run measured: how long a
checkpoint call blocks, how long until it is durable, how far checkpoints are apart.
"""

from __future__ import annotations

import dataclasses
import random
import statistics
from collections.abc import Callable
from typing import Any

from applications import Application, differences
from launch import Kill, Launch, Launcher, LaunchError


TRIALS_MAX = 5  # for a strike that is aimed at a moment of microseconds and misses it
TIMED_TRIALS_MAX = 2  # then a checkpoint call is struck as it begins
AIMS = {"checkpoint": "in checkpoint", "flush": "in the flush", "random": ""}  # how a launch's `hit` begins then


@dataclasses.dataclass(frozen=True)
class Strike:
    """A planned kind of death: the moment, and what dies with the rank."""

    moment: str
    with_agent: bool = False
    with_memory: bool = False


@dataclasses.dataclass(frozen=True)
class Pace:
    """What the uninterrupted run measured over its checkpoints; seconds."""

    blocked: float
    blocked_min: float
    durable: float
    interval: float


@dataclasses.dataclass
class Campaign:
    """The outcome of one application's campaign."""

    application: Application
    ranks: int
    reference: Launch
    launches: list[Launch]
    rows: list[dict[str, Any]]
    problems: list[str]


def run_campaign(launcher: Launcher, application: Application, ranks: int, strikes: list[Strike], seed: random.Random,
                 say: Callable[[str], None]) -> Campaign:
    """Runs it all; a difference between the results is in `problems`, a launch that fails otherwise raises LaunchError."""
    name = application.program
    say(f"{application.title}: uninterrupted, {application.steps} steps, a checkpoint every {application.interval}")
    reference = launcher.run(application, f"{name}-reference", 0)
    pace = measure_pace(reference, launcher, f"{name}-reference")
    say(f"  done in {reference.seconds:.1f} s; a checkpoint blocks {_duration(pace.blocked)} and is durable after "
        f"{_duration(pace.durable)}")

    launches: list[Launch] = []
    planned = [(strike, 1, 1.0) for strike in strikes]
    while planned:
        strike, trial, scale = planned.pop(0)
        kill = aim(strike, scale, application.versions(), newest_of(launches), len(planned), ranks, pace, seed)
        launches.append(launcher.run(application, name, len(launches) + 1, kill))
        say(f"  launch {len(launches)}: {_beginning(launches[-1])}; {_ending(launches[-1])}")
        if not launches[-1].hit.startswith(AIMS[strike.moment]) and trial < TRIALS_MAX:
            closer = scale * (1 / 4 if was_late(launches[-1]) else 3)
            planned.insert(0, (strike, trial + 1, closer if trial < TIMED_TRIALS_MAX else 0.0))
    launches.append(launcher.run(application, name, len(launches) + 1))
    say(f"  launch {len(launches)}: {_beginning(launches[-1])}; {_ending(launches[-1])}")

    problems = differences(
        application.result(reference.output, [reference.log]),
        application.result(launches[-1].output, [launch.log for launch in launches]),
    )
    durable = {version: when for (job, version, _), when in launcher.watch.durable.items() if job == name}
    problems += misses(launches, ranks, durable)
    equal = "equal" if not problems else "DIFFERENT: " + "; ".join(problems[:3])
    say(f"  compared with the uninterrupted run ({application.criterion()}): {equal}")
    rows = [row(launcher, f"{name}-reference", reference, [])]
    rows += [row(launcher, name, launch, launches[number:]) for number, launch in enumerate(launches, 1)]
    return Campaign(application, ranks, reference, launches, rows, problems)


def measure_pace(launch: Launch, launcher: Launcher, job: str) -> Pace:
    taken = [event for event in launch.of("checkpoint") if event["rank"] == 0]
    if not taken:
        raise LaunchError("the uninterrupted run has taken no checkpoint")
    blocked = [event["blocked_seconds"] for event in launch.of("checkpoint")]
    durable = durable_seconds(launcher, job, launch, [])
    gaps = [after["began"] - before["began"] for before, after in zip(taken, taken[1:])]
    if not durable:
        raise LaunchError("no version of the uninterrupted run became complete in the store")
    return Pace(statistics.median(blocked), min(blocked), statistics.median(durable), statistics.median(gaps) if gaps else 1.0)


def was_late(launch: Launch) -> bool:
    """Whether the victim had returned from the call that was aimed at; else it died before it got there."""
    kill = launch.kill
    return kill is not None and any(event["version"] >= kill.version and event["rank"] == kill.rank for event in launch.of("checkpoint"))


def aim(strike: Strike, scale: float, versions: list[int], floor: int, strikes_left: int, ranks: int, pace: Pace,
        seed: random.Random) -> Kill:
    """Draws rank, version and moment, leaving later versions to the strikes that are still to come.

    Of the versions not reached yet, the first is left alone where there are enough: with it a launch makes progress.
    `scale` is of the part of the call that is aimed at: a trial after a miss aims closer to the call's beginning, or further from
    it, for on a busy machine calls and timers take several times as long, or not. A flush is aimed at by seeing it (launch.py).
    """
    ahead = [version for version in versions[:-1] if version > floor]  # the victim dies at its end at the latest
    share = max(1, len(ahead) // (strikes_left + 1))
    candidates = ahead[:share]
    version = seed.choice(candidates[1:] or candidates or versions[-1:])
    if strike.moment == "checkpoint":
        seconds = pace.blocked_min * seed.uniform(0.1, 0.9) * scale
    else:
        seconds = pace.interval * seed.random() if strike.moment == "random" else 0.0
    return Kill(seed.randrange(ranks), version, seconds, strike.moment, strike.with_agent, strike.with_memory)


def newest_of(launches: list[Launch]) -> int:
    """The newest version that any rank has taken so far; 0 before the first."""
    return max((event["version"] for launch in launches for event in launch.of("checkpoint")), default=0)


def misses(launches: list[Launch], ranks: int, durable: dict[int, float]) -> list[str]:
    """What must hold beside equal results: no launch loses a version that was promised to survive the death before it.

    `durable` says when each version became complete in the store. A killed application keeps what all its ranks had
    captured; a lost node keeps what was in the store.
    """
    problems = []
    promised = 0
    for launch in launches:
        restored = {event["version"] for event in launch.of("restart")}
        if len(restored) > 1:
            problems.append(f"launch {launch.number}: the ranks restored different versions: {sorted(restored)}")
        begun = min(restored, default=0)
        if begun < promised:
            problems.append(f"launch {launch.number}: continued from {begun}, though {promised} was promised to survive")
        lost_memory = launch.kill is not None and launch.kill.with_memory and launch.killed
        in_store = [version for version, when in durable.items() if when <= launch.died]
        promised = max(in_store, default=0) if lost_memory else max(captured_by_all(launch, ranks), default=begun)
    if launches[-1].killed:
        problems.append("the last launch did not finish")
    return problems


def captured_by_all(launch: Launch, ranks: int) -> list[int]:
    """The versions whose checkpoint call had returned with success on every rank."""
    counts: dict[int, int] = {}
    for event in launch.of("checkpoint"):
        if event["status"] == 0:
            counts[event["version"]] = counts.get(event["version"], 0) + 1
    return [version for version, count in counts.items() if count == ranks]


def durable_seconds(launcher: Launcher, job: str, launch: Launch, later: list[Launch]) -> list[float]:
    """For each version of this launch that became complete: seconds from the first rank's call to its version record.

    A version that a later launch has taken again counts for this one only up to then.
    """
    retaken = first_calls(later)
    seconds = []
    for version, start in first_calls([launch]).items():
        known = launcher.watch.durable.items()
        ends = [end for (name, found, _), end in known if (name, found) == (job, version)]
        ends = [end for end in ends if start <= end < retaken.get(version, float("inf"))]
        if ends:
            seconds.append(min(ends) - start)
    return seconds


def first_calls(launches: list[Launch]) -> dict[int, float]:
    """When the first rank called for each version; seconds since 1970."""
    began: dict[int, float] = {}
    for launch in launches:
        for event in launch.of("checkpoint"):
            began[event["version"]] = min(event["began"], began.get(event["version"], event["began"]))
    return began


def row(launcher: Launcher, job: str, launch: Launch, later: list[Launch]) -> dict[str, Any]:
    """The figures of one launch. Bytes are sums over ranks; blocked is the longest rank's sum over its checkpoints."""
    blocked: dict[int, float] = {}
    newest: dict[int, dict[str, Any]] = {}
    for event in launch.of("checkpoint"):
        blocked[event["rank"]] = blocked.get(event["rank"], 0.0) + event["blocked_seconds"]
        newest[event["rank"]] = event
    durable = durable_seconds(launcher, job, launch, later)
    restarts = launch.of("restart")
    sources = {source: sum(event[f"bytes_{source}"] for event in restarts) for source in ("pool", "directory", "store")}
    return {
        "launch": launch.number,
        "end": launch.hit + company(launch) if launch.killed else "finished",
        "killed": launch.killed,
        "agent_killed": launch.agent_killed,
        "seconds": launch.seconds,
        "restored_version": min((event["version"] for event in restarts), default=None),
        "restored_bytes": sources,
        "restart_seconds": max((event["seconds"] for event in restarts), default=None),
        "checkpoints": len({event["version"] for event in launch.of("checkpoint")}),
        "checkpoints_inline": max((event["inline"] for event in newest.values()), default=0),
        "blocked_seconds": max(blocked.values(), default=0.0),
        "durable_seconds": statistics.median(durable) if durable else None,
        "durable_versions": len(durable),
        "bytes": {tier: sum(event[f"bytes_{tier}"] for event in newest.values()) for tier in ("pool", "directory", "through")},
        "failed_checkpoints": sum(event["status"] != 0 for event in launch.of("checkpoint")),
    }


def company(launch: Launch) -> str:
    """What died with the victim, in words."""
    memory = launch.kill is not None and launch.kill.with_memory
    return ", with agent and pool" if memory else ", with the agent" if launch.agent_killed else ""


def _duration(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.2f} ms"


def _beginning(launch: Launch) -> str:
    restarts = launch.of("restart")
    if not restarts:
        return "began at step 0"
    seconds = max(event["seconds"] for event in restarts)
    return f"continued from step {restarts[0]['version']} (restored in {_duration(seconds)})"


def _ending(launch: Launch) -> str:
    if not launch.killed:
        return f"finished after {launch.seconds:.1f} s"
    assert launch.kill is not None
    return f"rank {launch.kill.rank} killed {launch.hit}{company(launch)}"
