"""Reading systems: what is derived, and what each mistake is answered with."""

from __future__ import annotations

from pathlib import Path

import pytest

from kedge.plan.catalog import shipped_system
from kedge.plan.errors import PlanError
from kedge.plan.system import Level, load_system, parse_system

GOOD_LEVEL = {
    "name": "store",
    "overhead_seconds": 10,
    "latency_seconds": 600.0,
    "restart_seconds": 300.0,
    "failure_rate_per_second": 1e-6,
    "asynchronous": True,
}
GOOD = {"work_seconds": 1e6, "alpha": 0.01, "level": [GOOD_LEVEL]}


def with_level(**changes: object) -> dict[str, object]:
    """GOOD with keys of its level changed; None removes a key."""
    level = {**GOOD_LEVEL, **changes}
    return {**GOOD, "level": [{key: value for key, value in level.items() if value is not None}]}


def test_a_good_system_is_read() -> None:
    system = parse_system(GOOD)
    assert system.levels == (Level("store", 10.0, 600.0, 300.0, 1e-6, True),)
    assert system.mtbf_seconds == pytest.approx(1e6)
    assert system.levels[0].background_seconds == 590.0


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (with_level(failure_rate_per_second=-1e-6), r"level\[0\].failure_rate_per_second = -1e-06.*at least 0"),
        (with_level(failure_rate_per_second="1e-6"), r"failure_rate_per_second = '1e-6'.*without quotes"),
        (with_level(failure_rate_per_second=True), r"failure_rate_per_second = True"),
        (with_level(restart_seconds=float("nan")), r"level\[0\].restart_seconds = nan"),
        (with_level(restart_seconds=None), r"level\[0\].restart_seconds is not given.*missing"),
        (with_level(restart_seconds=None, restart=300.0), r"level\[0\].restart = 300.0.*restart_seconds.*unit"),
        (with_level(restart_second=3), r"level\[0\].restart_second.*perhaps restart_seconds"),
        (with_level(latency_seconds=5.0), r"level\[0\].latency_seconds = 5.0.*at least overhead_seconds = 10"),
        (with_level(asynchronous=False), r"level\[0\].latency_seconds = 600.0.*asynchronous = true"),
        (with_level(latency_seconds=None), r"level\[0\].latency_seconds is not given"),
        (with_level(asynchronous="yes"), r"asynchronous = 'yes'.*true or false"),
        (with_level(name=""), r"level\[0\].name = ''"),
        ({**GOOD, "work_seconds": 0}, r"work_seconds = 0.*above 0"),
        ({**GOOD, "alpha": -0.1}, r"alpha = -0.1"),
        ({**GOOD, "level": []}, r"level is not given.*\[\[level\]\]"),
        ({**GOOD, "level": [GOOD_LEVEL, GOOD_LEVEL]}, r"level\[1\].name = 'store'"),
        ({**GOOD, "wrok_seconds": 3}, r"wrok_seconds = 3.*perhaps work_seconds"),
        ({**GOOD, "storage": {}}, r"one or the other"),
        ({"work_seconds": 1e6, "level": {"name": "x"}}, r"one \[\[level\]\] table per entry"),
    ],
)
def test_each_mistake_is_named_with_value_and_range(table: dict[str, object], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        parse_system(table)


def test_background_times_must_not_fall() -> None:
    slow = {**GOOD_LEVEL, "name": "xor", "latency_seconds": 900.0}
    with pytest.raises(PlanError, match=r"level\[1\].latency_seconds = 600.0.*at least 900"):
        parse_system({**GOOD, "level": [slow, GOOD_LEVEL]})


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="missing.toml"):
        load_system(tmp_path / "missing.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("work_seconds = = 3")
    with pytest.raises(PlanError, match="broken.toml.*TOML"):
        load_system(broken)
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("work_seconds = -3")
    with pytest.raises(PlanError, match=r"wrong.toml: level"):
        load_system(wrong)


def test_storage_gives_the_levels_of_the_flat_buffer_system() -> None:
    system = shipped_system("flat")
    assert system.nodes == 1088
    xor, store = system.levels
    assert xor.overhead_seconds == pytest.approx(5e9 / 260e6 + 5e9 / 400e6)
    assert xor.restart_seconds == pytest.approx(10.0)
    assert store.overhead_seconds == xor.overhead_seconds
    assert (store.latency_seconds, store.restart_seconds) == pytest.approx((544.0, 544.0))


def test_storage_shares_a_burst_buffer_among_its_nodes() -> None:
    coordinated, uncoordinated = shipped_system("burst"), shipped_system("burst-uncoordinated")
    assert coordinated.levels[0].overhead_seconds == pytest.approx(32 * 5e9 / 8.32e9 + 12.5)
    assert coordinated.levels[0].restart_seconds == pytest.approx(32 * 5e9 / 16e9)
    assert uncoordinated.levels[0].restart_seconds == pytest.approx(5e9 / 16e9)
    assert uncoordinated.levels[1].restart_seconds == pytest.approx(16 * 5e9 / 10e9)


def storage_table(**changes: object) -> dict[str, object]:
    """Two tiers; `changes` apply to the second."""
    tier = {
        "name": "xor",
        "shared_by": 2,
        "read_bytes_per_second": 1e9,
        "write_bytes_per_second": 1e9,
        "failure_rate_per_second": 1e-6,
    }
    store = {**tier, "name": "store", "shared_by": 500, "asynchronous": True, **changes}
    return {"work_seconds": 1e6, "storage": {"checkpoint_bytes_per_node": 1e9, "tier": [tier, store]}}


def test_creating_files_adds_its_own_time() -> None:
    plain = parse_system(storage_table()).levels[1].latency_seconds
    slow = parse_system(storage_table(files_per_node=8, file_creates_per_second=100.0)).levels[1].latency_seconds
    assert slow == pytest.approx(plain + 8 * 1000 / 100.0)


def test_storage_mistakes_are_named() -> None:
    with pytest.raises(PlanError, match=r"storage.tier\[1\].write_bytes_per_second = 0.*above 0"):
        parse_system(storage_table(write_bytes_per_second=0))
    with pytest.raises(PlanError, match=r"storage.tier\[1\].shared_by = 0.*whole number of at least 1"):
        parse_system(storage_table(shared_by=0))
    with pytest.raises(PlanError, match=r"storage.tier\[1\].write = 3.*write_bytes_per_second"):
        parse_system(storage_table(write=3))
    with pytest.raises(PlanError, match=r"initialization_seconds = 1900.*at most the latency"):
        parse_system(storage_table(initialization_seconds=1900))
    with pytest.raises(PlanError, match=r"initialization_seconds = 1.*asynchronous"):
        parse_system(storage_table(asynchronous=False, initialization_seconds=1))
    table = storage_table()
    storage = table["storage"]
    assert isinstance(storage, dict)
    storage["cluster_nodes"] = 1001
    with pytest.raises(PlanError, match="cluster_nodes = 1001.*from 1 to all 1000 nodes"):
        parse_system(table)


def test_alpha_follows_from_the_staging_nodes() -> None:
    system = shipped_system("tsubame2")
    assert system.alpha == pytest.approx(0.00184, rel=2e-3)
    staging = {"nodes": 32, "store_write_bytes_per_second": 6.4e9, "alpha_seconds_per_gigabyte": 0.008768}
    with pytest.raises(PlanError, match=r"alpha = 0.01.*\[staging\]"):
        parse_system({**GOOD, "staging": staging})


def test_scaling_keeps_the_local_part_of_a_background_checkpoint() -> None:
    system = shipped_system("tsubame2").scaled(2.0, [1.0, 10.0])
    assert system.levels[0] == Level("xor", 72.5, 72.5, 72.5, 2 * 1.757e-5, False)
    assert system.levels[1].overhead_seconds == 72.5
    assert system.levels[1].restart_seconds == pytest.approx(60906.0)
