"""``python -m kedge.plan``: the same as the command ``kedge-plan``."""

import sys

from kedge.plan.cli import main

if __name__ == "__main__":
    sys.exit(main())
