"""What sharing saves and costs: bytes by hand, and the parts of a version that was taken."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kedge.plan.cli import main
from kedge.plan.errors import PlanError
from kedge.plan.sharing import Content, Machine, choices, content_of, reduction_seconds

CONTENT = Content(zeros=0.1, copies=0.4, of_node=0.1, of_job=0.3)
MACHINE = Machine(nodes=16, ranks_per_node=4, store_bytes_per_second=1e9)
WORDS = ("sharing", "--nodes", "16", "--ranks", "4", "--store-rate", "1e9", "--block", "1e4")


def by_scope(content: Content, machine: Machine, common: float = 1e6) -> dict[str, float]:
    return {choice.scope: choice.most_loaded_node_bytes for choice in choices(content, machine, 1e9, 1e4, common)}


def test_bytes_are_those_of_the_parts() -> None:
    stored = by_scope(CONTENT, MACHINE)
    assert stored["off"] == pytest.approx(4e9)
    assert stored["rank"] == pytest.approx(4 * 0.5e9)
    assert stored["node"] == pytest.approx(4 * 0.1e9 + 0.4e9)
    assert stored["job"] == pytest.approx(4 * 0.1e9 + 0.1e9 + 0.3e9 / 16)


def test_what_is_unchanged_is_left_out() -> None:
    stored = by_scope(Content(zeros=0.5, unchanged=0.9), MACHINE)
    assert stored["off"] == pytest.approx(4e9 * 0.5 * 0.1)
    assert stored["node"] == stored["job"] == pytest.approx(stored["off"])


def test_blocks_that_nodes_do_not_agree_on_are_written_by_each() -> None:
    all_found, half_found = by_scope(CONTENT, MACHINE, 40_000), by_scope(CONTENT, MACHINE, 20_000)
    assert all_found["job"] == pytest.approx(by_scope(CONTENT, MACHINE)["job"])
    assert half_found["job"] == pytest.approx((all_found["job"] + all_found["node"]) / 2)


def test_an_image_refers_to_so_many_objects_only() -> None:
    many = Machine(nodes=128, ranks_per_node=4, store_bytes_per_second=1e9)
    stored = by_scope(CONTENT, many)
    assert stored["job"] == pytest.approx(0.4e9 + 0.1e9 + 0.3e9 * (0.5 + 0.5 / 128))


def test_one_node_shares_with_nobody() -> None:
    one = Machine(nodes=1, ranks_per_node=4, store_bytes_per_second=1e9)
    stored = by_scope(CONTENT, one)
    assert stored["job"] == pytest.approx(stored["node"])
    assert reduction_seconds(1, 1e6, one) == 0


def test_agreeing_grows_with_the_logarithm_of_the_nodes() -> None:
    """About what was measured of the merges, on the same paper network: 11.9 ms for 16,384 nodes and 4,096 blocks."""
    times = [reduction_seconds(2**power, 4096, MACHINE) for power in range(1, 15)]
    steps = [later - earlier for earlier, later in zip(times, times[1:], strict=False)]
    assert steps == pytest.approx([times[0]] * 13)
    assert times[-1] == pytest.approx(11.9e-3, rel=0.5)


def test_a_fast_store_is_not_worth_the_look() -> None:
    slow = choices(CONTENT, MACHINE, 1e9, 1e4, 1e6)
    fast = choices(CONTENT, Machine(16, 4, 1e12), 1e9, 1e4, 1e6)
    assert min(slow, key=lambda choice: choice.seconds).scope == "job"
    assert min(fast, key=lambda choice: choice.seconds).scope == "off"


def image(**bytes_in: int) -> dict[str, int]:
    return {f"{key}_bytes": bytes_in.get(key, 0) for key in ("zero", "copied", "borrowed", "common", "shared", "own")} | {"bytes": sum(bytes_in.values())}


def test_a_version_says_its_parts() -> None:
    images = [image(zero=100, copied=200, common=300, own=400), image(zero=100, copied=200, common=300, own=200, borrowed=200)]
    found = content_of({"images": images}, 2)
    assert (found.zeros, found.copies, found.of_job, found.unchanged) == (0.1, 0.2, 0.3, 0)
    assert found.of_node == pytest.approx(0.2), "of which one of two has written its own"
    assert found.own == pytest.approx(0.2)
    half = content_of({"images": [image(zero=200, common=100, own=300, shared=400)]}, 1)
    assert half.unchanged == 0.5 and half.of_job == pytest.approx(0.2)


@pytest.mark.parametrize("version", [{}, {"images": [{"bytes": 1}]}, {"images": []}])
def test_what_is_no_version_is_refused(version: dict[str, object]) -> None:
    with pytest.raises(PlanError):
        content_of(version, 1)


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "sharing.png"
    assert main([*WORDS, "--bytes", "1e9", "--copies", "0.4", "--of-job", "0.3", "--json", "--png", str(picture)]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [scope["scope"] for scope in answer["scopes"]] == ["off", "rank", "node", "job"]
    assert answer["soonest"] == "job" and answer["content"]["own"] == pytest.approx(0.3)
    assert picture.read_bytes().startswith(b"\x89PNG")
    version = tmp_path / "version.json"
    version.write_text(json.dumps({"images": [image(common=500, own=500)]}))
    assert main([*WORDS, "--version", str(version), "--bytes", "1e9"]) == 0
    assert "Soonest in the store: reduce.deduplicate = job." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([], "--bytes"),
        (["--bytes", "-1"], "--bytes"),
        (["--bytes", "1e9", "--zeros", "2"], "--zeros"),
        (["--bytes", "1e9", "--zeros", "x"], "--zeros"),
        (["--bytes", "1e9", "--zeros", "0.6", "--copies", "0.6"], "together"),
        (["--version", "/nowhere"], "--version"),
        (["--version", "/nowhere", "--zeros", "0.1"], "--zeros"),
        (["--bytes", "1e9", "--common", "0.5"], "--common"),
    ],
)
def test_bad_options_are_named(words: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, *words]) == 2
    assert named in capsys.readouterr().err
