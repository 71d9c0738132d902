"""The thesis's numbers that follow from models alone: every claim with a tolerance is met."""

from __future__ import annotations

import math

import pytest

from kedge.plan import figures_asynchronous, figures_fmi, figures_storage
from kedge.plan.errors import PlanError
from kedge.plan.figure import Claim, Figure, FigureMaker
from kedge.plan.inmemory import mtbf_seconds, survival_probability, xor_checkpoint_seconds, xor_restart_seconds
from kedge.plan.report import Section, figure_tables, html_page, png_bytes
from kedge.plan.table import text_table

SLOW = {"sato-table-4.4", "sato-3.20", "sato-3.21", "sato-3.22", "sato-4.7", "sato-4.8", "sato-4.9", "sato-4.10", "sato-4.11", "sato-5.18"}
MAKERS: dict[str, FigureMaker] = {
    **figures_asynchronous.FIGURES,
    **figures_storage.FIGURES,
    **figures_fmi.FIGURES,
}


def check(figure: Figure, key: str) -> None:
    assert figure.key == key
    assert figure.source.startswith("[Sato]")
    missed = [claim.what for claim in figure.claims if claim.met is False]
    assert not missed
    assert all(math.isfinite(claim.ours) for claim in figure.claims)
    for series in figure.series:
        assert any(y is not None for y in series.y)


@pytest.mark.parametrize("key", sorted(set(MAKERS) - SLOW))
def test_every_number_with_a_tolerance_is_met(key: str) -> None:
    check(MAKERS[key](), key)


@pytest.mark.slow
@pytest.mark.parametrize("key", sorted(SLOW))
def test_every_number_with_a_tolerance_is_met_slow(key: str) -> None:
    check(MAKERS[key](), key)


@pytest.mark.parametrize("scale", [1.0, 10.0])
def test_allowable_logging_is_that_of_the_flat_column(scale: float) -> None:
    """Table 4.4 at its beginning and in the middle; the slow tests make the whole of it."""
    printed = figures_storage.PRINTED_ALLOWABLE["flat"][figures_storage.SCALES.index(scale)]
    assert figures_storage.allowable_logging("flat", scale) == pytest.approx(printed, rel=0.02)


def test_asynchronous_is_better_by_the_least_gain_printed() -> None:
    asynchronous, blocking = figures_asynchronous.both(1.0, 1.0)
    assert asynchronous / blocking == pytest.approx(1.1, rel=0.05)


def test_burst_buffers_keep_their_efficiency_two_orders_larger() -> None:
    """The number of figure 4.7 ("70%"), whose curves the slow tests draw."""
    assert figures_storage.best_efficiency("burst-uncoordinated", 100.0) == pytest.approx(0.70, rel=0.15)


def test_a_claim_that_is_missed_says_so() -> None:
    assert Claim("x", 1.0, 1.02, 0.05).met is True
    assert Claim("x", 1.0, 1.06, 0.05).met is False
    assert Claim("x", 1.0, math.nan, 0.05).met is False
    assert Claim("x", 1.0, 7.0).met is None


def test_a_page_holds_pictures_and_numbers_and_nothing_outside() -> None:
    figure = figures_fmi.figure_5_17()
    assert png_bytes(figure).startswith(b"\x89PNG")
    assert png_bytes(figures_storage.table_4_3()).startswith(b"\x89PNG")
    page = html_page("A & B", [Section("One <two>", ["text"], figures=[figure], verbatim="a < b")])
    assert "data:image/png;base64," in page and "A &amp; B" in page and "One &lt;two&gt;" in page
    assert "0.69148" in page
    assert "http" not in page and "<script" not in page
    text = "\n".join(text_table(table) for table in figure_tables(figure))
    assert "0.80143" in text and "2%: yes" in text


def test_xor_times_and_their_limits() -> None:
    assert xor_checkpoint_seconds(6e9, 16, 32e9, 4e9) == pytest.approx(12e9 / 32e9 + 6.4e9 / 4e9)
    assert xor_restart_seconds(6e9, 16, 32e9, 4e9) - xor_checkpoint_seconds(6e9, 16, 32e9, 4e9) == pytest.approx(1.5)
    assert xor_checkpoint_seconds(6e9, 2, 32e9, 4e9) > xor_checkpoint_seconds(6e9, 3, 32e9, 4e9)
    with pytest.raises(PlanError, match="group_nodes = 1"):
        xor_checkpoint_seconds(6e9, 1, 32e9, 4e9)
    with pytest.raises(PlanError, match="network_bytes_per_second = 0"):
        xor_checkpoint_seconds(6e9, 4, 32e9, 0.0)


def test_survival_and_mtbf() -> None:
    assert survival_probability(0.0, 1e-3) == 1.0
    assert survival_probability(1e3, 1e-3) == pytest.approx(math.exp(-1.0))
    assert mtbf_seconds(191, 5_629_933.0, 1000) == pytest.approx(1000 * mtbf_seconds(191, 5_629_933.0, 1_000_000))
    with pytest.raises(PlanError, match="failures = 0"):
        mtbf_seconds(0, 1.0, 1)
