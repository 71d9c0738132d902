"""Logs of failures in their three formats, and what is estimated from them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from kedge.plan.distributions import Exponential, GapDistribution, LogNormal, Weibull
from kedge.plan.errors import PlanError
from kedge.plan.fit import classify_by_count, classify_by_placement, fit, fit_gaps, trend_p_value
from kedge.plan.placement import Placement, Protection
from kedge.plan.statistics import proportion_estimate, rate_estimate
from kedge.plan.trace import FailureLog, expand_hostlist, load_trace


SLURM = Path(__file__).with_name("slurm")


def log_of(
    seconds: np.ndarray, nodes: list[tuple[str, ...]] | None = None, levels: list[str] | None = None
) -> FailureLog:
    count = seconds.size
    return FailureLog(seconds, tuple(nodes or [()] * count), tuple(levels or [""] * count))


def test_csv_with_seconds_nodes_and_levels(tmp_path: Path) -> None:
    path = tmp_path / "failures.csv"
    path.write_text("# from the operators\ntime,nodes,level\n200,n2;n10,store\n100,n[1-3],xor\n300,,xor\n")
    log = load_trace(path)
    assert log.seconds.tolist() == [100.0, 200.0, 300.0]
    assert log.nodes == (("n1", "n2", "n3"), ("n2", "n10"), ())
    assert log.levels == ("xor", "store", "xor")
    source = log.source(["xor", "store"], 16, None, random_phase=False)
    assert [nodes.tolist() for nodes in source.nodes] == [[1, 2, 3], [2, 10], []]
    assert source.levels.tolist() == [0, 1, 0]
    assert source.span_seconds == pytest.approx(450.0)


def test_csv_with_dates_starts_at_the_first_failure(tmp_path: Path) -> None:
    path = tmp_path / "failures.csv"
    path.write_text("time,nodes\n2011-03-01T01:00:00,a\n2011-03-01T00:00:00+00:00,b\n")
    log = load_trace(path)
    assert log.from_first and log.seconds.tolist() == [0.0, 3600.0]
    assert log.nodes == (("b",), ("a",))


def test_slurm_node_events(tmp_path: Path) -> None:
    path = tmp_path / "events.txt"
    path.write_text(
        "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User|\n"
        "main||2026-01-01T00:00:00|2026-02-01T00:00:00||Cluster Registered TRES|slurm|\n"
        "main|n1|2026-01-02T00:00:00|2026-01-02T05:00:00|DOWN*|Not responding|slurm|\n"
        "main|n2|2026-01-02T00:00:30|2026-01-02T05:00:00|DOWN*|Not responding|slurm|\n"
        "main|n3|2026-01-03T00:00:00|2026-01-03T05:00:00|DRAIN|disk change|root|\n"
        "main|n4|2026-01-04T00:00:00|2026-01-04T05:00:00|DOWN|Kill task failed|root|\n"
        "main|n5|2026-01-04T00:00:10|2026-01-04T05:00:00|DOWN|other|root|\n"
    )
    log = load_trace(path)
    assert log.nodes == (("n1", "n2"), ("n4",), ("n5",))
    assert log.seconds.tolist() == [0.0, 172800.0, 172810.0]


def test_slurm_jobs_run_on_a_clock_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text(
        "JobID|State|Start|End|NNodes\n"
        "1|COMPLETED|2026-01-01T00:00:00|2026-01-01T10:00:00|4\n"
        "1.batch|COMPLETED|2026-01-01T00:00:00|2026-01-01T10:00:00|1\n"
        "2|NODE_FAIL|2026-01-02T00:00:00|2026-01-02T02:00:00|8\n"
        "3|CANCELLED by 0|Unknown|2026-01-02T02:00:00|8\n"
        "4|FAILED|2026-01-03T00:00:00|2026-01-03T01:00:00|2\n"
    )
    log = load_trace(path)
    assert log.seconds.tolist() == [12 * 3600.0]
    assert log.span_seconds == 13 * 3600.0
    assert log.node_seconds == (40 + 16 + 2) * 3600.0
    result = fit(log)
    assert result.total.count == 1
    assert result.total.rate_per_second.value == pytest.approx(1 / (13 * 3600.0))
    assert log.source(["local"], None, None, random_phase=True).seconds.tolist() == [12 * 3600.0]


def test_node_events_as_slurm_writes_them() -> None:
    """`sacctmgr -P show event` of SLURM 22.05 with slurmdbd: daemons of n2, then of n2 again, then of n3 and n4 were killed."""
    log = load_trace(SLURM / "events.txt")
    assert log.kind == "events" and log.from_first
    assert log.nodes == (("n2",), ("n2",), ("n1",), ("n3", "n4"))
    assert log.seconds.tolist() == [0.0, 136.0, 193.0, 210.0]


def test_job_records_as_slurm_writes_them() -> None:
    """`sacct -P -X -D` of the same cluster: three jobs lost a node, of which one was requeued and waits."""
    log = load_trace(SLURM / "jobs.txt")
    assert log.kind == "jobs" and len(log.seconds) == 3
    # What ran: 4 + 4 + 5 + 2 s undisturbed, 52, 30 and 104 s until a node was lost.
    assert log.span_seconds == 4 + 4 + 5 + 2 + 52 + 30 + 104
    assert log.node_seconds == 2 * 4 + 2 * 4 + 5 + 2 + 3 * 52 + 2 * 30 + 2 * 104


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ("n1",)),
        ("n[1-3,7]", ("n1", "n2", "n3", "n7")),
        ("rack[1-2]node[08-10]", tuple(f"rack{r}node{n}" for r in (1, 2) for n in ("08", "09", "10"))),
        ("n1;n2 n3,n[4-5]", ("n1", "n2", "n3", "n4", "n5")),
        ("n1,n1", ("n1",)),
        ("", ()),
    ],
)
def test_hostlists(text: str, names: tuple[str, ...]) -> None:
    assert expand_hostlist(text) == names


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty"),
        ("when,who\n1,n1\n", "columns when, who"),
        ("time,nodes\nsoon,n1\n", r":2 = 'soon': allowed is seconds, or a time such as"),
        ("time,nodes\n-5,n1\n", "times of at least 0 s"),
        ("time,nodes\n1,n[3-1]\n", r"'n\[3-1\]': allowed is ascending ranges"),
        ("time,nodes\n1,n[a]\n", "node names, or ranges"),
        ("time,nodes,colour\n1,n1,red\n", "columns time,nodes and perhaps level"),
        ("time,nodes\n", "at least one failure"),
        ("time,nodes,level\n1\n", "3 fields, as in the header"),
        ("JobID|State|Start|End|NNodes\n", "at least one job that has run"),
    ],
)
def test_bad_logs_are_named(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(content)
    with pytest.raises(PlanError, match=message):
        load_trace(path)


def test_a_level_that_the_system_lacks_is_named() -> None:
    with pytest.raises(PlanError, match="trace = 'disk': allowed is levels named xor, store"):
        log_of(np.array([1.0]), levels=["disk"]).source(["xor", "store"], None, None, random_phase=False)


def test_rates_and_limits_are_the_exact_ones() -> None:
    """[Sato, table 2.4], Coastal: 18 failures in 2830803 node hours on 1088 nodes are 1.922e-6 per second."""
    span = 2830803 / 1088 * 3600.0
    estimate = rate_estimate(18, span, 0.95)
    assert estimate.value == pytest.approx(1.922e-6, rel=1e-3)
    # Garwood: chi-squared quantiles over twice the exposure.
    assert estimate.low == pytest.approx(stats.chi2.ppf(0.025, 36) / 2 / span)
    assert estimate.high == pytest.approx(stats.chi2.ppf(0.975, 38) / 2 / span)
    assert rate_estimate(0, 100.0, 0.95).low == 0.0
    assert rate_estimate(0, 100.0, 0.95).high == pytest.approx(-math.log(0.025) / 100.0)
    assert proportion_estimate(0, 10, 0.95).high == pytest.approx(1 - 0.025**0.1)
    assert proportion_estimate(10, 10, 0.95).low == pytest.approx(0.025**0.1)


def test_tsubame_failures_give_the_table_again() -> None:
    """[Sato 2.2.1]: 962 failures in 17 months, 92.7% of them of one node: an MTBF of 15.8 hours for nodes.

    November 1, 2010 to April 6, 2012 are 522 days; 962 failures in them are one in 13.0 hours, and 92.7% of those
    one in 14.05: within the limits of what the table's column says only if some were left out (fans, it says).
    """
    rng = np.random.default_rng(1)
    span = 522 * 86400.0
    count = round(962 * 0.927)
    result = fit(log_of(np.sort(rng.random(count) * span)), span_seconds=span)
    assert result.total.count == count
    assert result.total.mtbf_seconds.value / 3600 == pytest.approx(14.05, abs=0.01)
    assert result.total.mtbf_seconds.high / 3600 < 15.8


def test_levels_by_number_of_nodes_and_by_placement() -> None:
    nodes: list[tuple[str, ...]] = [(), ("n0",), ("n0", "n1"), ("n0", "n4"), ("n2",)]
    log = log_of(np.arange(1.0, 6.0), nodes, ["", "", "", "", "pfs"])
    counted = classify_by_count(log, [("local", 0), ("xor", 1), ("pfs", None)])
    assert counted.levels == ("local", "xor", "pfs", "pfs", "xor")
    placement = Placement(8, (Protection(0, 0), Protection(4, 1, "adjacent"), Protection()))
    placed = classify_by_placement(log, placement, ["local", "xor", "pfs"])
    assert placed.levels == ("local", "xor", "pfs", "xor", "pfs")
    result = fit(placed, level_names=["local", "xor", "rs", "pfs"], span_seconds=10.0, nodes=8)
    assert [(level.name, level.count) for level in result.levels] == [("local", 1), ("xor", 2), ("rs", 0), ("pfs", 2)]
    assert result.node_seconds == 80.0
    assert result.levels[2].mtbf_seconds.value == math.inf
    with pytest.raises(PlanError, match="the last one without a number"):
        classify_by_count(log, [("xor", 1)])


def test_without_a_span_the_cutting_failure_is_not_counted() -> None:
    ends = fit(log_of(np.array([10.0, 20.0, 40.0])))
    assert (ends.exposure_seconds, ends.total.count) == (40.0, 2)
    starts = fit(FailureLog(np.array([0.0, 10.0, 40.0]), ((),) * 3, ("",) * 3, from_first=True))
    assert (starts.exposure_seconds, starts.total.count) == (40.0, 2)
    with pytest.raises(PlanError, match=r"span_seconds = 30.0: allowed is .* at least the last failure's time, 40 s"):
        fit(log_of(np.array([10.0, 40.0])), span_seconds=30.0)


def test_merging_joins_neighbours_of_one_level() -> None:
    log = log_of(np.array([0.0, 1.0, 2.0, 10.0]), [("a",), ("b",), ("c",), ("d",)], ["x", "x", "y", "y"])
    merged = log.merged(1.0)
    assert merged.nodes == (("a", "b"), ("c",), ("d",))
    assert merged.seconds.tolist() == [0.0, 2.0, 10.0]


@pytest.mark.parametrize("truth", [Exponential(5000.0), Weibull(5000.0, 0.6), LogNormal(5000.0, 1.4)])
def test_the_distribution_is_found_again(truth: GapDistribution) -> None:
    gaps = truth.sample(np.random.default_rng(4), 800)
    found = fit_gaps(gaps, np.random.default_rng(5))
    by_name = {each.distribution.name: each for each in found}
    assert by_name[truth.name].p_value > 0.05
    if truth.name != "exponential":
        assert found[0].distribution.name == truth.name
        assert by_name["exponential"].p_value < 0.01
    else:
        assert by_name["lognormal"].p_value < 0.01
    best = by_name[truth.name].distribution
    assert best.mean_seconds == pytest.approx(5000.0, rel=0.15)
    if isinstance(truth, Weibull) and isinstance(best, Weibull):
        location, scale = stats.weibull_min.fit(gaps, floc=0)[1:]
        assert best.scale_seconds == pytest.approx(scale, rel=1e-3), location
        assert best.shape == pytest.approx(0.6, rel=0.1)
    if isinstance(truth, LogNormal) and isinstance(best, LogNormal):
        assert best.sigma == pytest.approx(np.log(gaps).std())


def test_p_values_of_the_true_distribution_are_uniform() -> None:
    """That is what the bootstrap is for: with the tables for known parameters they would crowd at 1."""
    rng = np.random.default_rng(6)
    values = [
        next(
            each for each in fit_gaps(rng.exponential(1.0, 30), rng) if each.distribution.name == "exponential"
        ).p_value
        for _ in range(60)
    ]
    assert stats.kstest(values, "uniform").pvalue > 0.01


def test_trend_is_noticed_and_its_absence_too() -> None:
    rng = np.random.default_rng(7)
    assert trend_p_value(np.sort(rng.random(200)) * 1e6, 1e6) > 0.05
    assert trend_p_value(np.sort(np.sqrt(rng.random(200))) * 1e6, 1e6) < 1e-4
    assert math.isnan(trend_p_value(np.array([1.0]), 10.0))


def test_few_gaps_are_not_fitted() -> None:
    assert fit_gaps(np.array([1.0, 2.0, 3.0]), np.random.default_rng(0)) == ()
    assert fit_gaps(np.zeros(50), np.random.default_rng(0)) == ()
