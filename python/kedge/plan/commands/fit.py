"""``kedge plan fit``: failure rates per level and the distribution of failures, from a log."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np

from kedge.plan import cli
from kedge.plan.catalog import find_system
from kedge.plan.distributions import GapDistribution, LogNormal, Weibull
from kedge.plan.errors import PlanError
from kedge.plan.figure import Figure, Series
from kedge.plan.fit import Fit, GapFit, LevelFit, classify_by_count, classify_by_placement, fit
from kedge.plan.report import Section, html_page, png_bytes, write_file
from kedge.plan.scenario import parse_placement
from kedge.plan.statistics import Estimate
from kedge.plan.table import Table
from kedge.plan.trace import FailureLog, load_trace

DESCRIPTION = """\
Estimate failure rates per level, with confidence limits, and test how failures are distributed. FAILURES is a CSV
with the columns time,nodes and perhaps level; or the output of "sacctmgr -P show event"; or of
"sacct -P -X -D --format=JobID,State,Start,End,NNodes". A failure's level is the one in the log; or follows from the
number of nodes it took (--levels xor:1,pfs: one node or none needs xor, more need pfs); or from the groups of the
[[simulation.protection]] tables of --system.
"""

Answer = dict[str, object]


def add(subparsers: cli.Subparsers) -> None:
    """Add the parser of this command."""
    parser = subparsers.add_parser(
        "fit",
        help="failure rates and their distribution from a log of failures",
        description=DESCRIPTION,
        epilog="example:\n  kedge plan fit failures.csv --nodes 1024 --levels xor:1,pfs",
        formatter_class=cli.Formatter,
    )
    parser.add_argument("failures", metavar="FAILURES", help="log of failures")
    parser.add_argument("--span-hours", type=float, metavar="H", help="time observed (default: until the last failure)")
    parser.add_argument("--nodes", type=int, metavar="N", help="nodes observed, for rates per node")
    parser.add_argument("--levels", metavar="NAME:NODES,...,NAME", help="levels by the number of nodes lost")
    parser.add_argument("--system", metavar="SYSTEM", help="system whose placement decides the levels")
    parser.add_argument("--merge-seconds", type=float, default=0.0, metavar="S", help="failures this close are one")
    parser.add_argument("--confidence", type=float, default=0.95, metavar="P", help="of the limits (default 0.95)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the tests' bootstrap (default 0)")
    parser.add_argument("--png", metavar="FILE", help="draw the gaps between failures and what was fitted to them")
    parser.add_argument("--html", metavar="FILE", help="write the answer as one page")
    cli.add_json_argument(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry the command out; returns the exit code."""
    for key, value in (("--span-hours", arguments.span_hours), ("--nodes", arguments.nodes)):
        if value is not None and not value > 0:
            raise PlanError(key, value, "a number above 0")
    if not arguments.merge_seconds >= 0.0:
        raise PlanError("--merge-seconds", arguments.merge_seconds, "a number of at least 0")
    cli.check_option("--seed", arguments.seed, 0, math.inf, "a whole number")
    cli.check_option("--confidence", arguments.confidence, 0.5, 0.999999)
    log, names = _classified(_load(arguments.failures).merged(arguments.merge_seconds), arguments)
    last_hours = float(log.seconds[-1]) / 3600.0
    if arguments.span_hours is not None and arguments.span_hours < last_hours:
        raise PlanError("--span-hours", arguments.span_hours, f"at least the last failure's time, {last_hours:g} hours")
    result = fit(
        log,
        level_names=names,
        span_seconds=None if arguments.span_hours is None else arguments.span_hours * 3600.0,
        nodes=arguments.nodes,
        confidence=arguments.confidence,
        seed=arguments.seed,
    )
    if arguments.png:
        write_file(arguments.png, png_bytes(_gaps_figure(log, result)), "--png")
    if arguments.html:
        sections = [Section("Rates", tables=[_rates_table(result), _gaps_table(result)], notes=result.notes)]
        sections.append(Section("Gaps between failures", figures=[_gaps_figure(log, result)]))
        write_file(arguments.html, html_page(f"Failures in {arguments.failures}", sections), "--html")
    if arguments.json:
        cli.print_json(_answer(result, arguments.confidence))
    else:
        print(_text(result, arguments.confidence))
    return 0


def _load(path: str) -> FailureLog:
    """The log; what it cannot be is said by the name that the command line has for it."""
    try:
        return load_trace(Path(path))
    except PlanError as error:
        raise PlanError("FAILURES", error.value, error.allowed) from None


def _classified(log: FailureLog, arguments: argparse.Namespace) -> tuple[FailureLog, list[str]]:
    """The log with levels, and the names of the levels to report, as the command line says."""
    if arguments.levels is not None and arguments.system is not None:
        raise PlanError("--levels", arguments.levels, "absent where --system is given: one or the other")
    if arguments.levels is not None:
        limits = _parse_limits(arguments.levels)
        return classify_by_count(log, limits), [name for name, _ in limits]
    if arguments.system is not None:
        system = find_system(arguments.system)
        names = [level.name for level in system.levels]
        placement = parse_placement(system)
        if placement is None:
            raise PlanError("--system", arguments.system, "a system with [[simulation.protection]] tables")
        if arguments.nodes is None:
            arguments.nodes = placement.nodes
        return classify_by_placement(log, placement, names), names
    return log, []


