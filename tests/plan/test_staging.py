"""Numbers of staging nodes: rates by hand, and which is best."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest

from kedge.plan.catalog import shipped_system
from kedge.plan.cli import main
from kedge.plan.errors import PlanError
from kedge.plan.optimum import optimum
from kedge.plan.staging import choices, recommended, usual_counts

SYSTEM = shipped_system("tsubame2")


def test_the_number_of_the_system_file_is_the_system_itself() -> None:
    (choice,) = choices(SYSTEM, [32])
    assert choice.alpha == SYSTEM.alpha
    assert choice.read_bytes_per_second == 6.704e9 / 32
    assert choice.store_seconds == pytest.approx(6163.1 - 72.5)
    assert choice.efficiency == pytest.approx(optimum(SYSTEM).efficiency)
    assert choice.efficiency_of_all == pytest.approx(choice.efficiency * 1408 / 1440)


def test_a_node_that_is_slower_than_its_share_bounds_the_store() -> None:
    slow, enough = choices(SYSTEM, [8, 32], 0.25e9)
    assert slow.read_bytes_per_second == 0.25e9
    assert slow.store_seconds == pytest.approx((6163.1 - 72.5) * 6.704 / 2.0)
    assert enough.store_seconds == pytest.approx(6163.1 - 72.5)
    assert slow.efficiency < enough.efficiency


def test_more_nodes_disturb_less_and_cost_more() -> None:
    found = choices(SYSTEM, usual_counts(1408))
    assert [choice.alpha for choice in found] == sorted((choice.alpha for choice in found), reverse=True)
    best = recommended(found)
    assert best is not None
    assert best.efficiency_of_all == max(choice.efficiency_of_all for choice in found)
    assert found[0].nodes < best.nodes < found[-1].nodes
    undisturbed = recommended(found, alpha_max=0.002)
    assert undisturbed is not None and undisturbed.nodes == 32
    assert recommended(found, alpha_max=1e-6) is None


def test_usual_counts() -> None:
    assert usual_counts(1) == [1]
    assert usual_counts(16) == [1, 2, 4]
    assert usual_counts(8192) == [8, 16, 32, 64, 128, 256, 512, 1024, 2048]


@pytest.mark.parametrize("change", [{"staging": None}, {"nodes": None}])
def test_a_system_that_says_too_little_is_refused(change: dict[str, None]) -> None:
    with pytest.raises(PlanError):
        choices(dataclasses.replace(SYSTEM, **change), [1])  # type: ignore[arg-type]


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "staging.png"
    assert main(["staging", "tsubame2", "--nodes", "8,32", "--json", "--png", str(picture)]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [choice["nodes"] for choice in answer["choices"]] == [8, 32]
    assert answer["recommended"] == 8
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert main(["staging", "tsubame2", "--alpha", "1e-9"]) == 1
    assert "None keeps alpha below 1e-09" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--nodes", "8,x"], ["--nodes", "0"], ["--node-rate", "-1"], ["--alpha", str(math.nan)]])
def test_bad_options_are_named(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["staging", "tsubame2", *words]) == 2
    assert words[0] in capsys.readouterr().err
