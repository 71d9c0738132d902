"""``kedge`` and ``python -m kedge`` run the kedge command that was installed with the package."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path


def main() -> None:
    """Replaces this process with the tool: the one in the package, else the one on PATH.

    Programs installed with this Python (kedge-plan) come first on the tool's PATH, so that `kedge plan` finds them.
    """
    installed = Path(__file__).parent / "bin" / "kedge"
    program = str(installed) if installed.exists() else "kedge"
    if installed.exists():
        os.environ["PATH"] = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])
    try:
        os.execvp(program, ["kedge", *sys.argv[1:]])
    except FileNotFoundError:
        sys.exit("kedge: the kedge command is neither beside the Python package nor on PATH; build it with `make build`")


if __name__ == "__main__":
    main()
