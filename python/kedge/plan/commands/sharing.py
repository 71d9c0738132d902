"""``kedge plan sharing``: what reduce.deduplicate saves, and what it costs."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
from pathlib import Path
from typing import Any

from kedge.plan import cli
from kedge.plan.errors import PlanError
from kedge.plan.figure import Figure, Series
from kedge.plan.report import png_bytes, write_file
from kedge.plan.sharing import SCOPES, Choice, Content, Machine, choices, content_of
from kedge.plan.table import Table, duration_text, text_table

DESCRIPTION = """\
Compare the scopes of reduce.deduplicate for a job: what a version takes in the store, what the most loaded node writes, and how long
it takes from the capture until it is there, with what the nodes need to agree on common blocks. What the ranks have in common is
given as parts of an image, or read from a version of a small run that was taken with reduce.deduplicate = job.
"""
EPILOG = """\
example:
  kedge plan sharing --bytes 728e6 --ranks 24 --nodes 64 --copies 0.4 --of-node 0.2 --of-job 0.3 --store-rate 5e9
  kedge inspect climate/heat --brief --json > small.json
  kedge plan sharing --version small.json --ranks 24 --nodes 64 --store-rate 5e9
"""
PARTS = ("zeros", "copies", "of-node", "of-job", "unchanged")


def add(subparsers: cli.Subparsers) -> None:
    """Add the parser of this command."""
    parser = subparsers.add_parser(
        "sharing",
        help="what equal blocks save, and what finding them costs",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=cli.Formatter,
    )
    parser.add_argument("--nodes", metavar="N", required=True, help="nodes of the job")
    parser.add_argument("--ranks", metavar="N", default="1", help="ranks of each node; default: %(default)s")
    parser.add_argument("--store-rate", metavar="BYTES", required=True, help="what the store takes a second, of all nodes")
    parser.add_argument("--node-rate", metavar="BYTES", help="what one node writes a second at most; default: any rate")
    parser.add_argument("--look-rate", metavar="BYTES", default="2.5e9", help="what one node compares a second; default: %(default)s")
    parser.add_argument("--bytes", metavar="BYTES", help="of a rank's image; needed without --version")
    parser.add_argument("--version", metavar="FILE", help="what `kedge inspect --brief --json` says of a version of fewer ranks")
    parser.add_argument("--version-ranks", metavar="N", help="ranks of each node in that version; default: --ranks")
    parser.add_argument("--zeros", metavar="PART", help="of an image: blocks of zeros")
    parser.add_argument("--copies", metavar="PART", help="of an image: blocks that equal an earlier one of the image")
    parser.add_argument("--of-node", metavar="PART", help="of an image: blocks that all ranks of the node have")
    parser.add_argument("--of-job", metavar="PART", help="of an image: blocks that all ranks of the job have")
    parser.add_argument("--unchanged", metavar="PART", help="of what is not zeros: what the version before has (incremental)")
    parser.add_argument("--block", metavar="BYTES", default="65536", help="reduce.block; default: %(default)s")
    parser.add_argument("--common", metavar="N", default="65536", help="reduce.common; default: %(default)s")
    parser.add_argument("--png", metavar="FILE", help="draw what the most loaded node writes against the number of nodes")
    cli.add_json_argument(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry the command out; returns the exit code."""
    rate = cli.parse_positive
    machine = Machine(
        nodes=int(rate("--nodes", arguments.nodes, whole=True)),
        ranks_per_node=int(rate("--ranks", arguments.ranks, whole=True)),
        store_bytes_per_second=rate("--store-rate", arguments.store_rate),
        node_bytes_per_second=math.inf if arguments.node_rate is None else rate("--node-rate", arguments.node_rate),
        look_bytes_per_second=rate("--look-rate", arguments.look_rate),
    )
    content, image_bytes = _content(arguments, machine)
    block, common = rate("--block", arguments.block), rate("--common", arguments.common, whole=True)
    found = choices(content, machine, image_bytes, block, common)
    best = min(found, key=lambda choice: (choice.seconds, SCOPES.index(choice.scope)))
    if arguments.png:
        write_file(arguments.png, png_bytes(_figure(content, machine, image_bytes, block, common)), "--png")
    if arguments.json:
        scopes = [dataclasses.asdict(choice) for choice in found]
        cli.print_json({"content": dataclasses.asdict(content) | {"own": content.own}, "scopes": scopes, "soonest": best.scope})
    else:
        print(text_table(_table(found, machine)))
        print(f"Soonest in the store: reduce.deduplicate = {best.scope}.")
    return 0


def _content(arguments: argparse.Namespace, machine: Machine) -> tuple[Content, float]:
    given = {part: getattr(arguments, part.replace("-", "_")) for part in PARTS}
    if arguments.version is None:
        if arguments.bytes is None:
            raise PlanError("--bytes", None, "the bytes of a rank's image, or --version")
        parts = {part.replace("-", "_"): _part(f"--{part}", text) for part, text in given.items() if text is not None}
        return Content(**parts), cli.parse_positive("--bytes", arguments.bytes)
    said = [f"--{part}" for part, text in given.items() if text is not None]
    if said:
        raise PlanError(said[0], given[said[0][2:]], "left out: --version says it")
    version = _read(arguments.version)
    ranks = machine.ranks_per_node
    if arguments.version_ranks is not None:
        ranks = int(cli.parse_positive("--version-ranks", arguments.version_ranks, whole=True))
    content = content_of(version, ranks)
    mean = sum(image["bytes"] for image in version["images"]) / len(version["images"])
    return content, mean if arguments.bytes is None else cli.parse_positive("--bytes", arguments.bytes)


def _part(option: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise PlanError(option, text, "a part from 0 to 1") from None
    if not 0 <= value <= 1:
        raise PlanError(option, text, "a part from 0 to 1")
    return value


def _read(path: str) -> dict[str, Any]:
    try:
        version = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise PlanError("--version", path, f"a file that kedge inspect --brief --json has written ({error})") from None
    if not isinstance(version, dict):
        raise PlanError("--version", path, "what kedge inspect --brief --json prints")
    return version


def _table(found: list[Choice], machine: Machine) -> Table:
    most = found[0].stored_bytes
    rows = [
        [
            choice.scope,
            f"{choice.stored_bytes / 1e9:.4g}",
            f"{choice.stored_bytes / most:.3f}",
            f"{choice.most_loaded_node_bytes / 1e9:.4g}",
            "" if choice.scope != "job" else duration_text(choice.reduction_seconds),
            duration_text(choice.seconds),
        ]
        for choice in found
    ]
    header = ["deduplicate", "stored, GB", "of off", "a node, GB", "to agree", "in the store after"]
    return Table(f"{machine.nodes} nodes of {machine.ranks_per_node} ranks", header, rows)


def _figure(content: Content, machine: Machine, image_bytes: float, block: float, common: float) -> Figure:
    nodes = [2**power for power in range(max(1, math.ceil(math.log2(max(2, machine.nodes)))) + 1)]
    loads = [choices(content, dataclasses.replace(machine, nodes=count), image_bytes, block, common) for count in nodes]
    return Figure(
        key="sharing",
        title="What a node writes of a version",
        source="kedge plan sharing",
        x_label="nodes",
        y_label="GB",
        series=[
            Series(scope, [float(count) for count in nodes], [at[index].most_loaded_node_bytes / 1e9 for at in loads])
            for index, scope in enumerate(SCOPES)
        ],
        x_log=True,
    )
