"""``python -m kedge.plan``: the same as the command ``kedge-plan``."""

import sys

if __name__ == "__main__":
    try:
        from kedge.plan.cli import main

        sys.exit(main())
    except ModuleNotFoundError as error:
        sys.exit(f"kedge plan: no module {error.name} in {sys.executable}; the planner needs NumPy, SciPy and Matplotlib")
