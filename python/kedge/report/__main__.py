"""``python -m kedge.report``: the same as ``kedge report``."""

import sys

from kedge.report.cli import main

if __name__ == "__main__":
    sys.exit(main())
