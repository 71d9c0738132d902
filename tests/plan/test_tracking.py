"""What page tracking saves and costs: against what was measured, and where it stops paying."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kedge.plan.cli import main
from kedge.plan.errors import PlanError
from kedge.plan.tracking import Costs, break_even, tracked

GIBIBYTE = 2.0**30
WORDS = ("tracking", "--bytes", "1e9", "--interval", "60")


def test_it_says_about_what_was_measured() -> None:
    """1 GiB, 1% of the pages at random: 120 ms plain, 9.4 tracked; steps of 189 ms no longer (docs/performance.md)."""
    one = tracked(GIBIBYTE, 0.01, 0.189, Costs(copy_bytes_per_second=GIBIBYTE / 0.120))
    assert one.plain_seconds == pytest.approx(0.120)
    assert one.blocked_seconds == pytest.approx(9.4e-3, rel=0.15)
    assert one.slowdown < 0.03 and one.pays


def test_a_scan_is_all_that_is_left_where_nothing_is_written() -> None:
    none = tracked(GIBIBYTE, 0.0, 60.0, Costs())
    assert (none.blocked_seconds, none.slowdown) == (pytest.approx(0.45e-3), 0.0)


@pytest.mark.parametrize("run_pages", [1.0, 16.0, 512.0])
def test_it_pays_up_to_the_break_even(run_pages: float) -> None:
    costs = Costs(run_pages=run_pages)
    most = break_even(costs)
    assert 0 < most < 1
    assert tracked(1e9, 0.99 * most, 600.0, costs).saved_seconds > 0
    assert tracked(1e9, 1.01 * most, 600.0, costs).saved_seconds < 0


def test_pages_that_follow_each_other_cost_less() -> None:
    assert break_even(Costs(run_pages=16)) > 2 * break_even(Costs(run_pages=1))


def test_steps_that_are_much_longer_do_not_pay() -> None:
    short = tracked(1e9, 0.05, 0.1, Costs(copy_bytes_per_second=1e9))
    assert short.saved_seconds > 0 and short.slowdown > 0.03 and not short.pays


@pytest.mark.parametrize("written", [-0.1, 1.1])
def test_parts_out_of_range_are_refused(written: float) -> None:
    with pytest.raises(PlanError):
        tracked(1e9, written, 60.0, Costs())


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "tracking.png"
    assert main([*WORDS, "--written", "0.01,0.9", "--json", "--png", str(picture)]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [part["pays"] for part in answer["parts"]] == [True, False]
    assert 0 < answer["break_even"] < 0.5
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert main(list(WORDS)) == 0
    assert "of the pages are written in an interval" in capsys.readouterr().out
    assert main([*WORDS, "--written", "1"]) == 1


@pytest.mark.parametrize("words", [["--written", "x"], ["--written", "2"], ["--run-pages", "0"], ["--copy-rate", "-1"]])
def test_bad_options_are_named(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, *words]) == 2
    assert words[0] in capsys.readouterr().err
