"""The probabilities of groups against counting by hand: every set of lost nodes, one by one."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest

from kedge.plan.cli import main
from kedge.plan.errors import PlanError
from kedge.plan.groups import (
    Protection,
    extra_share,
    group_sizes,
    loss_rate_per_second,
    survival_of_simultaneous_losses,
    survived_sets,
)

CASES = [
    (Protection("none", 0), 1),
    (Protection("partner", 1), 2),
    (Protection("partner", 1), 7),
    (Protection("partner", 2), 3),
    (Protection("partner", 2), 8),
    (Protection("xor"), 5),
    (Protection("rs", 2), 6),
    (Protection("rs", 3), 4),
]


def is_survived(protection: Protection, size: int, lost: set[int]) -> bool:
    """By the definition: some holder of each member's bytes is left."""
    if protection.scheme == "partner":
        return all(
            any((member + step) % size not in lost for step in range(protection.losses + 1)) for member in range(size)
        )
    return len(lost) <= protection.losses


@pytest.mark.parametrize(("protection", "size"), CASES)
def test_survived_sets_are_those_that_can_be_counted(protection: Protection, size: int) -> None:
    counted = [
        sum(is_survived(protection, size, set(lost)) for lost in itertools.combinations(range(size), count))
        for count in range(size + 1)
    ]
    assert survived_sets(protection, size) == counted


@pytest.mark.parametrize(("protection", "size"), CASES)
def test_simultaneous_losses_over_several_groups(protection: Protection, size: int) -> None:
    sizes = [size, size + 1] if protection.scheme != "none" else [size] * 9
    places = [(group, member) for group, count in enumerate(sizes) for member in range(count)]
    for count in range(5):
        survived = total = 0
        for lost in itertools.combinations(places, count):
            total += 1
            survived += all(
                is_survived(protection, group_size, {member for group, member in lost if group == index})
                for index, group_size in enumerate(sizes)
            )
        if total:
            expected = survived / total
            assert survival_of_simultaneous_losses(protection, sizes, count) == pytest.approx(expected, abs=1e-12)


def test_the_rate_of_losses_is_that_of_failures_at_random() -> None:
    """Failures drawn at random, counted as the definition says: first ones, and whether their window is survived."""
    generator = np.random.default_rng(7)
    protection, size, mtbf, window = Protection("xor"), 4, 100.0, 10.0
    groups = 200_000
    others = generator.random((groups, size - 1)) < -math.expm1(-window / mtbf)
    share = float(np.mean(others.any(axis=1)))
    expected = size / mtbf * share
    assert loss_rate_per_second(protection, [size], mtbf, window) == pytest.approx(expected, rel=0.02)


def test_rates_too_small_for_a_difference_are_exact() -> None:
    rate = loss_rate_per_second(Protection("rs", 3), [12], 1e9, 1.0)
    leading = 12 / 1e9 * math.comb(11, 3) * 1e-9**3
    assert rate == pytest.approx(leading, rel=1e-6)


def test_without_protection_every_failure_is_a_loss() -> None:
    assert loss_rate_per_second(Protection("none", 0), [1] * 50, 1000.0, 60.0) == pytest.approx(50 / 1000.0)


def test_group_sizes_are_those_of_the_runtime() -> None:
    assert group_sizes(7, 4, 1) == [4, 3]
    assert group_sizes(5, 4, 1) == [5]
    assert group_sizes(3, 2, 1) == [3]
    assert group_sizes(3, 10, 2) == [3]
    assert group_sizes(1024, 10, 2) == [11] * 4 + [10] * 98
    with pytest.raises(PlanError, match="nodes"):
        group_sizes(2, 10, 2)
    with pytest.raises(PlanError, match="group_nodes"):
        group_sizes(20, 2, 2)


def test_extra_bytes_are_those_of_the_scheme() -> None:
    assert extra_share(Protection("partner", 2), 8) == 2.0
    assert extra_share(Protection("xor"), 8) == pytest.approx(1 / 7)
    assert extra_share(Protection("rs", 2), 10) == 0.25


@pytest.mark.parametrize(("scheme", "losses"), [("raid", 1), ("xor", 2), ("rs", 0), ("none", 1), ("partner", 0)])
def test_what_is_no_scheme_is_refused(scheme: str, losses: int) -> None:
    with pytest.raises(PlanError):
        Protection(scheme, losses)


def answers(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, object]]:
    assert main(["groups", *words, "--json"]) == 0
    return list(json.loads(capsys.readouterr().out))


def test_the_command_compares_schemes(capsys: pytest.CaptureFixture[str]) -> None:
    both = answers(capsys, "--nodes", "64", "--node-mtbf-hours", "1000", "--scheme", "xor:8", "--scheme", "rs:10:2")
    assert [entry["scheme"] for entry in both] == ["xor", "rs"]
    xor = both[0]
    assert (xor["groups"], xor["group_nodes_min"], xor["group_nodes_max"]) == (8, 8, 8)
    rate = loss_rate_per_second(Protection("xor"), [8] * 8, 3.6e6, 600.0)
    assert xor["seconds_to_loss"] == pytest.approx(1.0 / rate)
    assert xor["loss_probability"] == pytest.approx(-math.expm1(-rate * 30 * 86400.0))
    assert xor["survival_at_once"]["2"] == pytest.approx(1.0 - 7 / 63)  # type: ignore[index]
    assert both[1]["seconds_to_loss"] > xor["seconds_to_loss"]  # type: ignore[operator]


def test_the_usual_schemes_are_those_that_fit(capsys: pytest.CaptureFixture[str]) -> None:
    few = {(entry["scheme"], entry["losses"]) for entry in answers(capsys, "--nodes", "3", "--node-mtbf-hours", "1", "--at-once", "1")}
    assert few == {("none", 0), ("partner", 1), ("partner", 2), ("xor", 1), ("rs", 2)}


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--nodes", "0", "--node-mtbf-hours", "1"], "--nodes"),
        (["--nodes", "4", "--node-mtbf-hours", "never"], "--node-mtbf-hours"),
        (["--nodes", "4", "--node-mtbf-hours", "1", "--at-once", "5"], "--at-once"),
        (["--nodes", "9", "--node-mtbf-hours", "1", "--scheme", "rs:2:2"], "group_nodes"),
        (["--nodes", "9", "--node-mtbf-hours", "1", "--scheme", "xor:x"], "--scheme"),
        (["--nodes", "9", "--node-mtbf-hours", "1", "--scheme", "raid"], "scheme"),
        (["--nodes", "9", "--node-mtbf-hours", "1", "--window", "-1"], "--window"),
    ],
)
def test_bad_input_is_refused_by_name(words: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["groups", *words]) == 2
    assert named in capsys.readouterr().err
