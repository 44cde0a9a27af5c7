"""``python -m amp_lint``."""

import sys

from amp_lint.cli import main

if __name__ == "__main__":
    sys.exit(main())
