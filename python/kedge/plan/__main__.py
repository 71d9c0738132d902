"""``python -m kedge.plan``: the same as the command ``kedge-plan``."""

import sys

from kedge.plan.cli import main

sys.exit(main())
