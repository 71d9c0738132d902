"""``kedge plan sweep``: the best efficiency while one or two inputs vary."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from kedge.plan import cli
from kedge.plan.catalog import find_table
from kedge.plan.errors import PlanError
from kedge.plan.figure import Figure, Series
from kedge.plan.report import Section, html_page, png_bytes, write_file
from kedge.plan.sweep import Axis, Point, changed_system, parse_axis, sweep
from kedge.plan.table import Cell, Table, text_table

DESCRIPTION = """\
Vary inputs of a system and optimise the schedule for each combination (or evaluate the one given by --interval and
--counts). KEY is a path in the system's TOML (alpha, level[store].latency_seconds, level[0].restart_seconds,
storage.tier[1].write_bytes_per_second), or a factor: failures (on all failure rates), cost[NAME] (on the costs of
a level). LOW:HIGH:COUNT is spaced logarithmically.
"""
EPILOG = """\
example:
  kedge plan sweep tsubame2 --vary failures=1:16:9 --png sweep.png
"""


def add(subparsers: cli.Subparsers) -> None:
    """Add the parser of this command."""
    parser = subparsers.add_parser(
        "sweep",
        help="vary inputs, and see what the best efficiency becomes",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=cli.Formatter,
    )
    cli.add_system_argument(parser)
    parser.add_argument(
        "--vary",
        action="append",
        metavar="KEY=VALUES",
        help="V1,V2,... or LOW:HIGH:COUNT; once or more, the last varies fastest",
    )
    cli.add_schedule_arguments(parser)
    parser.add_argument("--png", metavar="FILE", help="draw efficiency against the last KEY")
    parser.add_argument("--html", metavar="FILE", help="write picture and numbers as one page")
    cli.add_json_argument(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry the command out; returns the exit code."""
    if not arguments.vary:
        raise PlanError("--vary", None, "KEY=VALUES at least once")
    axes = [parse_axis(text) for text in arguments.vary]
    table = find_table(arguments.system)
    first = changed_system(table, axes, [axis.values[0] for axis in axes])
    interval = None if arguments.interval is None else cli.parse_interval(arguments.interval, first)
    counts = None if arguments.counts is None else cli.parse_counts(arguments.counts, len(first.levels))
    points = sweep(table, axes, interval_seconds=interval, counts=counts)
    figure = sweep_figure(first.name, axes, points)
    if arguments.png:
        write_file(arguments.png, png_bytes(figure), "--png")
    if arguments.html:
        section = Section("Efficiency", figures=[figure], tables=[point_table(first.name, axes, points)])
        write_file(arguments.html, html_page(f"Sweep: {first.name}", [section]), "--html")
    if arguments.json:
        cli.print_json({"system": first.name, "points": [_answer(axes, point) for point in points]})
    else:
        print(text_table(point_table(first.name, axes, points)))
    return 0


def _answer(axes: Sequence[Axis], point: Point) -> dict[str, object]:
    varied = {axis.key: value for axis, value in zip(axes, point.values, strict=True)}
    return {"varied": varied, "feasible": point.result is not None, **(point.result.as_dict() if point.result else {})}


def point_table(name: str, axes: Sequence[Axis], points: Sequence[Point]) -> Table:
    """A row per combination."""
    header = [*(axis.key for axis in axes), "interval s", "counts", "efficiency", "checkpoints", "restarts"]
    rows: list[list[Cell]] = []
    for point in points:
        result = point.result
        if result is None:
            rows.append([*point.values, None, "not feasible", None, None, None])
            continue
        shares: list[Cell] = [result.checkpoint_share, result.restart_share]
        rows.append([*point.values, result.interval_seconds, str(list(result.counts)), result.efficiency, *shares])
    return Table(name, header, rows)


def sweep_figure(name: str, axes: Sequence[Axis], points: Sequence[Point]) -> Figure:
    """Efficiency against the last axis, a line per combination of the others."""
    *others, last = axes
    lines: dict[tuple[float, ...], list[Point]] = {}
    for point in points:
        lines.setdefault(point.values[:-1], []).append(point)
    series = [
        Series(
            ", ".join(f"{axis.key} = {value:g}" for axis, value in zip(others, fixed, strict=True)) or "efficiency",
            [point.values[-1] for point in line],
            [point.result.efficiency if point.result else None for point in line],
        )
        for fixed, line in lines.items()
    ]
    positive = min(last.values) > 0.0 and max(last.values) / min(last.values) >= 10.0
    return Figure("sweep", f"{name}: efficiency", "", last.key, "efficiency", series, x_log=positive)
