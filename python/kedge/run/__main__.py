"""``python -m kedge.run``: the same as ``kedge run``."""

import sys

from kedge.run.cli import main

if __name__ == "__main__":
    sys.exit(main())
