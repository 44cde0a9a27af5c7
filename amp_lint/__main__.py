"""``python -m amp_lint``, and the program ``amp-lint``."""

from __future__ import annotations

import sys

from amp_lint import import_path


def main() -> int:
    """Run amp-lint as a process of its own; the exit code."""
    import_path.isolate()
    from amp_lint import cli

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
