"""``kedge plan curves``: draws what ``kedge calibrate --json`` says of a node's tiers, points and curve."""

from __future__ import annotations

import argparse
import io
import json
from pathlib import Path
from typing import Any

from kedge.plan import cli
from kedge.plan.errors import PlanError
from kedge.plan.report import write_file

DESCRIPTION = """\
Draw the calibrated tiers of NUMBERS, the output of "kedge calibrate --json", into the PNG file PICTURE: measured points and
the curve that predictions are read from, one panel a tier. "kedge calibrate --png PICTURE" writes NUMBERS and calls this.
"""


def add(subparsers: cli.Subparsers) -> None:
    """Add the parser of this command."""
    parser = subparsers.add_parser(
        "curves",
        help="draw the calibration of a node's tiers",
        description=DESCRIPTION,
        epilog="example:\n  kedge plan curves tiers.json tiers.png",
        formatter_class=cli.Formatter,
    )
    parser.add_argument("numbers", metavar="NUMBERS", help="JSON of kedge calibrate")
    parser.add_argument("picture", metavar="PICTURE", help="PNG to write")
    cli.add_json_argument(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry the command out; returns the exit code."""
    try:
        document = json.loads(Path(arguments.numbers).read_text())
        tiers = [tier for tier in document["tiers"] if tier["calibrated"]]
        picture = _draw(tiers) if tiers else b""
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PlanError("NUMBERS", arguments.numbers, f"JSON of kedge calibrate ({error})") from error
    if not tiers:
        raise PlanError("NUMBERS", arguments.numbers, "JSON of kedge calibrate with at least one calibrated tier")
    write_file(arguments.picture, picture, "PICTURE")
    names = [tier["name"] for tier in tiers]
    if arguments.json:
        cli.print_json({"picture": arguments.picture, "tiers": names})
    else:
        print(f"{arguments.picture}: {', '.join(names)}")
    return 0


def _draw(tiers: list[dict[str, Any]]) -> bytes:
    """One panel a tier: total throughput over the number of writers."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(8.0, 3.6 * len(tiers)), dpi=110, layout="constrained")
    FigureCanvasAgg(canvas)
    for index, tier in enumerate(tiers):
        axes: Any = canvas.add_subplot(len(tiers), 1, index + 1)
        curve, samples = tier["curve"], tier["samples"]
        axes.plot([point["writers"] for point in curve], [point["bytes_per_second"] * 1e-6 for point in curve], label="curve")
        axes.errorbar(
            [sample["writers"] for sample in samples],
            [sample["bytes_per_second"] * 1e-6 for sample in samples],
            yerr=[sample["bytes_per_second"] * 1e-6 * sample["spread"] for sample in samples],
            fmt="o",
            markersize=4,
            label=tier["origin"],
        )
        axes.set(title=f"{tier['name']}: {tier['device']}", xlabel="writers", ylabel="MB/s together")
        axes.set_ylim(bottom=0)
        axes.grid(True, alpha=0.3)
        axes.legend(fontsize="small")
    buffer = io.BytesIO()
    canvas.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()