def _parse_limits(text: str) -> list[tuple[str, int | None]]:
    limits: list[tuple[str, int | None]] = []
    for part in text.split(","):
        name, colon, most = part.strip().partition(":")
        if not name or (colon and not most.isdigit()):
            raise PlanError("--levels", text, "NAME:NODES,...,NAME, such as local:0,xor:1,pfs")
        limits.append((name, int(most) if colon else None))
    return limits


def _limits(name: str, estimate: Estimate) -> Answer:
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}


def _parameters(distribution: GapDistribution) -> Answer:
    answer: Answer = {"distribution": distribution.name, "mean_seconds": distribution.mean_seconds}
    if isinstance(distribution, Weibull):
        answer["shape"] = distribution.shape
    if isinstance(distribution, LogNormal):
        answer["sigma"] = distribution.sigma
    return answer


def _gap_answer(found: GapFit) -> Answer:
    return {
        **_parameters(found.distribution),
        "aic": found.aic,
        "distance": found.distance,
        "p_value": found.p_value,
    }


def _level_answer(level: LevelFit, per_node_factor: float | None) -> Answer:
    answer: Answer = {
        "name": level.name,
        "count": level.count,
        **_limits("failure_rate_per_second", level.rate_per_second),
        **_limits("mtbf_seconds", level.mtbf_seconds),
        "trend_p_value": level.trend_p_value,
        "gaps": [_gap_answer(found) for found in level.gaps],
    }
    if per_node_factor is not None:
        answer["failure_rate_per_node_second"] = level.rate_per_second.value * per_node_factor
    return answer


def _answer(result: Fit, confidence: float) -> Answer:
    factor = None if result.node_seconds is None else result.exposure_seconds / result.node_seconds
    return {
        "exposure_seconds": result.exposure_seconds,
        "node_seconds": result.node_seconds,
        "confidence": confidence,
        "levels": [_level_answer(level, factor) for level in result.levels],
        "total": _level_answer(result.total, factor),
        "notes": list(result.notes),
    }


def _gaps_figure(log: FailureLog, result: Fit) -> Figure:
    """How often a gap is longer than x: seen, and by each fitted distribution."""
    gaps = np.sort(np.diff(log.seconds))
    gaps = gaps[gaps > 0.0]
    series = []
    if gaps.size:
        seen = 1.0 - (np.arange(gaps.size) + 0.5) / gaps.size
        series.append(Series("seen", gaps.tolist(), seen.tolist()))
        x = np.geomspace(gaps[0], gaps[-1], 60) if gaps[-1] > gaps[0] else gaps
        for found in result.total.gaps:
            curve = np.exp(found.distribution.log_survival(x))
            series.append(Series(found.distribution.name, x.tolist(), curve.tolist()))
    return Figure(
        key="gaps",
        title="Gaps between failures",
        source="",
        x_label="gap (s)",
        y_label="share of longer gaps",
        series=series,
        x_log=True,
    )


def _rates_table(result: Fit) -> Table:
    rows = [
        (
            level.name,
            level.count,
            level.rate_per_second.value,
            level.rate_per_second.low,
            level.rate_per_second.high,
            level.mtbf_seconds.value,
            level.trend_p_value,
        )
        for level in (*result.levels, result.total)
    ]
    header = ("level", "failures", "rate per second", "low", "high", "MTBF (s)", "p of no trend")
    return Table("Failure rates", header, rows, f"observed for {_duration(result.exposure_seconds)}")


def _gaps_table(result: Fit) -> Table:
    rows = [
        (level.name, _described(found.distribution), found.aic, found.distance, found.p_value)
        for level in (*result.levels, result.total)
        for found in level.gaps
    ]
    note = "p: probability of a larger distance if the gaps do come from the distribution; small rejects it"
    return Table("Distributions of the gaps", ("level", "distribution", "AIC", "distance", "p"), rows, note)


def _described(distribution: GapDistribution) -> str:
    numbers = (f"{key} {value:.4g}" for key, value in _parameters(distribution).items() if isinstance(value, float))
    return f"{distribution.name}, {', '.join(numbers)}"


def _duration(seconds: float) -> str:
    for unit, size in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2.0 * size:
            return f"{seconds / size:.4g} {unit}"
    return f"{seconds:.4g} s"


def _text(result: Fit, confidence: float) -> str:
    lines = [f"observed {_duration(result.exposure_seconds)}"]
    if result.node_seconds is not None:
        lines[0] += f", {result.node_seconds / 3600.0:.6g} node hours"
    percent = f"{100 * confidence:g}%"
    for level in (*result.levels, result.total):
        rate, mtbf = level.rate_per_second, level.mtbf_seconds
        count = "1 failure" if level.count == 1 else f"{level.count} failures"
        lines.append(
            f"{level.name}: {count}, failure_rate_per_second = {rate.value:.4g} "
            f"({percent}: {rate.low:.4g} to {rate.high:.4g}), "
            + (f"MTBF {_duration(mtbf.value)}" if math.isfinite(mtbf.value) else f"MTBF above {_duration(mtbf.low)}")
        )
        if level.trend_p_value < 1.0 - confidence:
            lines.append(f"  the rate changes over the time observed (Laplace's test, p = {level.trend_p_value:.2g})")
        for position, found in enumerate(level.gaps):
            verdict = "rejected" if found.p_value < 1.0 - confidence else "not rejected"
            best = "  best fit" if position == 0 else ""
            lines.append(
                f"  {_described(found.distribution):<52} {verdict} (p = {found.p_value:.3f}), AIC {found.aic:.1f}{best}"
            )
    lines.extend(f"note: {note}" for note in result.notes)
    return "\n".join(lines)
