"""The vectors shared with the C++ twin are those of the present Python model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kedge.plan.model import evaluate
from kedge.plan.optimum import optimum
from kedge.plan.system import Level, System

FOLDER = Path(__file__).resolve().parents[1] / "vectors"
PATH = FOLDER / "interval_optimum.json"


def vectors() -> list[dict[str, Any]]:
    """All entries of the file."""
    entries: list[dict[str, Any]] = json.loads(PATH.read_text())["vectors"]
    return entries


def system_of(entry: dict[str, Any]) -> System:
    """The system of an entry."""
    levels = tuple(Level(name=f"level{index}", **level) for index, level in enumerate(entry["levels"]))
    return System(entry["work_seconds"], entry["alpha"], levels)


def test_every_schedule_has_its_expected_period() -> None:
    entries = vectors()
    assert len(entries) >= 50
    for entry in entries:
        for schedule in entry["schedules"]:
            result = evaluate(system_of(entry), schedule["interval_seconds"], schedule["counts"])
            assert result.period_seconds == pytest.approx(schedule["expected_period_seconds"], rel=1e-9), entry["name"]


def check_optimum(entry: dict[str, Any]) -> None:
    best = optimum(system_of(entry))
    assert best.interval_seconds == pytest.approx(entry["optimum"]["interval_seconds"], rel=1e-6)
    assert list(best.counts) == entry["optimum"]["counts"]
    assert best.efficiency == pytest.approx(entry["optimum"]["efficiency"], rel=1e-9)


@pytest.mark.parametrize("place", (0, 3, 6, 9, 11))
def test_optima_are_those_of_the_file(place: int) -> None:
    check_optimum(vectors()[place])


def test_what_watch_finds_for_measured_jobs_is_that_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """The generator is run again, for every sixth job."""
    monkeypatch.syspath_prepend(str(FOLDER))
    import make_interval_advice

    jobs: list[dict[str, Any]] = json.loads((FOLDER / "interval_advice.json").read_text())["vectors"]
    assert len(jobs) >= 30
    for job in jobs[::6]:
        found = make_interval_advice.vector({key: job[key] for key in job if key not in ("kept", "best")})
        for answer in ("kept", "best"):
            assert found[answer]["counts"] == job[answer]["counts"]
            assert found[answer]["interval_seconds"] == pytest.approx(job[answer]["interval_seconds"], rel=1e-6)
            assert found[answer]["efficiency"] == pytest.approx(job[answer]["efficiency"], rel=1e-9)


@pytest.mark.slow
def test_all_optima_are_those_of_the_file() -> None:
    for entry in vectors():
        check_optimum(entry)
