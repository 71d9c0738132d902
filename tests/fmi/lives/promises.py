"""What docs/fmi.md promises, held against what happened in a life (player.Record). It knows nothing of how FMI works."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lives.player import TURNS_MAX, Record

DEATH = re.compile(r"rank (\d+) \(process (\d+)\) was killed by signal (\d+)")
GONE = re.compile(r"fmirun: node (\S+) is gone")
FAILED_TURN = re.compile(r"rank \d+: the checkpoint of call (\d+) of the loop turns in step (\d+) has failed")
FAILED = re.compile(r"rank \d+: the checkpoint of step (\d+) has failed")
LOST = "'fmi' is lost: "


@dataclass(frozen=True)
class Violation:
    kind: str
    sentence: str


def broken(record: Record) -> Violation | None:
    """The first promise that was broken; nothing where all were kept."""
    if record.was_stopped:
        return None
    found = [_hang, _result, _end, _deaths, _alarms, _checkpoints, _turns, _left]
    return next((violation for violation in (check(record) for check in found) if violation), None)


def _hang(record: Record) -> Violation | None:
    return Violation("hangs", record.hang) if record.hang else None


def _result(record: Record) -> Violation | None:
    if record.wrong:
        return Violation("wrong-arrays", record.wrong[0])
    if others := [result for result in record.results if result != record.expected]:
        return Violation("wrong-result", f"{others[0]}, and not {record.expected}")
    if record.launches[-1].code == 0 and not record.results:
        return Violation("no-result", "it has ended with 0, and said no result")
    return None


def _end(record: Record) -> Violation | None:
    """The last launch completes, or says that no checkpoint is left. What dies behind FMI_Finalize costs the exit code alone."""
    last = record.launches[-1]
    if any(LOST in line for line in last.said) and any(what == "memory" for what, _, _ in record.events):
        return None
    behind = any("after FMI_Finalize" in line or "is gone" in line for line in last.said) and last.code in (1, 137)
    if last.code == 0 or (record.results and (record.faults or record.life.deaths) and behind) or (record.results and last.was_killed):
        return None
    said = [line for line in last.said if not line.startswith(("fmirun: all ranks run again",))]
    return Violation("ends", f"it has ended with {last.code}: {' | '.join(said[-3:])}")


def _deaths(record: Record) -> Violation | None:
    """Nobody dies but by a fault."""
    for line in _said(record):
        if match := DEATH.search(line):
            rank, process, number = map(int, match.groups())
            own = any(rank == its for its, _ in record.life.deaths)
            if number != 9 or (process not in record.killed and not own):
                return Violation("dies", line)
        if "does not hold" in line or "assertion" in line.lower():
            return Violation("dies", line)
    return None


def _alarms(record: Record) -> Violation | None:
    """Nodes and connections are not given up without a reason."""
    verbs = {fault.verb for fault in record.faults}
    for line in _said(record):
        if (match := GONE.search(line)) and match[1] not in record.faulted_nodes:
            return Violation("false-alarm", line)
        # Whoever stands still is told late of a death.
        if "has lost a connection" in line and not verbs & {"cut", "stop-task", "stop-fmirun"}:
            return Violation("false-alarm", line)
    return None


def _checkpoints(record: Record) -> Violation | None:
    """All come back to the newest checkpoint that all had taken, unless memory was lost since."""
    failed = {int(match[1]) for line in _said(record) if (match := FAILED.search(line))}
    taken: dict[int, set[int]] = {}
    is_bound = True
    for what, rank, step in record.events:
        if what == "memory":
            is_bound = False
        elif what == "at":
            taken.setdefault(step, set()).add(rank)
        elif what == "back":
            whole = [its for its, ranks in taken.items() if len(ranks) == record.life.ranks and its not in failed]
            if is_bound and whole and step < max(whole):
                return Violation("lost-checkpoint", f"rank {rank} has come back to step {step}, and all had taken that of {max(whole)}")
            # What they do from here on they do again.
            taken = {its: ranks for its, ranks in taken.items() if its <= step}
            is_bound = True
    return None


def _turns(record: Record) -> Violation | None:
    """A step that has come back has its loop where all ranks had taken its newest checkpoint, unless memory was lost since."""
    failed = {int(match[2]) * TURNS_MAX + int(match[1]) for line in _said(record) if (match := FAILED_TURN.search(line))}
    taken: dict[int, set[int]] = {}
    is_bound = True
    for what, rank, moment in record.events:
        if what == "memory":
            is_bound = False
        elif what == "back":
            # Steps behind it are begun anew.
            taken = {its: ranks for its, ranks in taken.items() if its // TURNS_MAX <= moment}
        elif what == "turn":
            taken.setdefault(moment, set()).add(rank)
        elif what == "turn-back":
            step, turn = divmod(moment, TURNS_MAX)
            whole = [its for its, ranks in taken.items() if its // TURNS_MAX == step and len(ranks) == record.life.ranks and its not in failed]
            if is_bound and whole and moment < max(whole):
                return Violation("lost-turns", f"rank {rank} has come back to turn {turn} of step {step}, and all had taken that of {max(whole) % TURNS_MAX}")
            taken = {its: ranks for its, ranks in taken.items() if its <= moment}
            is_bound = True
    return None


def _left(record: Record) -> Violation | None:
    return Violation("leaves", record.left[0]) if record.left else None


def _said(record: Record) -> list[str]:
    return [line for launch in record.launches for line in launch.said]
