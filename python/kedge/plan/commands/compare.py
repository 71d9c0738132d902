"""``kedge plan compare``: two systems side by side, each at its best schedule."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from kedge.plan import cli
from kedge.plan.catalog import find_system
from kedge.plan.errors import PlanError
from kedge.plan.figure import Figure, Series
from kedge.plan.model import Evaluation
from kedge.plan.optimum import optimum
from kedge.plan.report import Section, html_page, png_bytes, write_file
from kedge.plan.system import System
from kedge.plan.table import Cell, Table, cell_text, text_table

DESCRIPTION = """\
Compare two systems, each at the schedule that is best for it (or both at --interval and --counts), as they are and
with failures more often: which one gets more done, and from which failure rate on the other does.
"""
FACTORS_DEFAULT = "1,2,5,10,20,50,100"


@dataclass(frozen=True)
class Row:
    """Both results at one factor on the failure rates."""

    factor: float
    first: Evaluation
    second: Evaluation


def add(subparsers: cli.Subparsers) -> None:
    """Add the parser of this command."""
    parser = subparsers.add_parser(
        "compare",
        help="two systems side by side",
        description=DESCRIPTION,
        epilog="example:\n  kedge plan compare flat burst-uncoordinated",
        formatter_class=cli.Formatter,
    )
    cli.add_system_argument(parser, "first")
    cli.add_system_argument(parser, "second")
    cli.add_schedule_arguments(parser)
    parser.add_argument(
        "--failures", metavar="F1,F2,...", default=FACTORS_DEFAULT, help="factors on all rates; default %(default)s"
    )
    parser.add_argument("--png", metavar="FILE", help="draw both efficiencies against the factor")
    parser.add_argument("--html", metavar="FILE", help="write picture and numbers as one page")
    cli.add_json_argument(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry the command out; returns the exit code."""
    systems = (find_system(arguments.first), find_system(arguments.second))
    interval = None
    if arguments.interval is not None:  # long enough for both
        interval = max(cli.parse_interval(arguments.interval, system) for system in systems)
    rows = compare(systems, _factors(arguments.failures), interval, arguments.counts)
    names = (systems[0].name, systems[1].name)
    if arguments.png:
        write_file(arguments.png, png_bytes(comparison_figure(names, rows)), "--png")
    if arguments.html:
        section = Section(
            "Comparison", figures=[comparison_figure(names, rows)], tables=[comparison_table(names, rows)]
        )
        write_file(arguments.html, html_page(f"{names[0]} and {names[1]}", [section]), "--html")
    if arguments.json:
        cli.print_json(_answer(names, rows))
    else:
        print(text_table(comparison_table(names, rows)))
        print()
        print(verdict(names, rows))
    return 0


def _factors(text: str) -> list[float]:
    try:
        factors = [float(part) for part in text.split(",")]
    except ValueError:
        factors = []
    if not factors or not all(0.0 <= factor < float("inf") for factor in factors):
        raise PlanError("--failures", text, "numbers of at least 0, separated by commas")
    return factors


def compare(
    systems: tuple[System, System], factors: Sequence[float], interval: float | None, counts_text: str | None
) -> list[Row]:
    """The best (or the given) schedule of both systems at each factor on the failure rates."""
    rows = []
    for factor in factors:
        first, second = (
            optimum(
                system.scaled(factor) if factor != 1.0 else system,
                interval_seconds=interval,
                counts=None if counts_text is None else cli.parse_counts(counts_text, len(system.levels)),
            )
            for system in systems
        )
        rows.append(Row(factor, first, second))
    return rows


def comparison_table(names: tuple[str, str], rows: Sequence[Row]) -> Table:
    """A row per factor."""
    header = ["failures times"]
    for name in names:
        header += [f"{name}: interval s", "counts", "efficiency"]
    header.append("second does")
    cells: list[list[Cell]] = []
    for row in rows:
        line: list[Cell] = [row.factor]
        for result in (row.first, row.second):
            line += [result.interval_seconds, str(list(result.counts)), result.efficiency]
        ratio = row.second.efficiency / row.first.efficiency if row.first.efficiency > 0.0 else None
        cells.append([*line, "" if ratio is None else f"{cell_text(ratio)} times the work"])
    return Table(f"{names[0]} and {names[1]}", header, cells)


def verdict(names: tuple[str, str], rows: Sequence[Row]) -> str:
    """Which of the two gets more done, and where that changes."""
    better = [row.second.efficiency > row.first.efficiency for row in rows]
    start = f"At {rows[0].factor:g} times the failures {names[better[0]]} gets more done"
    for row, now in zip(rows, better, strict=True):
        if now != better[0]:
            return f"{start}; from {row.factor:g} times on {names[now]} does."
    return f"{start}, and at every factor up to {rows[-1].factor:g}."


def comparison_figure(names: tuple[str, str], rows: Sequence[Row]) -> Figure:
    """Both efficiencies against the factor."""
    factors = [row.factor for row in rows]
    series = [
        Series(names[0], factors, [row.first.efficiency for row in rows]),
        Series(names[1], factors, [row.second.efficiency for row in rows]),
    ]
    title = f"{names[0]} and {names[1]}: efficiency"
    return Figure("compare", title, "", "failure rates times", "efficiency", series, x_log=min(factors) > 0.0)


def _answer(names: tuple[str, str], rows: Sequence[Row]) -> dict[str, object]:
    return {
        "first": names[0],
        "second": names[1],
        "rows": [
            {"failure_factor": row.factor, "first": row.first.as_dict(), "second": row.second.as_dict()} for row in rows
        ],
        "verdict": verdict(names, rows),
    }
