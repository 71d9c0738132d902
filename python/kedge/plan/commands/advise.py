"""``kedge plan advise``: the best schedule of a system, what to expect of it, and what to improve first."""

from __future__ import annotations

import argparse
import textwrap

from kedge.plan import cli
from kedge.plan.advice import Advice, advise, curve_figure, improvement_figure, single_level_intervals
from kedge.plan.catalog import find_system, shipped_names, shipped_system
from kedge.plan.errors import PlanError
from kedge.plan.report import Section, html_page, png_bytes, write_file
from kedge.plan.schedule_section import level_periods, section_toml, write_section
from kedge.plan.system import System
from kedge.plan.table import Cell, Table, duration_text, text_table

DESCRIPTION = """\
Find the interval between checkpoints and the counts (how many checkpoints of each level before one of the next)
with the least expected time, by the multilevel asynchronous model. With --interval or --counts, advise with these
kept. The range of the efficiency holds for failure rates twice and half those given.
"""
EPILOG = """\
example:
  kedge plan advise tsubame2
  kedge plan advise my-system.toml --html advice.html --schedule kedge.toml
"""


def add(subparsers: cli.Subparsers) -> None:
    """Add the parser of this command."""
    parser = subparsers.add_parser(
        "advise",
        help="the best interval and levels, and what to improve first",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=cli.Formatter,
    )
    parser.add_argument("system", metavar="SYSTEM", nargs="?", help="system file (TOML), or a shipped system's name")
    cli.add_schedule_arguments(parser)
    parser.add_argument(
        "--objective",
        choices=("time", "energy"),
        default="time",
        help="what to minimise: expected time, or joules per useful hour ([power] table needed); default time",
    )
    parser.add_argument("--schedule", metavar="FILE", help="write the runtime's [schedule] section into this configuration file; what else it holds stays")
    parser.add_argument("--png", metavar="FILE", help="draw efficiency against interval")
    parser.add_argument("--html", metavar="FILE", help="write the whole advice as one page")
    parser.add_argument("--list", action="store_true", help="list the shipped systems")
    cli.add_json_argument(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry the command out; returns the exit code."""
    if arguments.list:
        return _list(arguments.json)
    if arguments.system is None:
        raise PlanError("SYSTEM", None, "a TOML file or the name of a shipped system (--list names them)")
    system = find_system(arguments.system)
    interval = None if arguments.interval is None else cli.parse_interval(arguments.interval, system)
    counts = None if arguments.counts is None else cli.parse_counts(arguments.counts, len(system.levels))
    advice = advise(system, objective=arguments.objective, interval_seconds=interval, counts=counts)
    if arguments.schedule:
        write_section(arguments.schedule, system, advice.schedule, "--schedule")
    if arguments.png:
        write_file(arguments.png, png_bytes(curve_figure(advice)), "--png")
    if arguments.html:
        write_file(arguments.html, html_page(f"Checkpoint plan: {system.name}", report_sections(advice)), "--html")
    if arguments.json:
        cli.print_json(answer(advice))
    else:
        print(text(advice))
    return 0


def _list(as_json: bool) -> int:
    systems = {name: shipped_system(name) for name in shipped_names()}
    if as_json:
        cli.print_json({name: {"name": system.name, "source": system.source} for name, system in systems.items()})
        return 0
    rows: list[list[Cell]] = [[name, textwrap.shorten(system.source, 54, placeholder=" ...")] for name, system in systems.items()]
    print(text_table(Table("Shipped systems", ["name", "source"], rows)))
    return 0


def answer(advice: Advice) -> dict[str, object]:
    """The advice as one JSON object."""
    return {
        "system": advice.system.name,
        **advice.evaluation.as_dict(),
        "efficiency_low": advice.efficiency_low,
        "efficiency_high": advice.efficiency_high,
        "schedule": dict(level_periods(advice.system, advice.schedule)),
        "schedule_toml": section_toml(advice.system, advice.schedule),
        "curve": [{"interval_seconds": interval, "efficiency": value} for interval, value in advice.curve],
        "improvements": [
            {"key": item.key, "value": item.value, "efficiency_when_halved": item.efficiency, "gain": item.gain}
            for item in advice.improvements
        ],
        "warnings": list(advice.warnings),
    }


def summary_table(advice: Advice) -> Table:
    """The schedule and what it is expected to give."""
    result = advice.evaluation
    rows: list[list[Cell]] = [
        ["interval between checkpoints", duration_text(result.interval_seconds)],
        ["counts", f"{list(result.counts)}"],
        [
            "levels",
            ", ".join(
                f"{name} every checkpoint" if every == 1 else f"{name} every {every} checkpoints"
                for name, every in level_periods(advice.system, advice.schedule)
            ),
        ],
        [
            "efficiency",
            f"{result.efficiency:.4f} ({advice.efficiency_low:.4f} with failures twice as often, "
            f"{advice.efficiency_high:.4f} half as often)",
        ],
        ["work", duration_text(advice.system.work_seconds)],
        ["expected time", duration_text(result.expected_seconds)],
        ["mean time between failures", duration_text(advice.system.mtbf_seconds)],
    ]
    if result.efficiency > 0.0:
        shares = (
            f"computing {result.compute_share:.2%}, checkpoints {result.checkpoint_share:.2%}, "
            f"restarts {result.restart_share:.2%}; a copy in the background {result.background_share:.1%} of the time"
        )
        rows.append(["time goes to", shares])
    if result.joules_per_useful_hour is not None:
        rows.append(["energy", f"{result.joules_per_useful_hour:.4g} J per useful hour"])
    return Table(advice.system.name, ["", ""], rows)


def improvement_table(advice: Advice) -> Table:
    """What each input is worth."""
    rows: list[list[Cell]] = [
        [item.key, item.value, item.value / 2.0, item.efficiency, f"{item.gain:+.4f}"] for item in advice.improvements
    ]
    return Table(
        "What to improve first (each input halved, interval chosen anew)",
        ["input", "now", "halved", "efficiency", "gain"],
        rows,
    )


def level_table(system: System) -> Table:
    """The levels as the model sees them."""
    rows: list[list[Cell]] = [
        [
            level.name,
            level.overhead_seconds,
            level.latency_seconds,
            level.restart_seconds,
            level.failure_rate_per_second,
            level.asynchronous,
        ]
        for level in system.levels
    ]
    header = ["level", "overhead s", "latency s", "restart s", "failures per s", "asynchronous"]
    return Table("Levels", header, rows, f"alpha {system.alpha:g}")


def text(advice: Advice) -> str:
    """The advice for a terminal."""
    parts = [text_table(summary_table(advice)), text_table(level_table(advice.system))]
    parts.append(text_table(improvement_table(advice)))
    parts.append("The runtime's configuration\n  " + section_toml(advice.system, advice.schedule).replace("\n", "\n  "))
    parts += [f"Note: {warning}" for warning in advice.warnings]
    return "\n\n".join(part.rstrip() for part in parts)


def report_sections(advice: Advice) -> list[Section]:
    """The advice as sections of an HTML page."""
    system = advice.system
    intervals: list[list[Cell]] = [[name, young, daly] for name, young, daly in single_level_intervals(system)]
    alone = Table("Each level taken alone, for comparison", ["level", "Young s", "Daly s"], intervals)
    return [
        Section("Advice", tables=[summary_table(advice)], notes=advice.warnings),
        Section("Interval", figures=[curve_figure(advice)]),
        Section("What to improve first", tables=[improvement_table(advice)], figures=[improvement_figure(advice)]),
        Section("The system", paragraphs=[system.source, system.notes], tables=[level_table(system), alone]),
        Section("The runtime's configuration", verbatim=section_toml(system, advice.schedule)),
    ]
