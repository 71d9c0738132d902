"""``kedge plan staging``: how many nodes should write for the others."""

from __future__ import annotations

import argparse
import math

from kedge.plan import cli
from kedge.plan.catalog import find_system
from kedge.plan.errors import PlanError
from kedge.plan.figure import Figure, Series
from kedge.plan.report import png_bytes, write_file
from kedge.plan.staging import Choice, choices, recommended, usual_counts
from kedge.plan.system import System
from kedge.plan.table import Cell, Table, duration_text, text_table

DESCRIPTION = """\
Compare numbers of staging nodes for a system that has a [staging] table: how fast each reads, by how much that slows computing
down (alpha), how long a checkpoint takes to the store, and the efficiency with the best schedule, of the compute nodes and of
all nodes. The answer is 1 where no number keeps alpha below --alpha.
"""
EPILOG = """\
example:
  kedge plan staging tsubame2
  kedge plan staging my-system.toml --node-rate 1.5e9 --alpha 0.002
"""


def add(subparsers: cli.Subparsers) -> None:
    """Add the parser of this command."""
    parser = subparsers.add_parser(
        "staging",
        help="how many staging nodes, and what they cost",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=cli.Formatter,
    )
    cli.add_system_argument(parser)
    parser.add_argument("--nodes", metavar="N1,N2,...", help="numbers of staging nodes to compare; default: one for 1024 to 4 others")
    parser.add_argument("--node-rate", metavar="BYTES", help="what one staging node reads and writes a second at most; default: any rate")
    parser.add_argument("--alpha", metavar="PART", help="by what part of itself computing may take longer while checkpoints are read")
    parser.add_argument("--png", metavar="FILE", help="draw alpha and efficiency against the rate of one staging node")
    cli.add_json_argument(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry the command out; returns the exit code."""
    system = find_system(arguments.system)
    rate = math.inf if arguments.node_rate is None else cli.parse_positive("--node-rate", arguments.node_rate)
    alpha_max = math.inf if arguments.alpha is None else cli.parse_positive("--alpha", arguments.alpha)
    counts = usual_counts(system.nodes or 1) if arguments.nodes is None else _counts(arguments.nodes)
    found = choices(system, counts, rate)
    best = recommended(found, alpha_max)
    if arguments.png:
        write_file(arguments.png, png_bytes(_figure(system, found)), "--png")
    if arguments.json:
        cli.print_json({"choices": [_as_dict(choice) for choice in found], "recommended": best and best.nodes})
    else:
        print(text_table(_table(system, found)))
        print(f"Best of all nodes: {best.nodes} staging nodes." if best else f"None keeps alpha below {alpha_max:g}.")
    return 0 if best else 1


def _counts(text: str) -> list[int]:
    words = text.split(",")
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise PlanError("--nodes", text, "whole numbers of at least 1, with commas between them")
    return sorted({int(word) for word in words})


def _as_dict(choice: Choice) -> dict[str, object]:
    return {
        "nodes": choice.nodes,
        "compute_nodes_each": choice.compute_nodes_each,
        "read_bytes_per_second": choice.read_bytes_per_second,
        "alpha": choice.alpha,
        "store_seconds": choice.store_seconds,
        "interval_seconds": choice.best.interval_seconds,
        "efficiency": choice.efficiency,
        "efficiency_of_all": choice.efficiency_of_all,
    }


def _table(system: System, found: list[Choice]) -> Table:
    rows: list[list[Cell]] = [
        [
            choice.nodes,
            f"{choice.compute_nodes_each:.4g}",
            f"{choice.read_bytes_per_second / 1e9:.3g}",
            f"{choice.alpha:.2g}",
            duration_text(choice.store_seconds),
            f"{choice.efficiency:.4f}",
            f"{choice.efficiency_of_all:.4f}",
        ]
        for choice in found
    ]
    header = ["staging nodes", "compute nodes each", "GB/s each", "alpha", "to the store", "efficiency", "of all nodes"]
    return Table(f"{system.name}: {system.nodes} compute nodes", header, rows)


def _figure(system: System, found: list[Choice]) -> Figure:
    rates = [choice.read_bytes_per_second / 1e9 for choice in found]
    return Figure(
        key="staging",
        title=f"{system.name}: staging nodes",
        source="kedge plan staging",
        x_label="read by one staging node, GB/s",
        y_label="part",
        series=[
            Series("efficiency", rates, [choice.efficiency for choice in found]),
            Series("efficiency of all nodes", rates, [choice.efficiency_of_all for choice in found]),
            Series("alpha", rates, [choice.alpha for choice in found]),
        ],
        x_log=True,
    )
