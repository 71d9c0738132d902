"""Whole lives of FMI jobs (lives/README.md): those that once broke a promise, a few fresh ones, long ones; and the checker."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from lives.campaign import Campaign, Options, play
from lives.life import Fault, Life, generated, long_one, parse
from lives.player import Launch, Record
from lives.promises import broken

FOUND = sorted((Path(__file__).parent / "lives" / "found").glob("*.life"))
LONG_SECONDS = 600


def campaign(options: Options) -> None:
    told: list[str] = []
    played = Campaign(options, threading.Event(), told.append)
    played.run()
    assert not played.violations, "\n".join(told)


@pytest.mark.parametrize("file", FOUND, ids=lambda file: file.stem)
def test_lives_that_once_broke_a_promise(file: Path) -> None:
    told: list[str] = []
    violation = play(parse(file.read_text()), told.append)
    assert violation is None, f"{violation}\n" + "\n".join(told)


def test_short_lives_keep_all_promises() -> None:
    campaign(Options(first=1, last=4, seconds=15, jobs=2))


@pytest.mark.slow
def test_many_short_lives_keep_all_promises() -> None:
    first = int(os.environ.get("KEDGE_TEST_SEED", time.time_ns() // 1_000_000_000 * 1000))
    print(f"KEDGE_TEST_SEED={first}")
    campaign(Options(first=first, seconds=LONG_SECONDS, jobs=2))


@pytest.mark.slow
def test_a_long_life_with_a_fault_every_half_minute_keeps_all_promises() -> None:
    first = int(os.environ.get("KEDGE_TEST_SEED", time.time_ns() // 1_000_000_000 * 1000))
    print(f"KEDGE_TEST_SEED={first}")
    campaign(Options(first=first, last=first, length=LONG_SECONDS, mtbf=30))


@pytest.mark.parametrize("seed", range(20))
def test_a_life_is_text_and_replays(seed: int) -> None:
    for life in (generated(seed), long_one(seed, 600, 30)):
        assert parse(life.text()) == life
    assert generated(seed) == generated(seed)


@pytest.mark.parametrize("line", ["ranks", "ranks many", "+1 fly 2", "+soon kill 1", "program 1", "colour red"])
def test_what_is_no_life_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="is no line of a life"):
        parse(f"# all but this is one\nnodes 2\n{line}\n")


def kept() -> Record:
    """Two ranks that have come back from a death to the checkpoint of step 10, and completed."""
    events = [("back", rank, 0) for rank in (0, 1)] + [("at", rank, step) for step in (0, 10) for rank in (0, 1)]
    events += [("back", rank, 10) for rank in (0, 1)]
    launch = Launch(["a", "b"], 0, code=0, said=["fmirun: rank 1 (process 77) was killed by signal 9; it is started again"])
    return Record(Life(ranks=2, nodes=2), "result 1", [launch], events, ["result 1"], [], [Fault(1, "kill", ("1",))], {77})


def saying(record: Record, *lines: str, **changes: object) -> Record:
    launch = replace(record.launches[-1], said=[*record.launches[-1].said, *lines], **changes)  # type: ignore[arg-type]
    return replace(record, launches=[*record.launches[:-1], launch])


GONE = "fmirun: node b is gone: its task has ended, and no spare node is left for rank 1"


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        (kept(), None),
        (replace(kept(), hang="nothing has happened"), "hangs"),
        (replace(kept(), results=["result 1", "result 2"]), "wrong-result"),
        (replace(kept(), results=[]), "no-result"),
        (replace(kept(), wrong=["wrong: rank 1 has the arrays of step 3 in step 10"]), "wrong-arrays"),
        (saying(kept(), "FMI: rank 1: FMI_Loop: no room", code=1), "ends"),
        (saying(kept(), "fmirun: rank 1 has ended with code 137 after FMI_Finalize", code=137), None),
        (replace(saying(kept(), GONE, code=1), results=[], faulted_nodes={"b"}), "ends"),
        (saying(kept(), GONE), "false-alarm"),
        (replace(saying(kept(), GONE), faulted_nodes={"b"}), None),
        (saying(kept(), "fmirun: rank 0 has lost a connection; all go back to the last checkpoint"), "false-alarm"),
        (saying(kept(), "fmirun: rank 0 (process 78) was killed by signal 9; it is started again"), "dies"),
        (saying(kept(), "fmirun: rank 1 (process 77) was killed by signal 11; it is started again"), "dies"),
        (replace(kept(), events=[*kept().events[:-1], ("back", 1, 0)]), "lost-checkpoint"),
        (replace(kept(), events=[*kept().events[:-2], ("memory", -1, -1), ("back", 0, 0), ("back", 1, 0)]), None),
        (replace(kept(), left=["an agent"]), "leaves"),
    ],
)
def test_the_checker_sees_what_breaks_a_promise(record: Record, kind: str | None) -> None:
    violation = broken(record)
    assert (violation.kind if violation else None) == kind
