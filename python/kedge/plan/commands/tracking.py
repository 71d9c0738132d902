"""``kedge plan tracking``: whether page tracking pays."""

from __future__ import annotations

import argparse
import dataclasses

from kedge.plan import cli
from kedge.plan.errors import PlanError
from kedge.plan.figure import Figure, Series
from kedge.plan.report import png_bytes, write_file
from kedge.plan.table import Table, duration_text, text_table
from kedge.plan.tracking import Costs, Tracked, break_even, tracked

DESCRIPTION = """\
Say what page tracking (capture.track) saves of a checkpoint of a rank, and by how much the application takes longer between two, for
parts of the memory that are written between them. Pages that are written one by one cost most: --run-pages says how many follow each other.
"""
EPILOG = """\
example:
  kedge plan tracking --bytes 1e9 --interval 60
  kedge plan tracking --bytes 1e9 --interval 60 --written 0.02 --run-pages 16 --json
"""
WRITTEN = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0)


def add(subparsers: cli.Subparsers) -> None:
    """Add the parser of this command."""
    parser = subparsers.add_parser(
        "tracking",
        help="whether page tracking pays",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=cli.Formatter,
    )
    parser.add_argument("--bytes", metavar="BYTES", required=True, help="of a rank's image")
    parser.add_argument("--interval", metavar="SECONDS", required=True, help="between two checkpoints")
    parser.add_argument("--written", metavar="PART,...", help="of the pages, written in an interval; default: 0.001 to 1")
    parser.add_argument("--run-pages", metavar="N", default="1", help="written pages that follow each other; default: %(default)s")
    parser.add_argument("--copy-rate", metavar="BYTES", default="10e9", help="that a checkpoint copies a second; default: %(default)s")
    parser.add_argument("--png", metavar="FILE", help="draw the blocked part against the part that is written")
    cli.add_json_argument(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry the command out; returns the exit code: 1 where it pays for none of the parts."""
    image = cli.parse_positive("--bytes", arguments.bytes)
    interval = cli.parse_interval(arguments.interval)
    costs = Costs(cli.parse_positive("--copy-rate", arguments.copy_rate), cli.parse_positive("--run-pages", arguments.run_pages))
    found = [tracked(image, written, interval, costs) for written in _parts(arguments.written)]
    if arguments.png:
        write_file(arguments.png, png_bytes(_figure(image, interval, costs)), "--png")
    most = break_even(costs)
    if arguments.json:
        rows = [dataclasses.asdict(one) | {"saved_seconds": one.saved_seconds, "pays": one.pays} for one in found]
        cli.print_json({"parts": rows, "break_even": most})
    else:
        print(text_table(_table(found)))
        print(f"It saves something where at most {most:.1%} of the pages are written in an interval.")
    return 0 if any(one.pays for one in found) else 1


def _parts(text: str | None) -> list[float]:
    if text is None:
        return list(WRITTEN)
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise PlanError("--written", text, "parts from 0 to 1, with commas between them") from None


def _table(found: list[Tracked]) -> Table:
    rows = [
        [
            f"{one.written:.3g}",
            duration_text(one.plain_seconds),
            duration_text(one.blocked_seconds),
            f"{one.blocked_seconds / one.plain_seconds:.2f}",
            f"{one.slowdown:.2%}",
            duration_text(one.saved_seconds) if one.saved_seconds > 0 else "nothing",
            "yes" if one.pays else "no",
        ]
        for one in found
    ]
    header = ["written", "plain call", "tracked call", "of plain", "steps longer", "saved an interval", "pays"]
    return Table("Page tracking", header, rows)


def _figure(image: float, interval: float, costs: Costs) -> Figure:
    parts = [10 ** (power / 10 - 4) for power in range(41)]
    found = [tracked(image, min(1.0, part), interval, costs) for part in parts]
    return Figure(
        key="tracking",
        title="A checkpoint with page tracking",
        source="kedge plan tracking",
        x_label="part of the pages that is written in an interval",
        y_label="of a plain call",
        series=[
            Series("blocked", parts, [one.blocked_seconds / one.plain_seconds for one in found]),
            Series("blocked, and computing longer", parts, [1 - one.saved_seconds / one.plain_seconds for one in found]),
        ],
        x_log=True,
    )
