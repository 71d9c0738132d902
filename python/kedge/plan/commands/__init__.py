"""The subcommands of ``kedge plan``, one module each.

A command module has ``add(subparsers)``, which adds its parser and sets ``run`` as its default: a function
that takes the parsed arguments and returns the exit code. The list below is the order of the help page.
"""

from __future__ import annotations

COMMANDS: tuple[str, ...] = (
    "advise",
    "sweep",
    "compare",
    "watch",
    "simulate",
    "fit",
    "groups",
    "staging",
    "sharing",
    "tracking",
    "figures",
    "curves",
)
