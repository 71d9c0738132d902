"""The command line of ``kedge report`` (installed as ``kedge-report``)."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from kedge.report.gather import GatherError, Sources, StoreAccount, account_of, read_looks, read_store
from kedge.report.live import serve
from kedge.report.looks import Looks, in_order
from kedge.report.model import Job
from kedge.report.page import page
from kedge.tool import find_tool

DESCRIPTION = """\
Writes a page of HTML about a job, which needs nothing beside it: attempts,
versions by rank and level, what was restored, blocked time, throughput of the
tiers, space, and what went wrong. It asks the store and this node's agent.
Agents say what is, not what was: with looks that were kept while the job ran,
the page has when each version reached each level. It names what nobody has
recorded.
"""
EPILOG = """\
Exit codes: 0 done; 1 there is no such job; 2 the call was wrong; 3 the store
could not be read.
Examples:
  kedge report climate -o climate.html
  kedge top --json >> looks.jsonl                # while the job runs
  kedge report climate --looks looks.jsonl
  kedge report climate --live
"""


def interval(text: str) -> float:
    """Seconds between looks."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600.0:
        raise argparse.ArgumentTypeError(f"'{text}': expected 0.1 to 3600 seconds")
    return seconds


def port(text: str) -> int:
    """A TCP port; 0: any that is free."""
    if not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"'{text}' is no port")
    return int(text)


def build_parser() -> argparse.ArgumentParser:
    """All options."""
    parser = argparse.ArgumentParser(
        prog="kedge report", description=DESCRIPTION, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="kedge report [OPTIONS] [JOB]",
    )
    parser.add_argument(
        "job", nargs="?", default="", metavar="JOB", help="the job, or JOB/NAME for one checkpoint name of it (default: the only job of the store)"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write the page there; - is standard output (default: kedge-JOB.html)")
    parser.add_argument("--json", action="store_true", help="print what the page says as JSON, and write no page")
    parser.add_argument(
        "--looks", metavar="FILE", action="append", default=[], help="what `kedge top --json` or `kedge status --json` printed; may be repeated"
    )
    parser.add_argument("--run", metavar="FILE", help="what `kedge run --json` printed")
    parser.add_argument(
        "--node", metavar="NAME", action="append", default=[], help="look at the agent of this node of the machine; may be repeated (default: node.name)"
    )
    parser.add_argument("--no-agent", action="store_true", help="look at no agent")
    parser.add_argument("--live", action="store_true", help="serve the page on this machine while the job runs, until Ctrl-C")
    parser.add_argument("--port", type=port, default=0, metavar="N", help="of the live page (default: any that is free)")
    parser.add_argument("-n", "--interval", type=interval, default=1.0, metavar="SECONDS", help="between looks of the live page (default: 1)")
    parser.add_argument("--store", metavar="FOLDER", help="the folder of the store (default: store.path of the configuration)")
    parser.add_argument("--job", dest="job_name", default="", metavar="NAME", help="only this job, whatever its name looks like")
    parser.add_argument("--config", metavar="FILE", help="TOML file instead of the usual places")
    parser.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="section.key=value above file and environment; may be repeated")
    return parser


def sources_of(options: argparse.Namespace) -> Sources:
    """What to ask, by the options."""
    configured = [*([f"--config={options.config}"] if options.config else []), *(f"--set={setting}" for setting in options.set)]
    return Sources(find_tool(), [*configured, *([f"--store={options.store}"] if options.store else [])], configured, options.node)


def gather(options: argparse.Namespace, sources: Sources) -> Job:
    """The account of the job. GatherError, ValueError, OSError: there is none."""
    kept = read_looks(options.looks)
    run = json.loads(Path(options.run).read_text().splitlines()[-1]) if options.run else None
    store: StoreAccount | None = None
    failed: GatherError | None = None
    try:
        store = read_store(sources, options.job, options.job_name)
    except GatherError as error:
        if error.code == 2:
            raise
        failed = error
    now, silent = ([], []) if options.no_agent else sources.look()
    name = store.job if store else options.job_name or options.job
    looks = Looks(name, store.store_id if store else "")
    for look in in_order([*kept, *now]):
        looks.take(look)
    if failed and (not name or not any(node.job_is_known for node in looks.nodes())):
        raise failed
    made = account_of(name, store, looks, run)
    made.missing += [f"{why}." for why in (*silent, *([f"The store: {failed}"] if failed else []))]
    return made


def write_page(made: Job, output: str | None) -> None:
    """To a file that is whole or not there, or to standard output."""
    text = page(made)
    if output == "-":
        print(text, end="")
        return
    safe = "".join(letter if letter.isalnum() or letter in "-_.+=@," else "_" for letter in made.job).lstrip(".")[:100]
    path = Path(output or f"kedge-{safe or 'job'}.html")
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
    print(path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    options = build_parser().parse_args(arguments)
    try:
        sources = sources_of(options)
        if options.live:
            return serve(sources, options.job, options.job_name, options.port, options.interval)
        made = gather(options, sources)
        if options.json:
            print(json.dumps(made.as_json()), flush=True)
        else:
            write_page(made, options.output)
    except GatherError as error:
        print(f"kedge report: {error}", file=sys.stderr)
        return error.code
    except BrokenPipeError:  # head has seen enough
        sys.stderr.close()
    except (ValueError, OSError) as error:
        print(f"kedge report: {error}", file=sys.stderr)
        return 2
    return 0
