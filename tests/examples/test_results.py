"""What the main job calls equal: a difference in one bit or one digit must be found."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples" / "support"))

from applications import Application, Lammps, differences  # noqa: E402
from campaign import Pace, Strike, aim, misses, was_late  # noqa: E402
from launch import Kill, Launch  # noqa: E402

HEAT = Application("heat", "heat3d", 8, 100, 10)
COPPER = Lammps("copper", "lammps-copper", 8, 20, 10, "potential")
FINISHED = "copper: finished at step 20\n"


def thermo(step: int, energy: str) -> str:
    return f"{step:8d} 803.03853457964749 {energy} 0 -13330.283020541596 51295.761962035933 \n"


def test_equal_checksums_are_equal() -> None:
    text = "heat3d: 8 cells a side, step 100, checksum 00FF00FF00FF00FF\n"
    assert differences(HEAT.result(text, []), HEAT.result(text, [])) == []


def test_another_checksum_is_a_difference() -> None:
    text = "heat3d: 8 cells a side, step 100, checksum 00FF00FF00FF00F%s\n"
    assert len(differences(HEAT.result(text % "F", []), HEAT.result(text % "E", []))) == 1


def test_no_result_is_a_difference() -> None:
    assert differences(HEAT.result("crashed", []), HEAT.result("crashed", [])) != []


def test_a_later_launch_replaces_what_an_earlier_one_printed(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("Step Temp\n" + thermo(10, "-1.0") + thermo(20, "-9.9"))
    second.write_text(thermo(20, "-2.0"))
    whole = tmp_path / "whole"
    whole.write_text(thermo(10, "-1.0") + thermo(20, "-2.5") + thermo(20, "-2.0"))
    assert differences(COPPER.result(FINISHED, [whole]), COPPER.result(FINISHED, [first, second])) == []


def test_one_digit_of_one_step_is_a_difference(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text(thermo(10, "-13745.382729345587"))
    other.write_text(thermo(10, "-13745.382729345588"))
    assert len(differences(COPPER.result(FINISHED, [one]), COPPER.result(FINISHED, [other]))) == 1


def test_a_step_that_is_missing_is_a_difference(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text(thermo(10, "-1.0") + thermo(20, "-2.0"))
    other.write_text(thermo(10, "-1.0"))
    assert len(differences(COPPER.result(FINISHED, [one]), COPPER.result(FINISHED, [other]))) == 1


def launch_of(number: int, restored: list[int], captured: list[list[int]], kill: Kill | None = None) -> Launch:
    """A launch whose ranks restored and captured these versions; killed at second 100 when there is a kill."""
    events: list[dict[str, Any]] = [
        {"event": "restart", "rank": rank, "version": version} for rank, version in enumerate(restored)
    ]
    for rank, versions in enumerate(captured):
        events += [{"event": "checkpoint", "rank": rank, "version": version, "status": 0} for version in versions]
    return Launch(number, kill, killed=kill is not None, died=100.0, events=events)


PROCESS = Kill(0, 20, 0, "random")
NODE = Kill(0, 20, 0, "random", with_memory=True)


def test_a_continuation_from_the_newest_common_version_is_fine() -> None:
    launches = [launch_of(1, [], [[10, 20], [10]], PROCESS), launch_of(2, [10, 10], [[20], [20]])]
    assert misses(launches, 2, {}) == []


def test_ranks_that_restore_different_versions_are_found() -> None:
    assert any("different versions" in problem for problem in misses([launch_of(1, [20, 30], [])], 2, {}))


def test_the_loss_of_a_version_that_all_ranks_had_captured_is_found() -> None:
    launches = [launch_of(1, [], [[10, 20], [10, 20]], PROCESS), launch_of(2, [10, 10], [])]
    assert any("continued from 10, though 20" in problem for problem in misses(launches, 2, {}))


def test_a_lost_node_keeps_what_was_in_the_store() -> None:
    launches = [launch_of(1, [], [[10, 20], [10, 20]], NODE), launch_of(2, [10, 10], [])]
    assert misses(launches, 2, {10: 99.0, 20: 101.0}) == []
    assert any("though 20" in problem for problem in misses(launches, 2, {10: 98.0, 20: 99.0}))


def test_a_launch_that_takes_no_checkpoint_keeps_what_it_restored() -> None:
    launches = [launch_of(1, [30, 30], [[], []], PROCESS), launch_of(2, [20, 20], [])]
    assert any("though 30" in problem for problem in misses(launches, 2, {}))


def test_a_campaign_that_ends_with_a_kill_is_found() -> None:
    assert misses([launch_of(1, [], [], PROCESS)], 2, {}) != []


def test_kills_leave_versions_to_those_that_follow_and_stay_in_their_moment() -> None:
    pace = Pace(blocked=0.001, blocked_min=0.0005, durable=0.01, interval=0.1)
    for number in range(200):
        seed = random.Random(number)
        for scale in (1.0, 0.25, 3.0):
            checkpoint = aim(Strike("checkpoint"), scale, HEAT.versions(), 0, 3, 4, pace, seed)
            assert 0 < checkpoint.seconds < scale * pace.blocked_min
            assert 10 <= checkpoint.version <= 20
            flush = aim(Strike("flush"), scale, HEAT.versions(), 50, 0, 4, pace, seed)
            assert flush.version > 60
        last = aim(Strike("random"), 1.0, HEAT.versions(), 100, 0, 4, pace, seed)
        assert last.version == 100
        assert 0 <= last.seconds < pace.interval


def test_a_miss_is_late_when_the_victim_had_returned_from_the_call() -> None:
    def launch(rank: int, version: int) -> Launch:
        events = [{"event": "checkpoint", "rank": rank, "version": version}]
        return Launch(1, Kill(2, 30, 1e-5, "checkpoint", False, False), killed=True, events=events)

    assert was_late(launch(2, 30))
    assert not was_late(launch(2, 20)), "it died on its way to the call"
    assert not was_late(launch(1, 30)), "another rank's"
